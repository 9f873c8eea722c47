package rest

import (
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/guests/sdk"
)

// StatusError is a refusal of the cloud. It unwraps to an abi.Error, so a
// provider can return it directly.
type StatusError struct {
	// Status is the answer's.
	Status int
	// Request is "METHOD host/path".
	Request string
	// Message is the cloud's message, shortened, on one line.
	Message string

	// page: the answer is HTML, from a proxy and not from the API.
	page bool
	code *abi.Error
}

// Error has the request, the status, the cloud's message, and a hint.
func (e *StatusError) Error() string {
	text := strings.TrimSpace(e.Request + ": the cloud answers " + strconv.Itoa(e.Status) + " " + Reason(e.Status))
	if e.Message != "" {
		text += ": " + e.Message
	}
	if hint := hints[e.Status]; hint != "" {
		text += "; " + hint
	}
	return text
}

// Unwrap returns the abi.Error.
func (e *StatusError) Unwrap() error { return e.code }

// Reason is the text of a status, "" for unknown ones. net/http would add half
// a megabyte to the module.
func Reason(status int) string { return reasons[status] }

var reasons = map[int]string{ //nolint:gochecknoglobals // a constant
	301: "Moved Permanently", 302: "Found", 303: "See Other", 307: "Temporary Redirect", 308: "Permanent Redirect",
	400: "Bad Request", 401: "Unauthorized", 403: "Forbidden", 404: "Not Found", 405: "Method Not Allowed", 409: "Conflict", 410: "Gone",
	412: "Precondition Failed", 413: "Too Large", 422: "Unprocessable", 423: "Locked", 429: "Too Many Requests",
	500: "Internal Server Error", 501: "Not Implemented", 502: "Bad Gateway", 503: "Service Unavailable", 504: "Gateway Timeout",
}

var hints = map[int]string{ //nolint:gochecknoglobals // a constant
	401: "check the Secret of the credential",
	403: "the account may not do this, or a quota is used up",
}

// StatusOf returns the status of a refusal, 0 for other errors.
func StatusOf(err error) int {
	var e *StatusError
	if errors.As(err, &e) {
		return e.Status
	}
	return 0
}

// IsNotFound reports whether the API itself answered that there is no such object:
// 404 or 410, and no page of HTML, which a proxy sends while the API is away.
func IsNotFound(err error) bool {
	var e *StatusError
	return errors.As(err, &e) && (e.Status == 404 || e.Status == 410) && !e.page
}

// IsConflict reports that the object's state does not allow the request now, or
// that the requested name or address is taken: 409, 412 or 423.
func IsConflict(err error) bool {
	status := StatusOf(err)
	return status == 409 || status == 412 || status == 423
}

// IgnoreNotFound returns nil for a missing object, as a deletion requires.
func IgnoreNotFound(err error) error {
	if IsNotFound(err) {
		return nil
	}
	return err
}

// refusal is the error of an unsuccessful result.
func refusal(req *abi.HttpRequest, result sdk.HTTPResult) error {
	if result.Err != nil {
		return &requestError{describe(req), result.Err}
	}
	status := int(result.Response.Status)
	if status >= 200 && status < 300 {
		return nil
	}
	e := &StatusError{Status: status, Request: describe(req)}
	e.Message, e.page = messageOf(result.Response)
	if status >= 300 && status < 400 {
		e.Message = target(headers(result.Response)["location"]) // a body often repeats the whole URL
	}
	e.code = &abi.Error{Code: codeOf(status, e.page), Message: e.Error()}
	if e.code.Code == abi.CodeThrottled {
		e.code.RetryAfter = retryAfter(headers(result.Response))
	}
	return e
}

func codeOf(status int, page bool) abi.Code {
	switch status {
	case 400, 405, 406, 422:
		return abi.CodeInvalid
	case 401:
		return abi.CodeUnauthenticated
	case 404, 410:
		if page {
			return abi.CodeUnavailable
		}
		return abi.CodeNotFound
	case 409, 412, 423:
		return abi.CodeConflict
	case 429, 503:
		return abi.CodeThrottled
	case 413:
		return abi.CodeTooLarge
	case 502, 504:
		return abi.CodeUnavailable
	}
	return abi.CodeInternal
}

// requestError is the host's error for a request without an answer.
type requestError struct {
	request string
	err     error
}

func (e *requestError) Error() string { return e.request + ": " + e.err.Error() }
func (e *requestError) Unwrap() error { return e.err }

// The bounds of a delay that a cloud requests.
const (
	minRetryAfter = time.Second
	maxRetryAfter = time.Hour
)

// retryAfter reads seconds. It ignores a date, which depends on the cloud's
// clock. 0 means that the cloud named no delay.
func retryAfter(headers map[string]string) time.Duration {
	seconds, err := strconv.ParseUint(strings.TrimSpace(headers["retry-after"]), 10, 32)
	if err != nil {
		return 0
	}
	return min(max(time.Duration(seconds)*time.Second, minRetryAfter), maxRetryAfter)
}

// maxMessage bounds the quotation of a cloud's message, in bytes.
const maxMessage = 400

// messageOf extracts the message of a refusal.
func messageOf(resp *abi.HttpResponse) (text string, page bool) {
	text = strings.TrimSpace(string(resp.Body))
	if strings.HasPrefix(text, "<") || strings.Contains(headers(resp)["content-type"], "text/html") {
		return "a page of HTML", true
	}
	if words := wordsOf(resp.Body); words != "" {
		text = words
	}
	return Brief(text, maxMessage), false
}

// wordsOf reads the usual forms: {"message": words}, {"detail": words},
// {"error": words}, {"error": {"message": words}}, {"errors": [{...}]}.
func wordsOf(body []byte) string {
	var members map[string]json.RawMessage
	if json.Unmarshal(body, &members) != nil {
		return ""
	}
	for _, key := range []string{"message", "detail", "error", "reason"} {
		var words string
		if json.Unmarshal(members[key], &words) == nil && words != "" {
			return words
		}
	}
	if inner := members["error"]; len(inner) > 0 && inner[0] == '{' {
		return wordsOf(inner)
	}
	var list []json.RawMessage
	if json.Unmarshal(members["errors"], &list) == nil && len(list) > 0 && list[0][0] == '{' {
		return wordsOf(list[0])
	}
	return ""
}
