package sdk

import (
	"errors"
	"fmt"
	"time"

	"github.com/wasm-ccm/wasm-ccm/abi"
)

// Error makes an error of a code. A provider answers it as it is or wrapped
// with %w; the wrapping text becomes part of the message. Any other error has
// CodeInternal. Messages are for people: what, where, and how to mend it, and
// never a secret.
func Error(code abi.Code, message string) error { return &abi.Error{Code: code, Message: message} }

// Invalidf says that the request or the configuration is wrong.
func Invalidf(format string, args ...any) error {
	return Error(abi.CodeInvalid, fmt.Sprintf(format, args...))
}

// NotFound says that the object of the request is not there. It never means
// that an instance does not exist: answer DoesNotExist for that.
func NotFound(message string) error { return Error(abi.CodeNotFound, message) }

// InstanceNotFound is the answer of InstanceMetadata, InstanceShutdown and
// CreateRoute for a machine that the cloud does not have.
func InstanceNotFound(message string) error { return Error(abi.CodeInstanceNotFound, message) }

// ErrNotMine is the answer of InstanceMetadata for a Node that another
// controller initialises: the host leaves it alone.
var ErrNotMine = errors.New("the node is another controller's")

// ImplementedElsewhere is the answer of EnsureLoadBalancer and
// UpdateLoadBalancer for a Service whose load balancer another controller
// makes. What GetLoadBalancer and DeleteLoadBalancer say is what is there.
func ImplementedElsewhere(message string) error { return Error(abi.CodeImplementedElsewhere, message) }

// Unauthenticated says that the cloud refused the credentials.
func Unauthenticated(message string) error { return Error(abi.CodeUnauthenticated, message) }

// RetryAfter says that the work is in progress: ask again after d.
func RetryAfter(d time.Duration, message string) error {
	return &abi.Error{Code: abi.CodeRetryAfter, Message: message, RetryAfter: d}
}

// Throttled says that the cloud limits the rate; d is 0 where it does not say
// until when.
func Throttled(d time.Duration, message string) error {
	return &abi.Error{Code: abi.CodeThrottled, Message: message, RetryAfter: d}
}

// CodeOf returns the code that an error is answered with: CodeOK for nil, the
// code of the abi.Error in its chain, else CodeInternal.
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

// detailOf is the ErrorDetail of an error.
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
