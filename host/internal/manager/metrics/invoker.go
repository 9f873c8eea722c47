package metrics

import (
	"context"
	"errors"
	"time"

	"github.com/wasm-ccm/wasm-ccm/abi"
)

// Invoker is what plugin.Slot is; the wrapper knows no more of it.
type Invoker interface {
	Invoke(ctx context.Context, op abi.Op, req, resp abi.Message) error
	InvokeFresh(ctx context.Context, op abi.Op, req, resp abi.Message) error
	Supports(op abi.Op) bool
	ProviderName() string
	HasClusterID() bool
}

// MeasuredInvoker observes the duration and the outcome of every op.
type MeasuredInvoker struct {
	Invoker
	provider *Provider
}

// Invoke runs the op and observes it.
func (i *MeasuredInvoker) Invoke(ctx context.Context, op abi.Op, req, resp abi.Message) error {
	start := time.Now()
	err := i.Invoker.Invoke(ctx, op, req, resp)
	i.observe(op, start, err)
	return err
}

// InvokeFresh runs the op in a fresh instance and observes it.
func (i *MeasuredInvoker) InvokeFresh(ctx context.Context, op abi.Op, req, resp abi.Message) error {
	start := time.Now()
	err := i.Invoker.InvokeFresh(ctx, op, req, resp)
	i.observe(op, start, err)
	return err
}

func (i *MeasuredInvoker) observe(op abi.Op, start time.Time, err error) {
	i.provider.metrics.opDuration.WithLabelValues(i.provider.name, op.String(), outcome(err)).Observe(time.Since(start).Seconds())
}

// outcome is the code that the guest answered, "deadline", "canceled" for an op
// that its caller gave up or that had to make room for others, or "failed" for a
// trap, an undecodable answer, and everything else that is no answer.
func outcome(err error) string {
	var answer *abi.Error
	switch {
	case err == nil:
		return abi.CodeOK.String()
	case errors.As(err, &answer):
		return answer.Code.String()
	case errors.Is(err, context.DeadlineExceeded):
		return abi.CodeDeadline.String()
	case errors.Is(err, context.Canceled):
		return "canceled"
	}
	return "failed"
}
