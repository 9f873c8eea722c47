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
	// After a failure a write is tried again after these.
	firstDelay   = 500 * time.Millisecond
	longestDelay = time.Minute
)

// Run writes what Publish is told, makes the object again when somebody deletes
// it, and calls handle for the commands of people, until the context ends. Only
// the manager that leads may run it, and once; Load should have been called
// before. handle is called by one goroutine, which waits for it. Failures are
// logged, and tried again for ever.
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

// worker is what Run knows; it is used by its goroutine only.
type worker struct {
	*Object
	handle  func(Command)
	watched *informer.Named[*corev1.ConfigMap]
	logger  klog.Logger
	seen    seen

	// written is what was written last.
	written string
	// next is when the next write may be; pending that there is one.
	next    time.Time
	pending bool
	delays  wait.Backoff
	failure string
}

func newDelays() wait.Backoff {
	return wait.Backoff{Duration: firstDelay, Factor: 2, Jitter: 0.1, Steps: 20, Cap: longestDelay}
}

// heard is what the watch has to tell.
func (w *worker) heard(event informer.Event) {
	switch event {
	case informer.Failed:
		_, err := w.watched.Get() // nil once there was a list: the watch goes on where it was
		if err != nil {
			w.logger.Error(w.explain("list", w.Name(), err), "the annotations of the provider are not seen")
		}
		return
	case informer.Deleted:
		w.mu.Lock()
		w.deleted = true
		w.mu.Unlock()
	}
	w.signal()
}

// sleep returns false when the context has ended, and true when there may be
// something to do.
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

// write writes the newest status, when it is new and time for it.
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
		err = w.apply(ctx, w.config().WithLabels(s.labels()).WithData(map[string]string{keyStatus: string(text)}), managerStatus)
	}
	w.wrote(string(text), deleted, err)
}

// wrote sets when the next write may be.
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
	if text := err.Error(); text != w.failure { // the same one is not logged again
		w.failure = text
		w.logger.Error(err, "the status of the provider is not written", "retryAfter", delay.Round(time.Millisecond))
	}
}

// restore writes the record again that was lost with the object, unless there
// is one by now.
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

// labels returns those of a status that are not empty.
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
