package metrics

import (
	"context"
	"errors"
	"time"

	"github.com/wasm-ccm/wasm-ccm/abi"
)

// Op is told how long an op took, and how it ended. Where the context has a span
// that is sent, it is the exemplar.
func (p *Provider) Op(ctx context.Context, op abi.Op, took time.Duration, err error) {
	p.metrics.opDuration.WithContext(ctx).WithLabelValues(p.name, op.String(), outcome(err)).Observe(took.Seconds())
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
