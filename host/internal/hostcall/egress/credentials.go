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

// Credentials authenticate requests and know the secrets that no provider may
// see. They are safe for concurrent use.
type Credentials interface {
	// Apply authenticates req by headers, query parameters or a body instead of
	// its own, and changes nothing else of it; what it sets replaces what the
	// provider has set. The
	// grant of req lists name. It is called for each attempt, before the
	// request waits for its turn, and may send requests of its own. scope is
	// the credential_scope of abi.HttpRequest. body is that of req; it is
	// neither changed nor kept. The error is an *abi.Error, and repeats nothing
	// of req, scope and body: it is scrubbed, and a mark would tell the provider
	// that what it wrote is a secret. answered, unless nil, gets the answer of
	// this attempt before the provider does: it may change the header, and
	// returns the body. Of an attempt without an answer the status is 0. It is
	// called once.
	Apply(ctx context.Context, name, scope string, req *http.Request, body []byte) (answered func(status int, header http.Header, body []byte) []byte, err error)
	// Rejected tells that the server answered 401 to what Apply authenticated.
	// It reports whether trying once more can help, because a cached token was
	// dropped.
	Rejected(ctx context.Context, name, scope string) bool
	// Scrub returns data with every secret value replaced, in the usual
	// encodings too. It may return data itself where there is none, and never
	// changes it.
	Scrub(data []byte) []byte
	// ScrubContext is Scrub for what may be large. The error is the context's.
	ScrubContext(ctx context.Context, data []byte) ([]byte, error)
}

// apply adds the credential that the call names.
func (c *Client) apply(ctx context.Context, call *call, req *http.Request) *abi.Error {
	request := call.request
	if request.GetCredential() == "" {
		return nil
	}
	// What the manager sends to log in is no request of the guest.
	answered, err := c.options.Credentials.Apply(writegate.NewContext(ctx, nil), request.GetCredential(), request.GetCredentialScope(), req, request.GetBody())
	call.answered = answered
	var known *abi.Error
	switch {
	case errors.As(err, &known) && known.Code != abi.CodeOK:
		return &abi.Error{Code: known.Code, RetryAfter: known.RetryAfter, Message: c.scrubString(known.Message)}
	case err != nil:
		return &abi.Error{Code: abi.CodeInternal, Message: c.scrubString(fmt.Sprintf("credential %q: %v", request.GetCredential(), err))}
	}
	// Invariant E9 (host/SECURITY.md): what is sent is still what the grant was asked for.
	if err := c.checkApplied(call, req); err != nil {
		return &abi.Error{Code: abi.CodeInternal, Message: c.scrubString(fmt.Sprintf("credential %q: %v", request.GetCredential(), err))}
	}
	return nil
}

// unanswered tells the credential of an attempt that got no answer.
func (c *call) unanswered() {
	if c.answered != nil {
		c.answered(0, nil, nil)
		c.answered = nil
	}
}

// checkApplied finds out whether a credential changed what was granted. A
// signer is a guest, too.
func (c *Client) checkApplied(call *call, req *http.Request) error {
	u := req.URL
	if req.Method != call.request.GetMethod() || req.Host != "" || u.Scheme != call.target.scheme ||
		u.Host != authority(call.target) || u.EscapedPath() != call.target.path || u.User != nil || u.Opaque != "" {
		return errors.New("it changed the method or URL of the request")
	}
	// Twice the bound of the provider's own: whether it fits must not say how
	// long the secret is.
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
	return nil
}

// rejected reports whether a call that was answered 401 is sent once more.
func (c *Client) rejected(ctx context.Context, call *call, out outcome) bool {
	name := call.request.GetCredential()
	return name != "" && out.status() == http.StatusUnauthorized &&
		c.options.Credentials.Rejected(ctx, name, call.request.GetCredentialScope())
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
