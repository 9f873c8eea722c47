package manager

import (
	"context"
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/klog/v2"

	"github.com/wasm-ccm/wasm-ccm/host/config/v1alpha1"
	"github.com/wasm-ccm/wasm-ccm/host/internal/manager/metrics"
	"github.com/wasm-ccm/wasm-ccm/host/internal/manager/tracing"
)

// reloader takes up changes of the file of --config. A file that is not valid
// changes nothing.
type reloader struct {
	providers *providers
	metrics   *metrics.Metrics
	spans     *tracing.Spans
	watchFile func(ctx context.Context, path string, handle func(data []byte, err error))
	// told is what was said last of the file.
	told string
}

// reloadRetry is the time between two tries to take up a file that may be taken
// up as it is, when what it needs is there.
const reloadRetry = 10 * time.Second

// content is what the file holds.
type content struct {
	data []byte
	err  error
}

// run watches the file until the context ends.
func (r *reloader) run(ctx context.Context, path string) {
	files, watched := make(chan content), make(chan struct{})
	go func() {
		defer close(watched)
		r.watchFile(ctx, path, func(data []byte, err error) {
			select {
			case files <- content{data, err}:
			case <-ctx.Done():
			}
		})
	}()
	defer func() { <-watched }()
	r.follow(ctx, path, files)
}

func (r *reloader) follow(ctx context.Context, path string, files <-chan content) {
	var now content
	var again <-chan time.Time
	for first := true; ; first = false {
		retried := false
		select {
		case <-ctx.Done():
			return
		case now = <-files:
		case <-again:
			retried = true
		}
		again = nil
		// What it holds now may be newer than what the manager began with.
		if first && now.err == nil && r.unchanged(ctx, now.data) {
			r.tell(nil)
			continue
		}
		if r.offer(ctx, path, now, retried) {
			again = time.After(reloadRetry)
		}
	}
}

func (r *reloader) unchanged(ctx context.Context, data []byte) bool {
	next, err := v1alpha1.Decode(data)
	if err != nil {
		return false
	}
	now, err := r.providers.fileInForce(ctx)
	return err == nil && equality.Semantic.DeepEqual(next, now)
}

// offer reports whether the file is to be offered again as it is.
func (r *reloader) offer(ctx context.Context, path string, file content, retried bool) (again bool) {
	logger := klog.FromContext(ctx)
	err := file.err
	if err == nil {
		err = r.take(ctx, file.data)
	}
	if ctx.Err() != nil {
		return false // the manager ends
	}
	r.metrics.ConfigRejected(err != nil)
	again = errors.As(err, &notYet{})
	switch {
	case err == nil:
		r.tell(nil)
		logger.Info("The changed configuration is in force", "config", path)
	case !retried || err.Error() != r.told:
		r.tell(err)
		logger.Error(err, "The changed configuration is rejected; what it said before holds", "config", path, "isTriedAgain", again)
	}
	return again
}

func (r *reloader) take(ctx context.Context, data []byte) error {
	next, err := v1alpha1.Decode(data)
	if err != nil {
		return err
	}
	spans, err := r.spans.Prepare(ctx, next.Tracing)
	if err != nil {
		return err
	}
	if err := r.providers.applyFile(ctx, next); err != nil {
		return errors.Join(err, spans.Discard(ctx))
	}
	if err := r.spans.Use(ctx, spans); err != nil {
		klog.FromContext(ctx).Error(err, "The last spans of the tracing before did not reach their collector")
	}
	return nil
}

// tell says at each provider what became of the file: nobody looks at another
// one's, and the file is everybody's.
func (r *reloader) tell(err error) {
	if r.told = ""; err != nil {
		r.told = err.Error()
	}
	for _, one := range r.providers.all() {
		one.reporter.configuration(err)
	}
}
