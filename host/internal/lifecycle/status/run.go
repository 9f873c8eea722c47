package status

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/klog/v2"
	"sigs.k8s.io/yaml"

	"github.com/wasm-ccm/wasm-ccm/host/internal/informer"
	"github.com/wasm-ccm/wasm-ccm/host/internal/text"
)

const (
	// writeInterval is the least time between two writes of the status.
	writeInterval = 200 * time.Millisecond
	// The delays before another try of a failed write.
	firstDelay   = 500 * time.Millisecond
	longestDelay = time.Minute
)

// Run writes the statuses given to Publish, restores the object after a deletion, and calls
// handle for operators' commands, until the context ends. Only the leader may run it, and
// once; Load should have been called before. handle is called by one goroutine, which waits
// for it. Failures are logged, and retried for ever.
func (o *Object) Run(ctx context.Context, handle func(Command)) {
	w := &worker{Object: o, handle: handle, logger: klog.FromContext(ctx).WithValues("configMap", o.key(o.Name()))}
	w.watched = informer.ConfigMap(o.client, types.NamespacedName{Namespace: o.namespace, Name: o.Name()})
	w.delays = newDelays()
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() { w.watched.Run(ctx, w.heard) })
	for w.sleep(ctx) {
		w.commands(ctx)
		w.write(ctx)
	}
}

// worker is Run's state; only its goroutine uses it.
type worker struct {
	*Object
	handle  func(Command)
	watched *informer.Named[*corev1.ConfigMap]
	logger  klog.Logger
	seen    seen

	// written is the last written status.
	written string
	// next is the earliest time of the next write; pending says that there is one.
	next    time.Time
	pending bool
	delays  wait.Backoff
	failure string
}

func newDelays() wait.Backoff {
	return wait.Backoff{Duration: firstDelay, Factor: 2, Jitter: 0.1, Steps: 20, Cap: longestDelay}
}

// heard handles an event of the watch.
func (w *worker) heard(event informer.Event) {
	switch event {
	case informer.Failed:
		_, err := w.watched.Get() // nil once there was a list: the watch continues from there
		if err != nil {
			w.logger.Error(w.explain("list", w.Name(), err), "the annotations of the provider cannot be read")
		}
		return
	case informer.Deleted:
		w.mu.Lock()
		w.deleted = true
		w.mu.Unlock()
	}
	w.signal()
}

// sleep returns false when the context has ended, and true when there may be work.
func (w *worker) sleep(ctx context.Context) bool {
	var due <-chan time.Time
	if w.pending {
		timer := w.clock.NewTimer(w.next.Sub(w.clock.Now()))
		defer timer.Stop()
		due = timer.C()
	}
	select {
	case <-ctx.Done():
	case <-w.wake:
	case <-due:
	}
	return ctx.Err() == nil
}

// write writes the newest status, if it is new and its time has come.
func (w *worker) write(ctx context.Context) {
	w.mu.Lock()
	s, deleted, record := w.newest, w.deleted, w.record
	w.mu.Unlock()
	w.pending = false
	if s == nil {
		return
	}
	text, err := yaml.Marshal(s)
	if err != nil {
		w.logger.Error(err, "the status of the provider cannot be encoded")
		return
	}
	if string(text) == w.written && !deleted {
		return
	}
	w.pending = true
	if w.clock.Now().Before(w.next) {
		return
	}
	w.mu.Lock()
	w.deleted = false
	w.mu.Unlock()
	if deleted && record != "" {
		err = w.restore(ctx, record)
	}
	if err == nil {
		err = w.retry(ctx, wait.Backoff{Steps: 1}, func() error {
			return w.apply(ctx, w.config().WithLabels(s.labels()).WithData(map[string]string{keyStatus: string(text)}), managerStatus)
		})
	}
	if err != nil && ctx.Err() != nil { // this manager ends; its successor writes
		return
	}
	w.wrote(string(text), deleted, err)
}

// wrote sets the time of the next write.
func (w *worker) wrote(text string, deleted bool, err error) {
	if err == nil {
		w.written, w.pending, w.failure, w.delays = text, false, "", newDelays()
		w.next = w.clock.Now().Add(writeInterval)
		return
	}
	if deleted {
		w.mu.Lock()
		w.deleted = true
		w.mu.Unlock()
	}
	delay := w.delays.Step()
	w.next = w.clock.Now().Add(delay)
	if text := err.Error(); text != w.failure { // the same failure is not logged again
		w.failure = text
		w.logger.Error(err, "writing the status of the provider failed", "retryAfter", delay.Round(time.Millisecond))
	}
}

// restore writes the record again after a deletion of the object, unless there is a new one.
func (w *worker) restore(ctx context.Context, record string) error {
	w.recording.Lock()
	defer w.recording.Unlock()
	cm, err := w.get(ctx, w.Name())
	if err != nil || cm != nil && cm.Data[keyRecord] != "" {
		return err
	}
	if err := w.applyRecord(ctx, cm, record); err != nil {
		return fmt.Errorf("restore the record: %w", err)
	}
	return nil
}

// labels returns a status' non-empty labels.
func (s *Status) labels() map[string]string {
	labels := map[string]string{LabelPhase: text.Label(s.Phase), LabelReason: text.Label(s.Reason), LabelGeneration: strconv.FormatInt(s.Generation, 10)}
	if s.Serving != nil {
		labels[LabelVersion], labels[LabelServing] = text.Label(s.Serving.Version), text.Label(text.Digest(s.Serving.Digest))
	}
	if s.Offered != nil {
		labels[LabelOffered] = text.Label(text.Digest(s.Offered.Digest))
	}
	if !s.Since.IsZero() {
		labels[LabelSince] = s.Since.UTC().Format("20060102T150405Z")
	}
	for key, value := range labels {
		if value == "" {
			delete(labels, key)
		}
	}
	return labels
}
