package egress

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/wasm-ccm/wasm-ccm/abi"
)

// authorize checks a request against the grants, before anything is sent.
func (c *Client) authorize(request *abi.HttpRequest) (target, *abi.Error) {
	if name := request.GetCredential(); name != "" {
		return target{}, denied("no credential named %q is configured", clip(name))
	}
	if size := len(request.GetUrl()); size > maxURLBytes {
		return target{}, &abi.Error{Code: abi.CodeTooLarge, Message: fmt.Sprintf("the URL has %d bytes, the limit is %d", size, maxURLBytes)}
	}
	if request.GetTimeoutMs() < 0 {
		return target{}, &abi.Error{Code: abi.CodeInvalid, Message: "timeout_ms is negative"}
	}
	t, err := parseTarget(request.GetUrl())
	if err != nil {
		return target{}, &abi.Error{Code: abi.CodeInvalid, Message: "URL: " + err.Error()}
	}
	if !validMethod(request.GetMethod()) {
		return target{}, &abi.Error{Code: abi.CodeInvalid, Message: fmt.Sprintf("%s: method %q is not allowed; methods are in upper case", t, clip(request.GetMethod()))}
	}
	if err := checkHeaders(request.GetHeaders()); err != nil {
		return target{}, &abi.Error{Code: abi.CodeInvalid, Message: fmt.Sprintf("%s: %v", t, err)}
	}
	for _, g := range c.grants {
		if g.allows(request.GetMethod(), t) {
			return t, nil
		}
	}
	return target{}, denied("%s %s: no grant allows it; to allow it, add --provider-allow-url=%s://%s/", request.GetMethod(), t, t.scheme, authority(t))
}

func denied(format string, args ...any) *abi.Error {
	return &abi.Error{Code: abi.CodeDenied, Message: fmt.Sprintf(format, args...)}
}

// validMethod takes upper-case tokens. CONNECT opens tunnels, TRACE echoes.
func validMethod(method string) bool {
	return method != "" && len(method) <= 32 && httpguts.ValidHeaderFieldName(method) &&
		method == strings.ToUpper(method) && method != http.MethodConnect && method != http.MethodTrace
}

// refusedHeader says why the host alone sets a header, or "".
func refusedHeader(name string) string {
	switch http.CanonicalHeaderKey(name) {
	case "Host":
		return "the host is that of the URL"
	case "Content-Length":
		return "it is computed from the body"
	case "Connection", "Proxy-Connection", "Keep-Alive", "Transfer-Encoding", "Te", "Trailer", "Upgrade",
		"Http2-Settings", "Expect", "Proxy-Authorization", "Proxy-Authenticate":
		return "it is about the connection, which is the host's"
	}
	return ""
}

// checkHeaders refuses headers that could change what the grant was asked for.
// Its errors hold no values.
func checkHeaders(headers []*abi.HttpHeader) error {
	if len(headers) > maxRequestHeaders {
		return fmt.Errorf("%d headers, the limit is %d", len(headers), maxRequestHeaders)
	}
	size := 0
	for _, h := range headers {
		name, value := h.GetName(), h.GetValue()
		size += len(name) + len(value)
		if !httpguts.ValidHeaderFieldName(name) {
			return fmt.Errorf("header name %q is not valid", clip(name))
		}
		if !httpguts.ValidHeaderFieldValue(value) {
			return fmt.Errorf("the value of header %q is not valid", clip(name))
		}
		if why := refusedHeader(name); why != "" {
			return fmt.Errorf("header %q must not be set: %s", clip(name), why)
		}
	}
	if size > maxHeaderBytes {
		return fmt.Errorf("the headers have %d bytes, the limit is %d", size, maxHeaderBytes)
	}
	return nil
}

func newRequest(ctx context.Context, request *abi.HttpRequest, t target) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, request.GetMethod(), "", bytes.NewReader(request.GetBody()))
	if err != nil {
		return nil, err
	}
	req.URL, req.Host = t.url, ""
	for _, h := range request.GetHeaders() {
		req.Header.Add(h.GetName(), h.GetValue())
	}
	if req.Header.Get("User-Agent") == "" {
		req.Header.Set("User-Agent", defaultUserAgent)
	}
	return req, nil
}

// failure maps what went wrong on the way.
func failure(ctx context.Context, method string, t target, err error) *abi.Error {
	e := &abi.Error{Code: abi.CodeUnavailable, Message: fmt.Sprintf("%s %s: %v", method, t, err)}
	var refused *refusedError
	switch {
	case errors.As(err, &refused):
		e.Code = abi.CodeDenied
		e.Message = fmt.Sprintf("%s %s: the host resolves to an address that is refused: %v", method, t, refused)
	case errors.Is(err, errTooLarge):
		e.Code = abi.CodeTooLarge
	case ctx.Err() != nil:
		e.Code = abi.CodeDeadline
		e.Message = fmt.Sprintf("%s %s: no complete answer in time", method, t)
	}
	return e
}

// clipMessage bounds a message and keeps it valid UTF-8.
func clipMessage(s string) string {
	if len(s) > maxErrorMessageSize {
		s = s[:maxErrorMessageSize] + "..."
	}
	return strings.ToValidUTF8(s, "?")
}
