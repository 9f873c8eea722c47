package credential

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/clientcredentials"
	"k8s.io/utils/clock"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/host/internal/text"
)

// defaultLease is the use of a token without a lifetime.
const defaultLease = 30 * time.Minute

// maxTokenErrorBytes bounds the quotation of the token endpoint's error.
const maxTokenErrorBytes = 256

type oauth2Method struct {
	redacted
	OAuth2ClientCredentials
	holder  holder
	clock   clock.PassiveClock
	renewal *renewal[string]
	client  *http.Client
}

func newOAuth2(o OAuth2ClientCredentials, h holder, clock clock.PassiveClock) *oauth2Method {
	setDefault(&o.ClientIDKey, "client_id")
	setDefault(&o.ClientSecretKey, "client_secret")
	client := &http.Client{
		Transport: o.Transport,
		// A token request holds the secret: it goes to no other URL.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return &oauth2Method{
		OAuth2ClientCredentials: o, holder: h, clock: clock, renewal: newRenewal[string](clock), client: client,
	}
}

func (o *oauth2Method) keys() keys {
	return keys{required: []string{o.ClientIDKey, o.ClientSecretKey}, public: []string{o.ClientIDKey}}
}

func (o *oauth2Method) apply(ctx context.Context, c *call) error {
	token, err := o.renewal.get(ctx, c.version, func(ctx context.Context) (lease[string], bool, error) {
		l, err := o.obtain(ctx, c)
		return l, true, err
	})
	if err != nil {
		return err
	}
	return setHeader(c.req, "Authorization", "Bearer "+token)
}

func (o *oauth2Method) obtain(ctx context.Context, c *call) (lease[string], error) {
	config := clientcredentials.Config{
		ClientID: c.values[o.ClientIDKey], ClientSecret: c.values[o.ClientSecretKey],
		TokenURL: o.TokenURL, Scopes: o.Scopes, EndpointParams: o.Params, AuthStyle: oauth2.AuthStyleInHeader,
	}
	if o.InBody {
		config.AuthStyle = oauth2.AuthStyleInParams
	}
	// Escaped first, encoded afterwards: RFC 6749, 2.3.1.
	basic := url.QueryEscape(config.ClientID) + ":" + url.QueryEscape(config.ClientSecret)
	o.holder.hold("client", []byte(base64.StdEncoding.EncodeToString([]byte(basic))))
	token, err := config.Token(context.WithValue(ctx, oauth2.HTTPClient, o.client))
	if err != nil {
		return lease[string]{}, tokenFailure(err)
	}
	if len(token.AccessToken) < minSecretBytes || len(token.AccessToken) > maxHeaderBytes {
		return lease[string]{}, fmt.Errorf("the token endpoint answered with a token of %d bytes, must be from %d to %d", len(token.AccessToken), minSecretBytes, maxHeaderBytes)
	}
	if t := token.Type(); t != "Bearer" {
		return lease[string]{}, fmt.Errorf("the token endpoint answered with a token of type %s; only bearer tokens are supported", text.Quote(t))
	}
	o.holder.hold("token", []byte(token.AccessToken))
	lifetime := defaultLease
	if !token.Expiry.IsZero() {
		lifetime = time.Until(token.Expiry)
	}
	now := o.clock.Now()
	return lease[string]{value: token.AccessToken, version: c.version, until: renewAt(now, now.Add(lifetime))}, nil
}

// tokenFailure quotes the token endpoint's answer, within bounds.
func tokenFailure(err error) error {
	var answer *oauth2.RetrieveError
	if !errors.As(err, &answer) || answer.Response == nil {
		return fmt.Errorf("obtain a token: %w", err)
	}
	e := &abi.Error{Code: abi.CodeUnavailable, Message: fmt.Sprintf("the token endpoint answered %d", answer.Response.StatusCode)}
	if answer.ErrorCode != "" {
		e.Message += text.Line(fmt.Sprintf(": %s %s", answer.ErrorCode, answer.ErrorDescription), maxTokenErrorBytes)
	}
	switch answer.Response.StatusCode {
	case http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden:
		e.Code = abi.CodeUnauthenticated
	case http.StatusTooManyRequests:
		e.Code, e.RetryAfter = abi.CodeThrottled, minRenewal
	}
	return e
}

func (o *oauth2Method) rejected(string) bool {
	renewed, _ := o.renewal.drop()
	return renewed
}
