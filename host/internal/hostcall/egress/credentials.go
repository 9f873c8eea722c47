package egress

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/host/internal/hostcall/writegate"
	"github.com/wasm-ccm/wasm-ccm/host/internal/text"
)

// Credentials authenticate requests and know the secrets that no provider may see. They are
// safe for concurrent use.
type Credentials interface {
	// Apply authenticates req by headers, query parameters or a replaced body, and changes
	// nothing else; its values replace the provider's. The grant of req lists name. It is called
	// for each attempt, before the request waits for its turn, and may send requests of its own.
	// scope is the credential_scope of abi.HttpRequest. body is the request's; it is neither
	// changed nor kept. The error is an *abi.Error, and quotes nothing of req, scope and body:
	// it is scrubbed, and a mark would tell the provider that its text is a secret. answered,
	// unless nil, gets the answer of this attempt before the provider does: it may change the
	// header, and returns the body. Without an answer the status is 0. It is called once.
	Apply(ctx context.Context, name, scope string, req *http.Request, body []byte) (answered func(status int, header http.Header, body []byte) []byte, err error)
	// Rejected tells that the server answered 401 to what Apply authenticated.
	// It reports whether trying once more can help, because a cached token was
	// dropped.
	Rejected(ctx context.Context, name, scope string) bool
	// Scrub returns data with every secret value replaced, in the usual encodings too. Without a
	// secret it may return data itself, which it never changes.
	Scrub(data []byte) []byte
	// ScrubContext is Scrub for large data. The error is the context's.
	ScrubContext(ctx context.Context, data []byte) ([]byte, error)
}

// apply adds the credential that the call names.
func (c *Client) apply(ctx context.Context, call *call, req *http.Request) *abi.Error {
	request := call.request
	if request.Credential == "" {
		return nil
	}
	// The manager's own login requests are not the guest's.
	answered, err := c.options.Credentials.Apply(writegate.NewContext(ctx, nil), request.Credential, request.CredentialScope, req, request.Body)
	call.answered = answered
	var known *abi.Error
	switch {
	case errors.As(err, &known) && known.Code != abi.CodeOK:
		return &abi.Error{Code: known.Code, RetryAfter: known.RetryAfter, Message: c.scrubString(known.Message)}
	case err != nil:
		return &abi.Error{Code: abi.CodeInternal, Message: c.scrubString(fmt.Sprintf("credential %q: %v", request.Credential, err))}
	}
	// Invariant E9 (host/SECURITY.md): the sent request still matches the checked grant.
	if err := c.checkApplied(call, req); err != nil {
		return &abi.Error{Code: abi.CodeInternal, Message: c.scrubString(fmt.Sprintf("credential %q: %v", request.Credential, err))}
	}
	return nil
}

// unanswered tells the credential that an attempt got no answer.
func (c *call) unanswered() {
	if c.answered != nil {
		c.answered(0, nil, nil)
		c.answered = nil
	}
}

// checkApplied checks that a credential has not changed the granted request. A signer is a
// guest, too.
func (c *Client) checkApplied(call *call, req *http.Request) error {
	u := req.URL
	if req.Method != call.request.Method || req.Host != "" || u.Scheme != call.target.scheme ||
		u.Host != authority(call.target) || u.EscapedPath() != call.target.path || u.User != nil || u.Opaque != "" {
		return errors.New("it changed the method or URL of the request")
	}
	// Twice the provider's own bound: the check must not reveal the secret's length.
	if size := len(u.RawQuery); size > 2*maxURLBytes || strings.ContainsFunc(u.RawQuery, func(r rune) bool { return r <= ' ' || r == 0x7f }) {
		return fmt.Errorf("its query is not valid or has more than %d bytes", 2*maxURLBytes)
	}
	if err := checkQuery(u.RawQuery); err != nil {
		return err
	}
	for name := range req.Header {
		if refusedHeader(name) != "" {
			return fmt.Errorf("it must not set the header %s", text.Quote(name))
		}
	}
	return checkConditions(req.Method, req.Header)
}

// rejected reports whether a call that was answered 401 is repeated.
func (c *Client) rejected(ctx context.Context, call *call, out outcome) bool {
	name := call.request.Credential
	return name != "" && out.status() == http.StatusUnauthorized &&
		c.options.Credentials.Rejected(ctx, name, call.request.CredentialScope)
}

// scrub removes secrets.
func (c *Client) scrub(ctx context.Context, data []byte) ([]byte, error) {
	if c.options.Credentials == nil || len(data) == 0 {
		return data, nil
	}
	clean, err := c.options.Credentials.ScrubContext(ctx, data)
	if known := (*abi.Error)(nil); errors.As(err, &known) && known.Code == abi.CodeTooLarge {
		err = fmt.Errorf("%w: %s", errTooLarge, known.Message)
	}
	return clean, err
}

func (c *Client) scrubString(s string) string {
	if c.options.Credentials == nil || s == "" {
		return s
	}
	return string(c.options.Credentials.Scrub([]byte(s)))
}
