package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/wasm-ccm/wasm-ccm/host/internal/text"
	"github.com/wasm-ccm/wasm-ccm/host/status/v1alpha1"
)

// firstOp is the wait for a serving module's first op.
const firstOp = 15 * time.Second

// devPeriod is the time between two requests for the status.
const devPeriod = 50 * time.Millisecond

// devWait waits for a module after put.
type devWait struct {
	*dev
	began  time.Time
	digest string
	// generation is the previous one, and then the module's own.
	generation int64
	serves     bool
	// said is the last line about a phase, offered the last module offered to the manager.
	said, offered string
	// asked ends the wait for an op.
	asked <-chan time.Time
}

// await waits until the module serves and has ended an op, and prints both
// times since put.
func (w *devWait) await(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, w.timeout)
	defer cancel()
	for {
		p, err := w.status(ctx)
		if err == nil {
			if done, err := w.look(ctx, p); done || err != nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return w.missing(ctx, err)
		case <-w.asked:
			w.say("no op in %v: nothing has changed that the module is asked about (--service)", firstOp)
			return nil
		case <-time.After(devPeriod):
		}
	}
}

// look evaluates one status; done is true when an op has ended.
func (w *devWait) look(ctx context.Context, p *v1alpha1.Provider) (done bool, err error) {
	if !w.serves && isModule(p.Serving, w.digest) && (p.Generation > w.generation || p.Phase == v1alpha1.PhaseKept) {
		w.serves, w.generation = true, p.Generation
		w.say("serves after %.2f s: %s, generation %d", time.Since(w.began).Seconds(), text.Digest(w.digest), p.Generation)
		if err := w.touch(ctx, w.digest); err != nil {
			return false, err
		}
		w.asked = time.After(firstOp)
	}
	if o := p.Latest; w.serves && o != nil && o.Generation >= w.generation {
		w.say("first op after %.2f s: %s of %s: %s, took %v %s", time.Since(w.began).Seconds(), o.Name, objectName(o.Object), o.Code, o.Took.Round(time.Millisecond), o.Message)
		return true, nil
	}
	if p.Offered != nil {
		w.offered = p.Offered.Digest
	}
	if !isModule(p.Offered, w.digest) {
		return false, nil
	}
	if now := fmt.Sprintf("%s %s: %s", p.Phase, p.Reason, p.Message); now != w.said && p.Message != "" {
		w.said = now
		w.say("%s", now)
	}
	if !w.serves && p.Refused() {
		return false, fmt.Errorf("the module does not serve: %s %s", p.Phase, p.Reason)
	}
	return false, nil
}

// missing explains an unsuccessful wait.
func (w *devWait) missing(ctx context.Context, unanswered error) error {
	if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return errors.New("interrupted: the module was put, and may serve")
	}
	err := fmt.Errorf("the module does not serve after %v: is %s the ConfigMap that provider %s reads?", w.timeout, w.target, w.provider)
	if w.offered != "" && w.offered != w.digest {
		err = fmt.Errorf("the module does not serve after %v: provider %s is offered %s, and not %s: did somebody else write ConfigMap %s, or does the provider read another one?",
			w.timeout, w.provider, text.Digest(w.offered), text.Digest(w.digest), w.target)
	}
	return errors.Join(err, unanswered)
}
