package metrics

import (
	"context"
	"errors"
	"time"

	"github.com/wasm-ccm/wasm-ccm/abi"
)

// Op records the duration and the outcome of an op. If the context has an
// exported span, it is the exemplar.
func (p *Provider) Op(ctx context.Context, op abi.Op, took time.Duration, err error) {
	p.metrics.opDuration.WithContext(ctx).WithLabelValues(p.name, op.String(), outcome(err)).Observe(took.Seconds())
}

// outcome is the code of the guest's answer, "deadline", "canceled" for an op
// that its caller cancelled or that had to make room for others, or "failed"
// for a trap, an undecodable answer, and everything else without an answer.
func outcome(err error) string {
	if err == nil {
		return abi.CodeOK.String()
	}
	if answer, ok := errors.AsType[*abi.Error](err); ok {
		return answer.Code.String()
	}
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return abi.CodeDeadline.String()
	case errors.Is(err, context.Canceled):
		return "canceled"
	}
	return "failed"
}
