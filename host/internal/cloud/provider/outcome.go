package provider

import (
	"context"
	"errors"
	"fmt"
	"time"

	cloudprovider "k8s.io/cloud-provider"
	cloudproviderapi "k8s.io/cloud-provider/api"
	"k8s.io/klog/v2"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/host/internal/cloud/opcontext"
)

// The bounds of a guest's retry delay. Upstream requeues the object after exactly that time:
// without a delay it would spin.
const (
	minRetryAfter     = time.Second
	defaultRetryAfter = 5 * time.Second // upstream's first back-off
	maxRetryAfter     = 15 * time.Minute
)

// invoke runs one op on the subject, e.g. "default/web", and translates the error into
// upstream's.
func invoke(ctx context.Context, run opcontext.InvokeFunc, op abi.Op, subject string, req, resp abi.Message) error {
	err := run(ctx, op, req, resp)
	if err == nil {
		return nil
	}
	var answer *abi.Error
	if !errors.As(err, &answer) {
		return fmt.Errorf("%s: %w", about(op, subject), err)
	}
	if answer.Code == abi.CodeImplementedElsewhere && op.Group() == abi.GroupLoadBalancers && !op.MayAnswer(answer.Code) {
		return invalidAnswer(op, subject, fmt.Errorf("%s, which is an answer of lb_ensure and lb_update only; the provider must describe the load balancer: %s", answer.Code, answer.Message))
	}
	if sentinel := sentinel(op, answer.Code); sentinel != nil {
		klog.FromContext(ctx).V(2).Info("Guest answered with a code that upstream knows",
			"op", op.String(), "subject", subject, "code", answer.Code.String(), "message", answer.Message)
		return sentinel
	}
	if delay, ok := retryAfter(answer); ok {
		text := fmt.Sprintf("%s: %v (retry after %v)", about(op, subject), err, delay)
		return &retryError{RetryError: cloudproviderapi.NewRetryError(text, delay), answer: answer}
	}
	return fmt.Errorf("%s: %w", about(op, subject), err)
}

// sentinel returns the bare error that upstream compares with ==, or nil. A code has one
// only where upstream gives it a meaning: on instance_exists "instance not found" is a
// failure like any other, as only an explicit answer may delete a Node.
func sentinel(op abi.Op, code abi.Code) error {
	switch {
	case !op.MayAnswer(code):
		return nil
	case code == abi.CodeNotImplemented:
		return cloudprovider.NotImplemented
	case code == abi.CodeImplementedElsewhere:
		return cloudprovider.ImplementedElsewhere
	case code == abi.CodeInstanceNotFound:
		return cloudprovider.InstanceNotFound
	}
	return nil
}

// retryAfter returns when to ask again, and whether the guest said so. Without a time, "in
// progress" gets a fixed delay and "throttled" upstream's exponential back-off.
func retryAfter(answer *abi.Error) (time.Duration, bool) {
	switch {
	case answer.Code == abi.CodeRetryAfter && answer.RetryAfter <= 0:
		return defaultRetryAfter, true
	case answer.Code == abi.CodeThrottled && answer.RetryAfter <= 0:
		return 0, false
	case answer.Code == abi.CodeRetryAfter, answer.Code == abi.CodeThrottled:
		// Invariant O7 (host/SECURITY.md): the object is retried within these bounds, whatever the
		// guest says.
		return min(max(answer.RetryAfter, minRetryAfter), maxRetryAfter), true
	}
	return 0, false
}

// retryError is upstream's RetryError that keeps the guest's answer. Its text holds the
// delay for the paths on which upstream drops everything else.
type retryError struct {
	*cloudproviderapi.RetryError
	answer *abi.Error
}

func (e *retryError) Unwrap() []error { return []error{e.RetryError, e.answer} }

// invalidAnswer is the error of an answer that was decoded but is unusable.
func invalidAnswer(op abi.Op, subject string, err error) error {
	return fmt.Errorf("%s: invalid answer of the guest: %w", about(op, subject), err)
}

func about(op abi.Op, subject string) string {
	if subject == "" {
		return op.String()
	}
	return op.String() + " " + subject
}
