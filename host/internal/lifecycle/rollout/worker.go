package rollout

import (
	"context"
	"sync"
)

// result is what a piece of work wants done in Run. Undo gives up what it
// holds, when nobody wants the result any more.
type result struct {
	id    int
	apply func() Action
	undo  func(context.Context)
}

// progress is a phase that a piece of work has reached.
type progress struct {
	id    int
	phase Phase
}

// worker does one piece of work at a time beside Run, so that Run goes on
// watching the generation that serves. What was begun before is cancelled.
type worker struct {
	id       int
	stop     context.CancelFunc
	results  chan result
	progress chan progress
	ended    chan struct{}
	running  sync.WaitGroup
}

func newWorker() worker {
	return worker{results: make(chan result), progress: make(chan progress), ended: make(chan struct{})}
}

// begin starts a piece of work. The functions that it returns are called by Run.
func (w *worker) begin(ctx context.Context, do func(ctx context.Context, reached func(Phase)) (apply func() Action, undo func(context.Context))) {
	w.cancel()
	ctx, w.stop = context.WithCancel(ctx)
	id, stop := w.id, w.stop
	w.running.Go(func() {
		defer stop()
		apply, undo := do(ctx, func(p Phase) {
			select {
			case w.progress <- progress{id, p}:
			case <-ctx.Done():
			}
		})
		select {
		case w.results <- result{id, apply, undo}:
		case <-w.ended:
			undo(context.WithoutCancel(ctx))
		}
	})
}

func (w *worker) cancel() {
	w.id++
	if w.stop != nil {
		w.stop()
		w.stop = nil
	}
}

func (w *worker) apply(r result) Action {
	if r.id != w.id {
		r.undo(context.Background())
		return Nothing
	}
	return r.apply()
}

// end cancels the work, whose result is undone by itself.
func (w *worker) end() {
	w.cancel()
	close(w.ended)
}
