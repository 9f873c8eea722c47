package brake

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// book is the bucket as this manager knows it; the ledger has the authoritative one. Another
// leader may have taken permits meanwhile, never added any.
type book struct {
	bucket bucket
	known  bool
	err    error     // the ledger's last error
	again  time.Time // when the ledger may be tried again
}

// ledgerPause is the time between two tries of a failing ledger.
const ledgerPause = 10 * time.Second

// errNone means that the bucket has no permit.
var errNone = errors.New("no permit is left")

// read returns the current bucket, whether the record must be written again, and an error
// for an unreadable text. After that error only permits that refill from now on exist.
func (k *book) read(text string, now time.Time, r rate) (next bucket, write bool, err error) {
	next = bucket{Permits: r.most, At: now}
	if text != "" {
		if next, err = decode(text, now, r); err != nil {
			next, err = bucket{At: now}, fmt.Errorf("the record of the deletion brake is damaged, so it begins without permits: %w", err)
		}
	}
	write = err != nil || next.At.After(now) // a clock was ahead: the bucket would not refill until then
	next.fill(now, r)
	if !k.known {
		return next, write, err
	}
	own := k.bucket
	own.fill(now, r)
	if err != nil {
		return own, write, err
	}
	stored := next
	next.less(own) // unwritten changes hold, too
	return next, write || next.worse(stored), nil
}

// worse reports whether a bucket differs from the written one by a permit or more.
func (k *bucket) worse(than bucket) bool {
	return k.Permits <= than.Permits-1 || k.Distrusted.After(than.Distrusted)
}

// change reads the ledger and writes the bucket as changed by do. An error of do is returned
// as it is, and nothing is written.
func (b *Brake) change(ctx context.Context, do func(*bucket, rate) error) error {
	b.mu.Lock()
	now, r, before := b.now(), b.options.rate(b.census.size), b.book
	b.mu.Unlock()
	if now.Before(before.again) {
		return before.err
	}
	var next bucket
	var damage, refusal error
	err := b.options.Ledger.Change(ctx, func(text string) (string, error) {
		var write bool
		next, write, damage = before.read(text, now, r)
		found := next
		refusal = do(&next, r)
		if refusal != nil || !write && !next.worse(found) {
			return text, refusal
		}
		return next.encode()
	})
	failed := err != nil && !errors.Is(err, refusal)
	b.mu.Lock()
	if b.book.err = damage; failed {
		b.book.err, b.book.again = err, now.Add(ledgerPause)
	} else {
		b.book.bucket, b.book.known = next, true
	}
	told := b.book.err
	b.mu.Unlock()
	b.failed(FailedRecord, told)
	return err
}

// opened reads the ledger once after the start.
func (b *Brake) opened(ctx context.Context) error {
	b.mu.Lock()
	known := b.book.known
	b.mu.Unlock()
	if known {
		return nil
	}
	return b.change(ctx, func(*bucket, rate) error { return nil })
}

// grant takes a permit. The record is written before the Node goes.
func (b *Brake) grant(ctx context.Context, node *corev1.Node, c *candidate) *Hold {
	// Invariant N3 (host/SECURITY.md): a Node that counts goes only after its permit was removed
	// from the record.
	err := b.change(ctx, func(k *bucket, _ rate) error {
		if k.Permits < 1 {
			return errNone
		}
		k.Permits--
		return nil
	})
	switch {
	case errors.Is(err, errNone): // another manager took it
		if hold := b.turn(ctx, node, c); hold != nil {
			return hold
		}
		return soonf(ReasonGrace, "a permit came in just now, and is not taken yet")
	case err != nil:
		return holdf(ReasonNoRecord, "the record of the deletion brake cannot be changed: %v", err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	c.granted, c.counts = true, false
	return nil
}

// contradict removes the provider's permits after a false answer.
func (b *Brake) contradict(ctx context.Context, node *corev1.Node, by string) {
	b.options.Observer.Contradicted(node, by)
	now := b.now()
	// Invariant N5 (host/SECURITY.md): for a whole period no Node that counts goes.
	err := b.change(ctx, func(k *bucket, r rate) error {
		k.distrust(now, r)
		return nil
	})
	if err == nil {
		return
	}
	b.mu.Lock() // already reported; this manager remembers
	defer b.mu.Unlock()
	b.book.bucket.At = now
	b.book.bucket.distrust(now, b.options.rate(b.census.size))
	b.book.known = true
}

// nowhere is a Ledger that keeps nothing.
type nowhere struct{}

func (nowhere) Change(_ context.Context, change func(string) (string, error)) error {
	_, err := change("")
	return err
}
