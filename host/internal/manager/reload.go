package manager

import (
	"context"
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/klog/v2"

	"github.com/wasm-ccm/wasm-ccm/host/internal/config/validation"
	"github.com/wasm-ccm/wasm-ccm/host/internal/manager/metrics"
	"github.com/wasm-ccm/wasm-ccm/host/internal/manager/tracing"
)

// reloader applies changes of the file of --config. An invalid file changes
// nothing.
type reloader struct {
	providers *providerSet
	metrics   *metrics.Metrics
	spans     *tracing.Spans
	watchFile func(ctx context.Context, path string, handle func(data []byte, err error))
	// told is the last message about the file.
	told string
}

// content is the content of the file.
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
		// The file may have changed since the manager's start.
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
	next, err := validation.Decode(data)
	if err != nil {
		return false
	}
	now, err := r.providers.fileInForce(ctx)
	return err == nil && equality.Semantic.DeepEqual(next, now)
}

// offer applies the file, and reports whether to offer it again unchanged.
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
		logger.Error(err, "The changed configuration is rejected; the previous one stays in force", "config", path, "isTriedAgain", again)
	}
	return again
}

func (r *reloader) take(ctx context.Context, data []byte) error {
	next, err := validation.Decode(data)
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
		klog.FromContext(ctx).Error(err, "The last spans of the previous tracing did not reach their collector")
	}
	return nil
}

// tell reports the result of the file at each provider: the file is for all of
// them, and people look only at their own.
func (r *reloader) tell(err error) {
	if r.told = ""; err != nil {
		r.told = err.Error()
	}
	for _, one := range r.providers.all() {
		one.reporter.configuration(err)
	}
}
