package credential

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"

	"k8s.io/utils/clock"

	"github.com/wasm-ccm/wasm-ccm/abi"
)

// bodyTemplate replaces a body with the placeholder by the administrator's body. The
// provider's own body is not sent.
type bodyTemplate struct {
	redacted
	BodyTemplate
	rest *loginRest
}

func newBodyTemplate(b BodyTemplate, clock clock.PassiveClock) *bodyTemplate {
	setDefault(&b.Method, http.MethodPost)
	return &bodyTemplate{BodyTemplate: b, rest: newLoginRest(clock)}
}

func (b *bodyTemplate) keys() keys { return keys{required: b.Body.Keys()} }

// logsIn reports whether a request has the placeholder.
func (b *bodyTemplate) logsIn(c *call) bool { return bytes.Contains(c.body, []byte(b.Placeholder)) }

func (b *bodyTemplate) apply(ctx context.Context, c *call) error {
	if !b.logsIn(c) {
		return nil
	}
	// Invariant L1 (host/SECURITY.md): the filled body goes to one method and path only.
	if c.req.Method != b.Method || c.req.URL.EscapedPath() != b.Path || c.req.URL.RawQuery != "" {
		return &abi.Error{Code: abi.CodeDenied, Message: fmt.Sprintf(
			"the body holds the placeholder, but the template is for %s %s without a query alone; see bodyTemplate in the HostConfiguration", b.Method, b.Path)}
	}
	end, err := b.rest.begin(ctx, c.version)
	if err != nil {
		return err
	}
	// Invariant L2 (host/SECURITY.md): no byte of the provider's body is sent beside a value.
	filled, err := b.Body.Fill(c.values)
	if err != nil {
		end()
		return err
	}
	b.setBody(c.req, filled)
	version := c.version
	// SOAP refuses with 500; other server errors may be a gateway's.
	c.answered = func(status int) {
		b.rest.answered(version, status, status <= http.StatusInternalServerError && status != http.StatusTooManyRequests)
		end()
	}
	return nil
}

// setBody replaces the body, and the provider's headers about it.
func (b *bodyTemplate) setBody(req *http.Request, body []byte) {
	for name := range req.Header {
		if ofTheBody(name) {
			req.Header.Del(name)
		}
	}
	req.Header.Set("Content-Type", b.ContentType)
	for _, name := range slices.Sorted(maps.Keys(b.Headers)) {
		req.Header.Set(name, b.Headers[name])
	}
	req.ContentLength = int64(len(body))
	req.Body = io.NopCloser(bytes.NewReader(body))
	req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
}

// ofTheBody reports whether a header describes a body, or authenticates. Servers that read
// headers as variables take _ for -.
func ofTheBody(name string) bool {
	name = strings.ToLower(strings.ReplaceAll(name, "_", "-"))
	return strings.HasPrefix(name, "content-") || strings.HasSuffix(name, "digest") || name == "authorization"
}

func (*bodyTemplate) rejected(string) bool { return false }
