package rollout

import (
	"context"
	"sync"
)

// result is a piece of work's effect in Run. Undo releases its resources if the result is no
// longer wanted.
type result struct {
	id    int
	apply func() Action
	undo  func(context.Context)
}

// progress is a phase reached by a piece of work.
type progress struct {
	id    int
	phase Phase
}

// worker does one piece of work at a time beside Run, so that Run keeps watching the serving
// generation. New work cancels the old.
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

// begin starts a piece of work. Run calls the functions that it returns.
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

// end cancels the work, whose result is then undone.
func (w *worker) end() {
	w.cancel()
	close(w.ended)
}
