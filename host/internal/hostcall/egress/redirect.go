package egress

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/wasm-ccm/wasm-ccm/abi"
)

// redirects reports whether the answer is a redirect.
func (a *answer) redirects() bool {
	switch a.response.Status {
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther, http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		return a.header.Get("Location") != ""
	}
	return false
}

// redirect is the call for a redirect. It is checked like the provider's own request.
func (c *Client) redirect(from *call, a *answer) (*call, *abi.Error) {
	url, err := from.target.url.Parse(a.header.Get("Location"))
	if err != nil {
		return nil, &abi.Error{Code: abi.CodeUnavailable, Message: from.name + ": its redirect has no valid URL"}
	}
	url.Fragment, url.RawFragment = "", ""
	location := url.String()
	t, err := parseTarget(location)
	same := err == nil && t.sameOrigin(from.target)
	switch {
	case !same && c.scrubString(location) != location:
		return nil, denied("%s: it redirects elsewhere, with a secret in the URL", from.name)
	case err == nil && from.target.scheme == "https" && t.scheme != "https":
		return nil, denied("%s: its redirect from https to %s is not followed", from.name, c.nameOf(t, true))
	}
	// Invariant E4 (host/SECURITY.md): a redirect is checked like the provider's own request.
	to, e := c.authorize(redirected(from.request, int(a.response.Status), location, same), true)
	if e != nil {
		e.Message = fmt.Sprintf("redirected from %s: %s", from.name, c.scrubString(e.Message))
		if e.Code == abi.CodeInvalid { // the server's fault, not the provider's
			e.Code = abi.CodeDenied
		}
		return nil, e
	}
	return to, nil
}

// redirected is the next request, by RFC 9110, section 15.4.
func redirected(request *abi.HttpRequest, status int, location string, same bool) *abi.HttpRequest {
	next := &abi.HttpRequest{
		Method: request.Method, Url: location, Body: request.Body, TimeoutMs: request.TimeoutMs,
		Credential: request.Credential, CredentialScope: request.CredentialScope,
	}
	rewritten := next.Method == http.MethodPost && (status == http.StatusMovedPermanently || status == http.StatusFound) ||
		next.Method != http.MethodHead && status == http.StatusSeeOther
	if rewritten {
		next.Method, next.Body = http.MethodGet, nil
	}
	// Invariant E4 (host/SECURITY.md): a credential stays with scheme, host and port.
	if !same {
		next.Credential, next.CredentialScope = "", ""
	}
	for _, h := range request.Headers {
		if !dropped(h.Name, rewritten, same) {
			next.Headers = append(next.Headers, h)
		}
	}
	return next
}

// dropped reports whether a redirect drops a header.
func dropped(name string, rewritten, same bool) bool {
	switch http.CanonicalHeaderKey(name) {
	case "Authorization", "Cookie", "Cookie2":
		return !same
	case "Content-Type", "Content-Encoding", "Content-Language", "Content-Location", "Content-Md5", "Digest", "Content-Digest":
		return rewritten
	}
	return rewritten && strings.HasPrefix(plainName(name), "if-") // of another request
}
