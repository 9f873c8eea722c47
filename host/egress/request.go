package egress

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/wasm-ccm/wasm-ccm/abi"
)

// call is a request that a grant allows.
type call struct {
	request *abi.HttpRequest
	target  target
	grant   granted
	name    string // for errors: the target without its query, and not too long
	host    *host
	decode  bool // the host asked for gzip
}

// authorize checks a request against the grants, before anything is sent.
func (c *Client) authorize(request *abi.HttpRequest) (*call, *abi.Error) {
	if e := c.checkBounds(request); e != nil {
		return nil, e
	}
	t, err := parseTarget(request.GetUrl())
	if err != nil {
		return nil, &abi.Error{Code: abi.CodeInvalid, Message: "URL: " + err.Error()}
	}
	out := &call{request: request, target: t, name: c.nameOf(t)}
	if !validMethod(request.GetMethod()) {
		return nil, &abi.Error{Code: abi.CodeInvalid, Message: fmt.Sprintf("%s: method %q is not allowed; methods are in upper case", out.name, clip(request.GetMethod()))}
	}
	if err := checkHeaders(request.GetHeaders(), request.GetCredential() != ""); err != nil {
		return nil, &abi.Error{Code: abi.CodeInvalid, Message: fmt.Sprintf("%s: %v", out.name, err)}
	}
	var e *abi.Error
	out.grant, e = c.granted(out)
	return out, e
}

// nameOf is the target as errors name it. First scrubbed, then clipped: a
// redirect may hold a secret.
func (c *Client) nameOf(t target) string {
	name := c.scrubString(t.String())
	if len(name) > maxTargetSize {
		return name[:maxTargetSize] + "..."
	}
	return name
}

func (c *Client) checkBounds(request *abi.HttpRequest) *abi.Error {
	tooLarge := func(what string, size int, limit int64) *abi.Error {
		return &abi.Error{Code: abi.CodeTooLarge, Message: fmt.Sprintf("the %s has %d bytes, the limit is %d", what, size, limit)}
	}
	switch {
	case len(request.GetUrl()) > maxURLBytes:
		return tooLarge("URL", len(request.GetUrl()), maxURLBytes)
	case int64(len(request.GetBody())) > c.options.MaxRequestBytes:
		return tooLarge("body of the request", len(request.GetBody()), c.options.MaxRequestBytes)
	case len(request.GetCredentialScope()) > maxScopeBytes:
		return tooLarge("credential_scope", len(request.GetCredentialScope()), maxScopeBytes)
	case request.GetTimeoutMs() < 0:
		return &abi.Error{Code: abi.CodeInvalid, Message: "timeout_ms is negative"}
	case request.GetFollowRedirects() > maxRedirects:
		return &abi.Error{Code: abi.CodeInvalid, Message: fmt.Sprintf("follow_redirects is %d, the limit is %d", request.GetFollowRedirects(), maxRedirects)}
	}
	return nil
}

// granted returns the first grant that allows the request with its credential.
func (c *Client) granted(call *call) (granted, *abi.Error) {
	method, credential := call.request.GetMethod(), call.request.GetCredential()
	allowed := false
	for _, g := range c.grants {
		if !g.allows(method, call.target) {
			continue
		}
		if credential == "" || (c.options.Credentials != nil && slices.Contains(g.Credentials, credential)) {
			return g, nil
		}
		allowed = true
	}
	t := call.target
	switch {
	case !allowed:
		return granted{}, denied("%s %s: no grant allows it; to allow it, add a grant to the HostConfiguration (providers[].grants) or --provider-allow-url=%s://%s/",
			method, call.name, t.scheme, authority(t))
	case c.options.Credentials == nil:
		return granted{}, denied("%s %s: no credential named %q is configured", method, call.name, clip(credential))
	}
	return granted{}, denied("%s %s: no grant for it lists the credential %q; to allow it, add it to the credentials of the grant in the HostConfiguration (providers[].grants)",
		method, call.name, clip(credential))
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

// checkHeaders refuses headers that could change what the grant was asked for,
// or with a credential get it back in pieces. Its errors hold no values.
func checkHeaders(headers []*abi.HttpHeader, credential bool) error {
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
		if credential && http.CanonicalHeaderKey(name) == "Range" {
			return fmt.Errorf("header %q must not be set: with a credential only whole responses are read", clip(name))
		}
	}
	if size > maxHeaderBytes {
		return fmt.Errorf("the headers have %d bytes, the limit is %d", size, maxHeaderBytes)
	}
	return nil
}

// newRequest makes the request of one attempt, with its credential.
func (c *Client) newRequest(ctx context.Context, call *call) (*http.Request, *abi.Error) {
	request := call.request
	req, err := http.NewRequestWithContext(ctx, request.GetMethod(), "", bytes.NewReader(request.GetBody()))
	if err != nil {
		return nil, &abi.Error{Code: abi.CodeInvalid, Message: call.name + ": the request is not valid"}
	}
	u := *call.target.url // a credential may add to the query
	req.URL, req.Host = &u, ""
	for _, h := range request.GetHeaders() {
		req.Header.Add(h.GetName(), h.GetValue())
	}
	if req.Header.Get("User-Agent") == "" {
		req.Header.Set("User-Agent", defaultUserAgent)
	}
	call.decode = c.negotiate(req)
	return req, c.apply(ctx, call, req)
}

// negotiate asks for gzip where the provider asks for nothing, and reports
// whether it did. Where there are secrets, the provider does not choose: what is encoded otherwise cannot be
// searched for them.
func (c *Client) negotiate(req *http.Request) bool {
	if len(req.Header.Values("Accept-Encoding")) > 0 && c.options.Credentials == nil {
		return false
	}
	if req.Method == http.MethodHead || req.Header.Get("Range") != "" {
		req.Header.Set("Accept-Encoding", "identity")
		return false
	}
	req.Header.Set("Accept-Encoding", "gzip")
	return true
}

// clipMessage bounds a message and keeps it valid UTF-8.
func clipMessage(s string) string {
	if len(s) > maxErrorMessageSize {
		s = s[:maxErrorMessageSize] + "..."
	}
	return strings.ToValidUTF8(s, "?")
}

// Allows returns the *abi.Error with which Send would refuse the request
// before anything is sent, or nil. Nothing of it is observed.
func (c *Client) Allows(request *abi.HttpRequest) *abi.Error {
	_, e := c.authorize(request)
	return e
}
