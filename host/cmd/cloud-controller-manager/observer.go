package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/record"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/host/async"
	"github.com/wasm-ccm/wasm-ccm/host/metrics"
)

// eventBackoff is the reason of the Event on an object that the provider is
// not asked about for a while.
const eventBackoff = "ProviderBackoff"

// observer tells of ops in the background, by metrics and Events. It
// implements async.Observer.
type observer struct {
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

func (o *observer) BackedOff(object *corev1.ObjectReference, op abi.Op, failures int, delay time.Duration, err error) {
	o.metrics.Background().BackedOff(op)
	if object == nil {
		return
	}
	message := fmt.Sprintf("%s failed %d times in a row; the provider is not asked again for %v: %v", op, failures, delay.Round(time.Second), err)
	o.events.Event(object, corev1.EventTypeWarning, eventBackoff, cut(message))
}

// scrubbed replaces secrets in what a guest says of its failures.
type scrubbed struct {
	*metrics.MeasuredInvoker
	allowed *allowed
}

func (s scrubbed) Invoke(ctx context.Context, op abi.Op, req, resp abi.Message) error {
	return s.clean(s.MeasuredInvoker.Invoke(ctx, op, req, resp))
}

func (s scrubbed) InvokeFresh(ctx context.Context, op abi.Op, req, resp abi.Message) error {
	return s.clean(s.MeasuredInvoker.InvokeFresh(ctx, op, req, resp))
}

// clean leaves errors alone that are not of the guest: they hold nothing of it.
func (s scrubbed) clean(err error) error {
	var answer *abi.Error
	if err == nil || !errors.As(err, &answer) {
		return err
	}
	return &abi.Error{Code: answer.Code, Message: s.allowed.scrub(answer.Message), RetryAfter: answer.RetryAfter}
}
