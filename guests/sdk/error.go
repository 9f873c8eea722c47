package sdk

import (
	"errors"
	"fmt"
	"time"

	"github.com/wasm-ccm/wasm-ccm/abi"
)

// Error returns an error with a code. A provider returns it directly or wrapped
// with %w; the wrapping text becomes part of the message. Any other error has
// CodeInternal. Messages are for people: what, where, and how to mend it, and
// never a secret.
func Error(code abi.Code, message string) error { return &abi.Error{Code: code, Message: message} }

// Invalidf reports a mistake in the request or the configuration.
func Invalidf(format string, args ...any) error {
	return Error(abi.CodeInvalid, fmt.Sprintf(format, args...))
}

// NotFound reports that the object of the request does not exist. It never
// means that an instance does not exist: answer DoesNotExist for that.
func NotFound(message string) error { return Error(abi.CodeNotFound, message) }

// InstanceNotFound is the answer of InstanceMetadata, InstanceShutdown and
// CreateRoute for a machine that the cloud does not have.
func InstanceNotFound(message string) error { return Error(abi.CodeInstanceNotFound, message) }

// ErrNotMine is the answer of InstanceMetadata for a Node that another
// controller initialises: the host leaves it alone.
var ErrNotMine = errors.New("the node is another controller's")

// ImplementedElsewhere is the answer of EnsureLoadBalancer and UpdateLoadBalancer for
// a Service whose load balancer another controller manages. GetLoadBalancer and
// DeleteLoadBalancer still answer from the actual state.
func ImplementedElsewhere(message string) error { return Error(abi.CodeImplementedElsewhere, message) }

// Unauthenticated reports that the cloud refused the credentials.
func Unauthenticated(message string) error { return Error(abi.CodeUnauthenticated, message) }

// RetryAfter reports work in progress: the manager repeats the op after d.
func RetryAfter(d time.Duration, message string) error {
	return &abi.Error{Code: abi.CodeRetryAfter, Message: message, RetryAfter: d}
}

// Throttled reports that the cloud limits the rate; d is 0 where the cloud
// names no time.
func Throttled(d time.Duration, message string) error {
	return &abi.Error{Code: abi.CodeThrottled, Message: message, RetryAfter: d}
}

// CodeOf returns the code of an error: CodeOK for nil, the code of the
// abi.Error in its chain, else CodeInternal.
func CodeOf(err error) abi.Code {
	if err == nil {
		return abi.CodeOK
	}
	var e *abi.Error
	if !errors.As(err, &e) || e.Code == abi.CodeOK {
		return abi.CodeInternal
	}
	return e.Code
}

// detailOf encodes an error as an ErrorDetail.
func detailOf(err error) *abi.ErrorDetail {
	detail := &abi.ErrorDetail{Message: truncate(err.Error(), abi.MaxErrorMessageBytes)}
	var e *abi.Error
	if errors.As(err, &e) {
		detail.RetryAfterMs = int64((e.RetryAfter + time.Millisecond - 1) / time.Millisecond)
	}
	return detail
}

// truncate shortens text to at most limit bytes, not within a character.
func truncate(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	for limit > 0 && text[limit]&0xc0 == 0x80 {
		limit--
	}
	return text[:limit]
}
