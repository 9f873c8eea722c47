// Package trials records the trials of this manager in the ConfigMap of each
// provider, so that a module cannot end a manager twice.
package trials

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/klog/v2"

	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/status"
	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/trial"
	"github.com/wasm-ccm/wasm-ccm/host/internal/manager/tasks"
)

const (
	// beginTimeout bounds a module's wait before it is loaded.
	beginTimeout = 20 * time.Second
	// noteRetry is the delay between attempts to write notes.
	noteRetry = 2 * time.Second
	// LeaveTimeout bounds the wait at the end of the process. It is shorter
	// than the grace period of the liveness probe.
	LeaveTimeout = 4 * time.Second
	// leaveRetry is the delay between attempts at the end.
	leaveRetry = 200 * time.Millisecond
)

// Trials are the trials of all providers of this process: any of them may have
// ended the previous process.
type Trials struct {
	Options
	began  int64  // the lowest number of this process's attempts
	before ending // the previous process's note

	mu       sync.Mutex
	books    []*Book
	attempts int64

	// recovering is held until all books are made, and while they are read. It guards:
	recovering tasks.Turn
	// left are the previous process's marks in all books, and found is the time
	// of their reading, account this process's own, and said the report about
	// that end. They are set once.
	left    []trial.Mark
	found   time.Time
	account trial.Account
	said    Said
}

// Book is the record of the trials of one provider and its signers, in the
// provider's ConfigMap.
type Book struct {
	*Trials
	provider string
	object   *status.Object
	logger   klog.Logger

	closed atomic.Bool // the book has ended: nothing begins any more
	// changing is held while the book is written. It guards:
	changing tasks.Turn
	opened   bool // the previous process's marks are settled

	notes []func(*trial.Book) // changes for the next write, guarded by mu
	wake  chan struct{}
}

// Options of Trials.
type Options struct {
	// Manager identifies this manager; it is the same after a restart.
	Manager string
	// WhoAmI asks the API server for the account of this process; without an
	// answer every earlier mark counts.
	WhoAmI func(context.Context) (trial.Account, error)
	// Dir is a directory that the manager's next process shares, "" for none.
	Dir string
	// Pod is the name of this process's Pod, "" if unknown.
	Pod string
	// Ended returns another component's report about the end of the process
	// that left a mark; may be nil.
	Ended func(context.Context, trial.Mark) Said
}

// New returns the trials of a manager.
func New(o Options) *Trials {
	before := noted(o.Dir)
	// Invariant M16 (host/SECURITY.md): what was noted is never about this process, also where the
	// clock was ahead then.
	began := max(time.Now().UnixNano(), before.Last+1)
	t := &Trials{Options: o, began: began, before: before, attempts: began - 1, recovering: tasks.NewTurn()}
	t.recovering <- struct{}{}
	return t
}

// Seal declares the books of the start complete: any of their providers may
// have ended the previous process.
func (t *Trials) Seal() { t.recovering.Leave() }

// Book makes the book of a provider.
func (t *Trials) Book(ctx context.Context, provider string, object *status.Object) *Book {
	b := &Book{Trials: t, provider: provider, object: object, logger: klog.FromContext(ctx), wake: make(chan struct{}, 1), changing: tasks.NewTurn()}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.books = append(t.books, b)
	return b
}

// recover reads, once, the previous process's marks in all books.
func (t *Trials) recover(ctx context.Context) ([]trial.Mark, error) {
	if err := t.recovering.Take(ctx); err != nil {
		return nil, err
	}
	defer t.recovering.Leave()
	if !t.found.IsZero() {
		return t.left, nil
	}
	account, err := t.WhoAmI(ctx)
	if err != nil {
		klog.FromContext(ctx).Error(err, "The account of this manager is unknown, so marks from before its installation count, too")
	}
	t.account = account
	var left []trial.Mark
	if err := t.each(ctx, func(b *trial.Book) { left = append(left, b.Left(t.Manager)...) }); err != nil {
		return nil, err
	}
	if left = t.unexplained(left); len(left) > 0 && t.Ended != nil {
		t.said = t.Ended(ctx, slices.MaxFunc(left, func(a, b trial.Mark) int { return cmp.Compare(a.ID, b.ID) }))
	}
	t.found, t.left = time.Now(), left
	return left, nil
}

// each reads all books.
func (t *Trials) each(ctx context.Context, do func(*trial.Book)) error {
	t.mu.Lock()
	books := slices.Clone(t.books)
	t.mu.Unlock()
	for _, b := range books {
		text, err := b.object.Trials(ctx)
		if err != nil {
			return err
		}
		read, err := b.decode(text)
		if err != nil {
			b.logger.Error(err, "The trials of the provider cannot be read, so no new module of it is loaded")
			continue // the others are independent of it
		}
		read.Forget(t.account)
		do(read)
	}
	return nil
}

// guilty reports whether the mark of another manager explains that manager's end: it
// has had no newer trial, in any book. If the books are unreadable, it does.
func (t *Trials) guilty(ctx context.Context, m trial.Mark) bool {
	newer := false
	err := t.each(ctx, func(b *trial.Book) { newer = newer || b.Newer(m, time.Now()) })
	if err != nil {
		klog.FromContext(ctx).Error(err, "Cannot read another manager's marks", "manager", m.Manager)
	}
	return err != nil || !newer
}

// attempt is a unique number of this manager, even across restarts.
func (t *Trials) attempt() int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.attempts = max(t.attempts+1, time.Now().UnixNano())
	return t.attempts
}

func (b *Book) decode(text string) (*trial.Book, error) {
	read, err := trial.Decode(text)
	if err != nil {
		return nil, fmt.Errorf("ConfigMap %s, key trials: %w; remove the key, which also clears the suspected revisions", b.object.Name(), err)
	}
	return read, nil
}

// change writes the book after the change and the notes.
func (b *Book) change(ctx context.Context, change func(*trial.Book) error) error {
	left, err := b.recover(ctx)
	if err != nil {
		return err
	}
	if err := b.changing.Take(ctx); err != nil {
		return err
	}
	defer b.changing.Leave()
	if b.closed.Load() {
		return errEnds
	}
	return b.write(ctx, left, change)
}

// errEnds is for a closed book: the next leader tries the module.
var errEnds error = &trial.Busy{Why: "this one ends"}

// write is called with changing held.
func (b *Book) write(ctx context.Context, left []trial.Mark, change func(*trial.Book) error) error {
	b.mu.Lock()
	notes := b.notes
	b.mu.Unlock()
	err := b.object.ChangeTrials(ctx, func(text string) (string, error) {
		book, err := b.decode(text)
		if err != nil {
			return text, err
		}
		if !b.opened {
			b.open(book, left)
		}
		for _, change := range notes {
			change(book)
		}
		verdict := change(book)
		after, err := book.Encode()
		if err != nil {
			return text, err
		}
		return after, verdict
	})
	if err != nil && !trial.Decided(err) {
		return err
	}
	b.opened = true
	b.mu.Lock()
	b.notes = b.notes[len(notes):]
	b.mu.Unlock()
	return err
}

// open settles the previous process's marks. A provider that is added later
// answers for its own book, too; marks of this process in it are from before
// its removal.
func (b *Book) open(book *trial.Book, left []trial.Mark) {
	book.Forget(b.account)
	own := slices.DeleteFunc(book.Left(b.Manager), func(m trial.Mark) bool { return m.ID >= b.began })
	blamed, words := trial.Blame(b.unexplained(slices.Concat(left, own)), b.found), ""
	if blamed != nil && b.said.own(*blamed) {
		words = b.said.Text
	}
	book.Recover(b.Manager, blamed, bootID(), words, b.found)
}

// note queues a change for the next write.
func (b *Book) note(change func(*trial.Book)) {
	b.mu.Lock()
	b.notes = append(b.notes, change)
	b.mu.Unlock()
	select {
	case b.wake <- struct{}{}:
	default: // a signal is pending
	}
}

// Run writes notes until the context ends, or the book is closed.
func (b *Book) Run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-b.wake:
		}
		_ = wait.PollUntilContextCancel(ctx, noteRetry, true, func(ctx context.Context) (bool, error) {
			ctx, cancel := context.WithTimeout(ctx, beginTimeout)
			defer cancel()
			err := b.change(ctx, func(*trial.Book) error { return nil })
			if err == nil || b.closed.Load() || errors.Is(ctx.Err(), context.Canceled) {
				return true, nil
			}
			b.logger.Error(err, "The result of a trial is not written yet", "retryAfter", noteRetry)
			return false, nil
		})
		if b.closed.Load() {
			return
		}
	}
}

// Close closes the book, at the orderly end of this process or the removal of
// its provider: its marks are struck out, and no trial begins. The cause is
// often an API server that is away for a moment, so it retries until the
// context ends; then the marks stay until the provider has a book again.
func (b *Book) Close(ctx context.Context) (err error) {
	b.closed.Store(true) // even without a wait for a write that hangs
	_ = wait.PollUntilContextCancel(ctx, leaveRetry, true, func(ctx context.Context) (bool, error) {
		err = b.leave(ctx)
		return err == nil, nil
	})
	b.mu.Lock()
	defer b.mu.Unlock()
	b.books = slices.DeleteFunc(b.books, func(x *Book) bool { return x == b })
	return err
}

func (b *Book) leave(ctx context.Context) error {
	if err := b.changing.Take(ctx); err != nil {
		return fmt.Errorf("the trials of provider %s are being written: %w", b.provider, err)
	}
	defer b.changing.Leave()
	b.mu.Lock()
	unheard := len(b.notes) > 0
	b.mu.Unlock()
	if !b.opened && !unheard {
		return nil // nothing was begun
	}
	left, err := b.recover(ctx)
	if err != nil {
		return err
	}
	return b.write(ctx, left, func(book *trial.Book) error {
		book.Leave(b.Manager)
		return nil
	})
}

// Leave closes all books, in parallel.
func (t *Trials) Leave(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, LeaveTimeout)
	defer cancel()
	t.mu.Lock()
	books, last := slices.Clone(t.books), t.attempts
	t.mu.Unlock()
	all := make([]error, len(books)+1)
	all[len(books)] = ending{t.began, last}.note(t.Dir) // first: it needs no API server
	var wg sync.WaitGroup
	for i, b := range books {
		wg.Go(func() { all[i] = b.Close(ctx) })
	}
	wg.Wait()
	return errors.Join(all...)
}
