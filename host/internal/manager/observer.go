package manager

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/host/internal/cloud/async"
	"github.com/wasm-ccm/wasm-ccm/host/internal/cloud/opcontext"
	"github.com/wasm-ccm/wasm-ccm/host/internal/manager/metrics"
	"github.com/wasm-ccm/wasm-ccm/host/internal/manager/tracing"
	"github.com/wasm-ccm/wasm-ccm/host/internal/report"
	"github.com/wasm-ccm/wasm-ccm/host/internal/text"
)

// Reasons of the Events on an object for ops without an answer, and for the
// following pause of calls.
const (
	eventUnanswered = report.ProviderNoAnswer
	eventBackoff    = report.ProviderBackoff
)

// opObserver reports ops in the background, by metrics and Events. It implements
// async.Observer.
type opObserver struct {
	logger  klog.Logger
	metrics *metrics.Provider
	events  record.EventRecorder
}

var _ async.Observer = (*opObserver)(nil)

func (o *opObserver) Background(ops int) { o.metrics.Background().Running(ops) }

func (o *opObserver) BackgroundDone(op abi.Op, took time.Duration, err error) {
	o.metrics.Background().Done(op, took, err)
}

func (o *opObserver) ResultDropped(op abi.Op, reason string) {
	o.metrics.Background().Dropped(op, reason)
}

func (o *opObserver) Busy(op abi.Op) { o.metrics.Background().Busy(op) }

func (o *opObserver) Unanswered(object *corev1.ObjectReference, op abi.Op, took time.Duration, err error) {
	o.tell(object, op, eventUnanswered, fmt.Sprintf("%s continued in the background and ended without an answer after %v", op, took.Round(time.Second)), err)
}

func (o *opObserver) BackedOff(object *corev1.ObjectReference, op abi.Op, failures int, delay time.Duration, err error) {
	o.metrics.Background().BackedOff(op)
	o.tell(object, op, eventBackoff, fmt.Sprintf("%s failed %d times in a row; the provider is not asked again for %v", op, failures, delay.Round(time.Second)), err)
}

// tell reports a failure in the log, and on the object if there is one.
func (o *opObserver) tell(object *corev1.ObjectReference, op abi.Op, reason, what string, err error) {
	if object == nil {
		o.logger.Error(err, what, "op", op.String())
		return
	}
	o.logger.Error(err, what, "op", op.String(), "kind", object.Kind, "object", klog.KRef(object.Namespace, object.Name))
	o.events.Event(object, corev1.EventTypeWarning, reason, text.Line(fmt.Sprintf("%s: %v", what, err), maxEventBytes))
}

// scrubbed measures and records ops, makes spans of them, and removes secrets
// from a guest's errors.
type scrubbed struct {
	opcontext.Invoker
	provider string
	metrics  *metrics.Provider
	spans    *tracing.Spans
	allowed  *allowed
	history  *history
	// generation is the number of the serving generation.
	generation func() int64
}

func (s scrubbed) Invoke(ctx context.Context, op abi.Op, req, resp abi.Message) error {
	return s.run(ctx, s.Invoker.Invoke, op, req, resp)
}

func (s scrubbed) InvokeFresh(ctx context.Context, op abi.Op, req, resp abi.Message) error {
	return s.run(ctx, s.Invoker.InvokeFresh, op, req, resp)
}

func (s scrubbed) run(ctx context.Context, invoke opcontext.InvokeFunc, op abi.Op, req, resp abi.Message) error {
	about := opcontext.FromContext(ctx)
	about.Name, about.Generation = op, s.generation()
	ctx = opcontext.NewContext(ctx, about)
	ctx, span := s.spans.Start(ctx, op.String())
	if span.IsRecording() {
		span.SetAttributes(attributesOf(s.provider, about)...)
	}
	start := time.Now()
	err := invoke(ctx, op, req, resp)
	s.metrics.Op(ctx, op, time.Since(start), err)
	err = s.clean(err)
	s.history.ended(ctx, op, start, resp, err)
	tracing.End(span, err)
	return err
}

// clean leaves errors of the host unchanged: they contain nothing of the guest.
func (s scrubbed) clean(err error) error {
	if err == nil {
		return nil
	}
	answer, ok := errors.AsType[*abi.Error](err)
	if !ok {
		return err
	}
	return &abi.Error{Code: answer.Code, Message: s.allowed.scrub(answer.Message), RetryAfter: answer.RetryAfter}
}
