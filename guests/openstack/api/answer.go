package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/guests/sdk"
	"github.com/wasm-ccm/wasm-ccm/guests/sdk/rest"
)

// StatusError is a refusal by the cloud. It unwraps to an abi.Error and can be
// answered unchanged.
type StatusError struct {
	Status int
	// Request is "METHOD /path".
	Request string
	// Message is the cloud's, shortened, on one line.
	Message string
	// Fault is the name of the fault in the cloud's JSON, e.g. Nova's
	// itemNotFound. Empty for other bodies, e.g. a proxy's page.
	Fault string

	code *abi.Error
}

// Error says the request, the status, the cloud's words, and what to do.
func (e *StatusError) Error() string {
	text := e.Request + ": the cloud answers " + strconv.Itoa(e.Status) + " " + rest.Reason(e.Status)
	text = strings.TrimSpace(text)
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

var hints = map[int]string{ //nolint:gochecknoglobals // a constant
	401: "check the Secret of the credential, and the signer's auth_url and project",
	403: "the user's roles in the project do not allow this, or a quota is used up",
	406: "this provider needs Nova's microversion " + computeVersion + " (Pike)",
}

// StatusOf returns the status of a refusal, 0 for other errors.
func StatusOf(err error) int {
	var e *StatusError
	if errors.As(err, &e) {
		return e.Status
	}
	return 0
}

// FaultOf returns the name of the fault of a refusal. See StatusError.
func FaultOf(err error) string {
	var e *StatusError
	if errors.As(err, &e) {
		return e.Fault
	}
	return ""
}

// IsNotFound reports whether the cloud itself said that the object does not
// exist.
func IsNotFound(err error) bool { return StatusOf(err) == http404 }

// IsConflict reports a conflict: the object cannot be changed now (Octavia:
// immutable), or the requested thing is taken.
func IsConflict(err error) bool { return StatusOf(err) == http409 }

// IsOutdated reports whether the object has changed since it was read; see PutRevision.
func IsOutdated(err error) bool { return StatusOf(err) == http412 }

const http404, http409, http412 = 404, 409, 412

// refusal is the error of an unsuccessful result.
func refusal(req *abi.HttpRequest, result sdk.HTTPResult) error {
	if result.Err != nil {
		return &requestError{describe(req), result.Err}
	}
	status := int(result.Response.Status)
	if status >= 200 && status < 300 {
		return nil
	}
	e := &StatusError{Status: status, Request: describe(req), Message: messageOf(result.Response)}
	e.Fault, _ = faultOf(result.Response.Body)
	e.code = &abi.Error{Code: codeOf(status), Message: e.Error()}
	if e.code.Code == abi.CodeThrottled {
		e.code.RetryAfter = retryAfter(result.Response)
	}
	return e
}

func codeOf(status int) abi.Code {
	switch status {
	case 400, 406, 422:
		return abi.CodeInvalid
	case 401:
		return abi.CodeUnauthenticated
	case http404:
		return abi.CodeNotFound
	case http409, http412:
		return abi.CodeConflict
	case 413, 429, 503:
		return abi.CodeThrottled
	case 502, 504:
		return abi.CodeUnavailable
	}
	return abi.CodeInternal
}

// requestError is a request without an answer, with the host's reason.
type requestError struct {
	request string
	err     error
}

func (e *requestError) Error() string { return e.request + ": " + e.err.Error() }
func (e *requestError) Unwrap() error { return e.err }

// The bounds of the wait that a cloud may ask for.
const (
	minRetryAfter = time.Second
	maxRetryAfter = 5 * time.Minute
)

// retryAfter reads Retry-After in seconds, the form that OpenStack sends.
func retryAfter(resp *abi.HttpResponse) time.Duration {
	seconds, err := strconv.Atoi(strings.TrimSpace(header(resp, "Retry-After")))
	if err != nil {
		return minRetryAfter
	}
	return min(max(time.Duration(min(seconds, 86400))*time.Second, minRetryAfter), maxRetryAfter)
}

func header(resp *abi.HttpResponse, name string) string {
	for _, h := range resp.Headers {
		if strings.EqualFold(h.Name, name) {
			return h.Value
		}
	}
	return ""
}

// scrubbed is the host's mark for replaced text
// (host/internal/hostcall/credential).
var scrubbed = []byte("[scrubbed:") //nolint:gochecknoglobals // a constant

// answer decodes the members of a successful answer.
func answer(req *abi.HttpRequest, result sdk.HTTPResult) (map[string]json.RawMessage, error) {
	if err := refusal(req, result); err != nil {
		return nil, err
	}
	// Replaced text may be half of a name or ID, and a search for a name would
	// then find nothing.
	if bytes.Contains(result.Response.Body, scrubbed) {
		return nil, broken(req, "the manager has replaced a value of the credential's Secret in it; "+
			"a password must not be a word of the cluster, such as the name of its user or project: choose another one")
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(result.Response.Body, &members); err != nil {
		return nil, broken(req, "it is not JSON ("+err.Error()+"); it begins with "+strconv.Quote(rest.Brief(string(result.Response.Body), 60)))
	}
	return members, nil
}

func member(req *abi.HttpRequest, members map[string]json.RawMessage, key string, out any) error {
	value := members[key]
	if len(value) == 0 || string(value) == "null" {
		return broken(req, "it has no "+strconv.Quote(key))
	}
	if err := json.Unmarshal(value, out); err != nil {
		return broken(req, key+": "+err.Error())
	}
	return nil
}

// broken is the error of an unreadable answer. It never counts as "nothing".
func broken(req *abi.HttpRequest, why string) error {
	return sdk.Error(abi.CodeInternal, describe(req)+": the cloud's answer cannot be used: "+why)
}

// describe names a request by method and path. Queries may be long.
func describe(req *abi.HttpRequest) string {
	_, address, _ := strings.Cut(req.Url, "://")
	path, _, _ := strings.Cut(address, "?")
	return req.Method + " " + rest.Brief(path, 260)
}

// maxMessage bounds the quoted part of the cloud's message, in bytes.
const maxMessage = 400

// messageOf finds the message in a refusal. Each service has its own form.
func messageOf(resp *abi.HttpResponse) string {
	text := strings.TrimSpace(string(resp.Body))
	if strings.HasPrefix(text, "<") {
		text = titleOf(text)
	} else if _, found := faultOf(resp.Body); found != "" {
		text = found
	}
	text = rest.Brief(strings.ReplaceAll(text, "<br />", " "), maxMessage) // Nova
	id := header(resp, "X-Openstack-Request-Id")
	if id == "" {
		id = header(resp, "X-Compute-Request-Id")
	}
	if id != "" {
		text += " (" + rest.Brief(id, 60) + ")"
	}
	return strings.TrimSpace(text)
}

// faultOf knows {"faultstring": words} (Octavia) and {name: {"message": words}}
// (the other services).
func faultOf(body []byte) (name, words string) {
	var members map[string]json.RawMessage
	if json.Unmarshal(body, &members) != nil {
		return "", ""
	}
	for _, key := range []string{"faultstring", "message"} {
		if json.Unmarshal(members[key], &words) == nil && words != "" {
			return "", words
		}
	}
	for name, member := range members {
		var fault struct{ Message string }
		if json.Unmarshal(member, &fault) == nil && fault.Message != "" {
			return name, fault.Message
		}
	}
	return "", ""
}

// titleOf is the title of an HTML page.
func titleOf(page string) string {
	lower := strings.ToLower(page)
	start := strings.Index(lower, "<title>")
	end := strings.Index(lower, "</title>")
	if start < 0 || end < start || len(lower) != len(page) {
		return "a page of HTML"
	}
	return "a page of HTML: " + page[start+len("<title>"):end]
}
