package abi

import (
	"strconv"
	"time"
)

// Code is the outcome of an op (the result of ccm_call) or of a host call (the
// status in its result). Numbers are never used again.
type Code uint32

// The codes of ABI v1.
const (
	CodeOK Code = 0
	// CodeInternal: anything that no other code says.
	CodeInternal Code = 1
	// CodeInvalid: the request or the configuration is wrong; asking again
	// does not help until somebody changes it.
	CodeInvalid Code = 2
	// CodeNotFound: the object of the request is not there. It never means
	// that an instance does not exist: that is an answer, not an error.
	CodeNotFound Code = 3
	// CodeInstanceNotFound: an op of those that may answer it was asked about an
	// instance that the cloud does not have.
	CodeInstanceNotFound Code = 4
	CodeNotImplemented   Code = 5
	// CodeImplementedElsewhere: lb_ensure or lb_update was asked about a Service
	// whose load balancer another controller makes. From lb_get and lb_delete it
	// is an error.
	CodeImplementedElsewhere Code = 6
	// CodeRetryAfter: in progress; ask again after retry_after_ms.
	CodeRetryAfter Code = 7
	// CodeThrottled: the cloud or the host refused because of a rate limit.
	CodeThrottled Code = 8
	// CodeUnauthenticated: the cloud refused the credentials.
	CodeUnauthenticated Code = 9
	// CodeDenied: the host refuses this host call (no grant).
	CodeDenied Code = 10
	// CodeConflict: the store has changed since it was read.
	CodeConflict Code = 11
	// CodeTooLarge: a size or count limit.
	CodeTooLarge Code = 12
	// CodeDeadline: the time is over.
	CodeDeadline Code = 13
	// CodeUnavailable: the other side could not be reached.
	CodeUnavailable Code = 14
)

var codeNames = [...]string{
	"ok", "internal", "invalid", "not_found", "instance_not_found", "not_implemented",
	"implemented_elsewhere", "retry_after", "throttled", "unauthenticated", "denied",
	"conflict", "too_large", "deadline", "unavailable",
}

// String returns the name that logs and metrics use.
func (c Code) String() string {
	if int(c) < len(codeNames) {
		return codeNames[c]
	}
	return "code_" + strconv.FormatUint(uint64(c), 10)
}

// Known reports whether ABI v1 defines the code.
func (c Code) Known() bool { return int(c) < len(codeNames) }

// Error is an outcome other than CodeOK.
type Error struct {
	Code    Code
	Message string
	// RetryAfter is set with CodeRetryAfter and CodeThrottled.
	RetryAfter time.Duration
}

// Error returns the message, or the code's name where there is none.
func (e *Error) Error() string {
	if e.Message == "" {
		return e.Code.String()
	}
	return e.Message
}
