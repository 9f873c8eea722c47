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
	"github.com/wasm-ccm/wasm-ccm/host/internal/hostcall/writegate"
	"github.com/wasm-ccm/wasm-ccm/host/internal/text"
)

// call is an allowed request.
type call struct {
	request *abi.HttpRequest
	target  target
	grant   granted
	name    string // for errors: the target without its query, cut; not to be scrubbed again
	foreign bool   // a server named the target
	host    *host
	// Of the current attempt: its grant in force, and its transport.
	now       granted
	transport *http.Transport
	// Of the current attempt: the host asked for gzip, and the credential's Answered, or nil.
	decode   bool
	answered func(status int, header http.Header, body []byte) []byte
}

// authorize checks a request against the grants, before anything is sent.
// foreign says that a server named the URL, not the provider.
func (c *Client) authorize(request *abi.HttpRequest, foreign bool) (*call, *abi.Error) {
	if e := c.checkBounds(request); e != nil {
		return nil, e
	}
	// Invariant E1 (host/SECURITY.md): the URL compared with the grants is the one sent, in its
	// canonical form.
	t, err := parseTarget(request.Url)
	if err != nil {
		return nil, &abi.Error{Code: abi.CodeInvalid, Message: "URL: " + err.Error()}
	}
	out := &call{request: request, target: t, name: c.nameOf(t, foreign), foreign: foreign}
	if err := checkQuery(t.url.RawQuery); err != nil {
		return nil, &abi.Error{Code: abi.CodeInvalid, Message: fmt.Sprintf("%s: %v", out.name, err)}
	}
	if !validMethod(request.Method) {
		return nil, &abi.Error{Code: abi.CodeInvalid, Message: fmt.Sprintf("%s: method %s is not allowed; methods are in upper case", out.name, text.Quote(request.Method))}
	}
	if err := checkHeaders(request.Method, request.Headers); err != nil {
		return nil, &abi.Error{Code: abi.CodeInvalid, Message: fmt.Sprintf("%s: %v", out.name, err)}
	}
	var e *abi.Error
	out.grant, e = c.granted(out)
	return out, e
}

// nameOf is a target's name in errors. A name from a server is scrubbed first, then cut:
// half a secret would not be found.
func (c *Client) nameOf(t target, foreign bool) string {
	name := t.String()
	if foreign {
		name = c.scrubString(name)
	}
	return text.Line(name, maxTargetSize)
}

func (c *Client) checkBounds(request *abi.HttpRequest) *abi.Error {
	tooLarge := func(what string, size int, limit int64) *abi.Error {
		return &abi.Error{Code: abi.CodeTooLarge, Message: fmt.Sprintf("the %s has %d bytes, the limit is %d", what, size, limit)}
	}
	switch {
	case len(request.Url) > maxURLBytes:
		return tooLarge("URL", len(request.Url), maxURLBytes)
	case int64(len(request.Body)) > c.options.MaxRequestBytes:
		return tooLarge("body of the request", len(request.Body), c.options.MaxRequestBytes)
	case len(request.CredentialScope) > maxScopeBytes:
		return tooLarge("credential_scope", len(request.CredentialScope), maxScopeBytes)
	case request.TimeoutMs < 0:
		return &abi.Error{Code: abi.CodeInvalid, Message: "timeout_ms is negative"}
	case request.FollowRedirects > maxRedirects:
		return &abi.Error{Code: abi.CodeInvalid, Message: fmt.Sprintf("follow_redirects is %d, the limit is %d", request.FollowRedirects, maxRedirects)}
	}
	return nil
}

// granted returns the first grant that allows the request with its credential.
func (c *Client) granted(call *call) (granted, *abi.Error) {
	method, credential := call.request.Method, call.request.Credential
	allowed, otherMethods, otherPaths := false, false, false
	for _, g := range c.grants {
		// Invariant E1 (host/SECURITY.md): without a grant there is no transport to send it with.
		if !g.allows(method, call.target) {
			otherMethods = otherMethods || g.allowsTarget(call.target)
			otherPaths = otherPaths || g.allowsOrigin(call.target)
			continue
		}
		// Invariant S1 (host/SECURITY.md): a credential is used only if the request's grant lists
		// it.
		if credential == "" || (c.options.Credentials != nil && slices.Contains(g.Credentials, credential)) {
			return g, nil
		}
		allowed = true
	}
	t := call.target
	switch {
	case !allowed && otherMethods:
		return granted{}, denied("%s %s: a grant allows this URL, but not the method; to allow it, add %s to the methods of the grant in the HostConfiguration (providers[].grants[].methods)",
			method, call.name, method)
	case !allowed && otherPaths:
		return granted{}, denied("%s %s: no grant allows it: one allows this host, but not the path; to allow it, change the pathPrefix of the grant in the HostConfiguration (providers[].grants[].pathPrefix)",
			method, call.name)
	case !allowed:
		return granted{}, denied("%s %s: no grant allows it; to allow it, add {scheme: %s, host: %q, port: %d} to the grants of the provider in the HostConfiguration (providers[].grants)",
			method, call.name, t.scheme, t.host, t.port)
	case c.options.Credentials == nil:
		return granted{}, denied("%s %s: no credential named %s is configured", method, call.name, text.Quote(credential))
	}
	return granted{}, denied("%s %s: no grant for it lists the credential %s; to allow it, add it to the credentials of the grant in the HostConfiguration (providers[].grants)",
		method, call.name, text.Quote(credential))
}

func denied(format string, args ...any) *abi.Error {
	return &abi.Error{Code: abi.CodeDenied, Message: fmt.Sprintf(format, args...)}
}

// validMethod accepts upper-case tokens. CONNECT opens tunnels, TRACE echoes.
func validMethod(method string) bool {
	return method != "" && len(method) <= 32 && httpguts.ValidHeaderFieldName(method) &&
		method == strings.ToUpper(method) && method != http.MethodConnect && method != http.MethodTrace
}

// newRequest makes the request of one attempt, with its credential.
func (c *Client) newRequest(ctx context.Context, call *call) (*http.Request, *abi.Error) {
	request := call.request
	req, err := http.NewRequestWithContext(ctx, request.Method, "", bytes.NewReader(request.Body))
	if err != nil {
		return nil, &abi.Error{Code: abi.CodeInvalid, Message: call.name + ": the request is not valid"}
	}
	u := *call.target.url // a credential may add to the query
	req.URL, req.Host = &u, ""
	req.Header = headerOf(request.Headers)
	if req.Header.Get("User-Agent") == "" {
		req.Header.Set("User-Agent", defaultUserAgent)
	}
	call.decode = negotiate(req)
	if e := c.apply(ctx, call, req); e != nil {
		return nil, e
	}
	// Invariant R7 (host/SECURITY.md): the gate sees the final request, after all changes by a
	// redirect or a credential.
	if gate := writegate.FromContext(ctx); gate != nil {
		if why := writes(call, req); why != "" {
			return nil, gate.Refuse(fmt.Sprintf("%s %s is not sent: %s", req.Method, call.name, why))
		}
	}
	return req, nil
}

// negotiate asks for gzip, and reports whether it did. The provider has no choice: other
// encodings cannot be searched for secrets.
func negotiate(req *http.Request) bool {
	if req.Method == http.MethodHead {
		req.Header.Set("Accept-Encoding", "identity")
		return false
	}
	req.Header.Set("Accept-Encoding", "gzip")
	return true
}
