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
	"github.com/wasm-ccm/wasm-ccm/host/internal/text"
)

// Reasons of the Events on an object about which the provider gave no answer,
// and about which it is therefore not asked for a while.
const (
	eventUnanswered = "ProviderNoAnswer"
	eventBackoff    = "ProviderBackoff"
)

// observer tells of ops in the background, by metrics and Events. It
// implements async.Observer.
type observer struct {
	logger  klog.Logger
	metrics *metrics.Provider
	events  record.EventRecorder
}

var _ async.Observer = (*observer)(nil)

func (o *observer) Background(ops int) { o.metrics.Background().Running(ops) }

func (o *observer) BackgroundDone(op abi.Op, took time.Duration, err error) {
	o.metrics.Background().Done(op, took, err)
}

func (o *observer) ResultDropped(op abi.Op, reason string) {
	o.metrics.Background().Dropped(op, reason)
}

func (o *observer) Busy(op abi.Op) { o.metrics.Background().Busy(op) }

func (o *observer) Unanswered(object *corev1.ObjectReference, op abi.Op, took time.Duration, err error) {
	o.tell(object, eventUnanswered, fmt.Sprintf("%s went on in the background and ended without an answer after %v", op, took.Round(time.Second)), err)
}

func (o *observer) BackedOff(object *corev1.ObjectReference, op abi.Op, failures int, delay time.Duration, err error) {
	o.metrics.Background().BackedOff(op)
	o.tell(object, eventBackoff, fmt.Sprintf("%s failed %d times in a row; the provider is not asked again for %v", op, failures, delay.Round(time.Second)), err)
}

// tell says in the log, and on the object if there is one, what failed.
func (o *observer) tell(object *corev1.ObjectReference, reason, what string, err error) {
	if object == nil {
		o.logger.Error(err, what)
		return
	}
	o.logger.Error(err, what, "kind", object.Kind, "object", klog.KRef(object.Namespace, object.Name))
	o.events.Event(object, corev1.EventTypeWarning, reason, text.Line(fmt.Sprintf("%s: %v", what, err), maxEventBytes))
}

// scrubbed measures ops, and replaces secrets in what a guest says of its
// failures.
type scrubbed struct {
	opcontext.Invoker
	metrics *metrics.Provider
	allowed *allowed
}

func (s scrubbed) Invoke(ctx context.Context, op abi.Op, req, resp abi.Message) error {
	return s.run(ctx, s.Invoker.Invoke, op, req, resp)
}

func (s scrubbed) InvokeFresh(ctx context.Context, op abi.Op, req, resp abi.Message) error {
	return s.run(ctx, s.Invoker.InvokeFresh, op, req, resp)
}

func (s scrubbed) run(ctx context.Context, invoke opcontext.InvokeFunc, op abi.Op, req, resp abi.Message) error {
	start := time.Now()
	err := invoke(ctx, op, req, resp)
	s.metrics.Op(op, time.Since(start), err)
	return s.clean(err)
}

// clean leaves errors alone that are not of the guest: they hold nothing of it.
func (s scrubbed) clean(err error) error {
	var answer *abi.Error
	if err == nil || !errors.As(err, &answer) {
		return err
	}
	return &abi.Error{Code: answer.Code, Message: s.allowed.scrub(answer.Message), RetryAfter: answer.RetryAfter}
}
