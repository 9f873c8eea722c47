// Package trials records the trials of this manager in the ConfigMap of each
// provider, so that a module cannot end a manager twice.
package trials

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/status"
	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/trial"
	"github.com/wasm-ccm/wasm-ccm/host/internal/manager/tasks"
)

const (
	// beginTimeout bounds what a module waits for before it is loaded.
	beginTimeout = 20 * time.Second
	// noteRetry is the time between two tries to write what may be late.
	noteRetry = 2 * time.Second
	// LeaveTimeout bounds what the end of the process waits for. It is less than
	// the grace period of the liveness probe.
	LeaveTimeout = 4 * time.Second
	// leaveRetry is the time between two tries of that.
	leaveRetry = 200 * time.Millisecond
)

// Trials are those of all providers of this process: what ended the process
// before may be the fault of any of them.
type Trials struct {
	// manager names this manager, also after its restart.
	manager string
	// whoAmI asks the API server for the account of this process; account is the answer.
	whoAmI  func(context.Context) (trial.Account, error)
	account trial.Account
	clock   clock.Clock
	began   int64 // no attempt of this process has a lower number

	// sealed is closed when all books are made.
	sealed chan struct{}

	mu       sync.Mutex
	books    []*Book
	first    []*Book // those that were made before it was sealed
	attempts int64

	// endings are where the orderly end of this process is noted without the API server.
	endings endings
	// pod is this process's Pod. ended asks what others know of the end of the
	// process before; said is the answer, once recovered is true.
	pod   string
	ended func(context.Context, trial.Mark) Said
	said  Said

	// recovering is held while the books are read; ending is known once recovered is true.
	recovering tasks.Turn
	recovered  bool
	ending     trial.Ending
	// elders are what other managers have left, by name.
	elders map[string]elder
}

// Book is the record of the trials of one provider and its signers, in the
// provider's ConfigMap.
type Book struct {
	*Trials
	provider string
	object   *status.Object
	logger   klog.Logger

	closed atomic.Bool // this process ends: nothing begins any more
	// changing is held while the book is written. What it guards:
	changing tasks.Turn
	opened   bool // what the process before left is settled
	// late: it was made after all others were read.
	late bool

	noting sync.Mutex
	notes  []note
	wake   chan struct{}
}

// note is a change that may be late.
type note func(*trial.Book)

// Options of Trials.
type Options struct {
	// Manager names this one; it has the same name after a restart.
	Manager string
	// WhoAmI asks the API server for the account that this process has; without an
	// answer each mark of before counts.
	WhoAmI func(context.Context) (trial.Account, error)
	// Dir is a directory that the next process of this manager has as well, "" for none.
	Dir string
	// Pod names the one in which this process runs, "" where nobody says.
	Pod string
	// Ended asks what others know of the end of the process that left a mark. It may
	// be nil.
	Ended func(context.Context, trial.Mark) Said
}

// New returns those of a manager.
func New(o Options) *Trials {
	real := clock.RealClock{}
	if o.Ended == nil {
		o.Ended = func(context.Context, trial.Mark) Said { return Said{} }
	}
	noted := endings{o.Dir}
	// Invariant M16 (host/SECURITY.md): what was noted is never about this process, also where the
	// clock was ahead then.
	began := max(real.Now().UnixNano(), noted.last().Last+1)
	return &Trials{
		manager: o.Manager, whoAmI: o.WhoAmI, endings: noted, pod: o.Pod, ended: o.Ended,
		clock: real, began: began, attempts: began - 1, sealed: make(chan struct{}), recovering: tasks.NewTurn(), elders: map[string]elder{},
	}
}

// Seal says that the books are made of all providers that there are at the start:
// any of them may have ended the process before.
func (t *Trials) Seal() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.first = slices.Clone(t.books)
	close(t.sealed)
}

// Book makes the one of a provider. Made after Seal, it is held against what it
// says itself.
func (t *Trials) Book(ctx context.Context, provider string, object *status.Object) *Book {
	b := &Book{late: t.isSealed(), Trials: t, provider: provider, object: object, logger: klog.FromContext(ctx), wake: make(chan struct{}, 1), changing: tasks.NewTurn()}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.books = append(t.books, b)
	return b
}

func (t *Trials) isSealed() bool {
	select {
	case <-t.sealed:
		return true
	default:
		return false
	}
}

// Close ends the book of a provider that is not configured any more: its marks
// are struck out, and nothing of it begins. With the context's end it gives up;
// then the marks stand until there is a book of the provider again.
func (b *Book) Close(ctx context.Context) error {
	err := b.leaveAtLast(ctx)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.books = slices.DeleteFunc(b.books, func(x *Book) bool { return x == b })
	return err
}

// recover reads, once, what the process before has left in all books.
func (t *Trials) recover(ctx context.Context) (trial.Ending, error) {
	select {
	case <-t.sealed:
	case <-ctx.Done():
		return trial.Ending{}, ctx.Err()
	}
	if err := t.recovering.Take(ctx); err != nil {
		return trial.Ending{}, err
	}
	defer t.recovering.Leave()
	if t.recovered {
		return t.ending, nil
	}
	account, err := t.whoAmI(ctx)
	if err != nil {
		klog.FromContext(ctx).Error(err, "The account of this manager is not known, so marks of before it was installed count, too")
	}
	t.account = account
	left, err := t.left(ctx, t.manager)
	if err != nil {
		return trial.Ending{}, err
	}
	if left = t.endings.without(left); len(left) > 0 {
		t.said = t.ended(ctx, newest(left))
		left = t.said.without(left)
	}
	blamed := trial.Blame(left, t.clock.Now())
	t.ending, t.recovered = trial.Ending{Blamed: blamed, Boot: bootID(), Words: t.said.of(blamed)}, true
	return t.ending, nil
}

// left are the marks of a manager in all books that there were at the start.
func (t *Trials) left(ctx context.Context, manager string) (left []trial.Mark, err error) {
	for _, b := range t.first {
		text, err := b.object.Trials(ctx)
		if err != nil {
			return nil, err
		}
		read, err := b.decode(text)
		if err != nil {
			b.logger.Error(err, "The trials of the provider cannot be read, so no new module of it is loaded")
			continue // the others have nothing to do with it
		}
		read.Forget(t.account)
		left = append(left, read.Left(manager)...)
	}
	return left, nil
}

// attempt is a number that no other attempt of this manager has, also none
// before a restart.
func (t *Trials) attempt() int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.attempts = max(t.attempts+1, t.clock.Now().UnixNano())
	return t.attempts
}

func (b *Book) decode(text string) (*trial.Book, error) {
	read, err := trial.Decode(text)
	if err != nil {
		return nil, fmt.Errorf("ConfigMap %s, key trials: %w; remove the key, which also clears the suspected revisions", b.object.Name(), err)
	}
	return read, nil
}

// change writes the book with what change and the notes make of it.
func (b *Book) change(ctx context.Context, change func(*trial.Book) error) error {
	ending, err := b.recover(ctx)
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
	return b.write(ctx, ending, change)
}

// ofBefore are the marks that this manager left before its restart. Those of this
// process are of a provider that was removed, and is configured again.
func (b *Book) ofBefore(book *trial.Book) []trial.Mark {
	return b.said.without(b.endings.without(slices.DeleteFunc(book.Left(b.manager), func(m trial.Mark) bool { return m.ID >= b.began })))
}

// errEnds is of a book that was closed.
var errEnds = errors.New("the manager ends")

// write is called with changing held.
func (b *Book) write(ctx context.Context, ending trial.Ending, change func(*trial.Book) error) error {
	notes := b.take()
	written := false
	err := b.object.ChangeTrials(ctx, func(text string) (string, error) {
		book, err := b.decode(text)
		if err != nil {
			return text, err
		}
		if !b.opened {
			book.Forget(b.account)
		}
		switch {
		case !b.opened && b.late:
			ending.Blamed = trial.Blame(b.ofBefore(book), b.clock.Now())
			book.Recover(b.manager, ending, b.clock.Now())
		case !b.opened:
			book.Recover(b.manager, ending, b.clock.Now())
		}
		for _, change := range notes {
			change(book)
		}
		verdict := change(book)
		text, err = book.Encode()
		written = err == nil
		return text, errors.Join(err, verdict)
	})
	if written = written && (err == nil || isVerdict(err)); !written {
		b.put(notes)
		return err
	}
	b.opened = true
	return err
}

// isVerdict tells the book's answer from a failure to write it.
func isVerdict(err error) bool {
	var suspect *trial.Suspect
	var busy *trial.Busy
	return errors.As(err, &suspect) || errors.As(err, &busy)
}

func (b *Book) take() []note {
	b.noting.Lock()
	defer b.noting.Unlock()
	notes := b.notes
	b.notes = nil
	return notes
}

// put has notes written, before those that came meanwhile.
func (b *Book) put(notes []note) {
	if len(notes) == 0 {
		return
	}
	b.noting.Lock()
	b.notes = append(notes, b.notes...)
	b.noting.Unlock()
	b.signal()
}

func (b *Book) signal() {
	select {
	case b.wake <- struct{}{}:
	default: // run has yet to look
	}
}

// note has a change written soon.
func (b *Book) note(change note) {
	b.noting.Lock()
	b.notes = append(b.notes, change)
	b.noting.Unlock()
	b.signal()
}

// Run writes notes until the context ends, or the book is closed.
func (b *Book) Run(ctx context.Context) {
	var again <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case <-b.wake:
		case <-again:
		}
		again = nil
		bounded, cancel := context.WithTimeout(ctx, beginTimeout)
		err := b.change(bounded, func(*trial.Book) error { return nil })
		cancel()
		switch {
		case errors.Is(err, errEnds):
			return
		case err != nil && ctx.Err() == nil:
			b.logger.Error(err, "The result of a trial is not written yet", "retryAfter", noteRetry)
			again = b.clock.After(noteRetry)
			select {
			case <-b.wake: // it is of the notes that were just put back
			default:
			}
		}
	}
}

// leave removes all marks of this process at its orderly end, and refuses new
// ones.
func (b *Book) leave(ctx context.Context) error {
	b.closed.Store(true) // also where a write that hangs is not waited for
	if err := b.changing.Take(ctx); err != nil {
		return fmt.Errorf("the trials of provider %s are being written: %w", b.provider, err)
	}
	defer b.changing.Leave()
	if !b.opened {
		return nil // nothing was begun
	}
	return b.write(ctx, trial.Ending{}, func(book *trial.Book) error {
		book.Leave(b.manager)
		return nil
	})
}

// leaveAtLast tries until the context ends.
func (b *Book) leaveAtLast(ctx context.Context) error {
	err := b.leave(ctx)
	for ; err != nil && ctx.Err() == nil; err = b.leave(ctx) {
		select {
		case <-ctx.Done():
		case <-b.clock.After(leaveRetry):
		}
	}
	return err
}

// Leave strikes out what this process has in all books. An API server that is
// away for a moment is often the reason of the end, so each is tried again, and
// none waits for another.
func (t *Trials) Leave(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, LeaveTimeout)
	defer cancel()
	t.mu.Lock()
	books, last := slices.Clone(t.books), t.attempts
	t.mu.Unlock()
	noted := t.endings.note(t.began, last) // first: it needs no API server
	all := make([]error, len(books), len(books)+1)
	var wg sync.WaitGroup
	for i, b := range books {
		wg.Go(func() { all[i] = b.leaveAtLast(ctx) })
	}
	wg.Wait()
	return errors.Join(append(all, noted)...)
}
