package credential

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/url"

	"k8s.io/apimachinery/pkg/types"

	"github.com/wasm-ccm/wasm-ccm/host/internal/hostcall/bodytemplate"
)

// Spec describes a credential that the configuration's validation has accepted, which alone restricts
// the fields. It holds no secret value, but is printed only as its name and type, since the values of
// its pointers may hold some.
//
// Exactly one of the pointers is set; it is the type.
type Spec struct {
	// Name is the provider's name for it: a DNS label.
	Name string
	// Secret is the Kubernetes Secret with the values. A trailing line break of a value is
	// dropped, except for signers.
	Secret types.NamespacedName
	// PublicKeys are keys of the Secret with public values, as a region or a user name: they are
	// not scrubbed.
	PublicKeys []string

	Header   *Header
	Basic    *Basic
	Bearer   *Bearer
	Query    *Query
	OAuth2   *OAuth2ClientCredentials
	AWSSigV4 *AWSSigV4
	Signer   *SignerSpec
	// BodyTemplate is for a secret in a body, as in a login's.
	BodyTemplate *BodyTemplate

	// Session, unless nil, hides a login's session from the provider. It is combined with Basic,
	// then for requests without a session, and with BodyTemplate.
	Session *Session
}

// Header sets a header to a value of the Secret.
type Header struct {
	// Name is the header's.
	Name string
	// Prefix precedes the value, e.g. "Token ".
	Prefix string
	// Key of the Secret.
	Key string
}

// Basic is HTTP's basic authentication (RFC 7617). The user name is not treated as a secret;
// the password and the header are scrubbed.
type Basic struct {
	// UsernameKey and PasswordKey are keys of the Secret. Empty: "username"
	// and "password", as in Secrets of type kubernetes.io/basic-auth.
	UsernameKey, PasswordKey string
}

// Bearer sets the header Authorization (RFC 6750).
type Bearer struct {
	// Key of the Secret. Empty: "token".
	Key string
}

// Query sets a parameter of the URL's query to a value of the Secret.
type Query struct {
	// Param is the name of the parameter.
	Param string
	// Key of the Secret.
	Key string
}

// OAuth2ClientCredentials obtains and renews tokens with the client
// credentials grant (RFC 6749, 4.4).
type OAuth2ClientCredentials struct {
	// TokenURL is the token endpoint.
	TokenURL string
	// ClientIDKey and ClientSecretKey are keys of the Secret. Empty:
	// "client_id" and "client_secret".
	ClientIDKey, ClientSecretKey string
	// Scopes and Params are sent with the token request. Params hold no secrets.
	Scopes []string
	Params url.Values
	// InBody sends ID and secret as form values, for servers that do not
	// understand basic authentication.
	InBody bool
	// Transport sends the token requests. It must reach only the token endpoint.
	Transport http.RoundTripper
}

// AWSSigV4 signs requests with AWS Signature Version 4.
type AWSSigV4 struct {
	// Keys of the Secret. Empty: "access_key_id", "secret_access_key" and
	// "session_token". The last one may be absent from the Secret unless it is
	// named here.
	AccessKeyIDKey, SecretAccessKeyKey, SessionTokenKey string
	// Region and Service, e.g. "eu-central-1" and "ec2".
	Region, Service string
}

// SignerSpec delegates the authentication to a module.
type SignerSpec struct {
	// Signer runs the module.
	Signer Signer
	// Tokens sends its token requests, and must reach only the signer's granted URLs. Nil: it
	// may send none.
	Tokens TokenSender
}

// BodyTemplate sends the administrator's body in place of a provider's body with a
// placeholder.
type BodyTemplate struct {
	// Placeholder is the provider's substitute for the secret. It consists of letters, digits,
	// '.', '_' and '-', so that it looks the same in every format.
	Placeholder string
	// Method and Path are the request's. Method "": POST. Path is compared in its sent form.
	Method, Path string
	// ContentType is sent with the body. Headers replace the provider's.
	ContentType string
	Headers     map[string]string
	// Body is filled with the values of the Secret and sent.
	Body *bodytemplate.Template
}

// Session is the place of a login's session. Cookie or Header is set.
type Session struct {
	// Cookie is the name of a cookie, in answers and in requests.
	Cookie string
	// Header is the name of a header of later requests, with the session as its last word; Field
	// is the place of the session in the JSON of a login's answer: names, separated by dots, or
	// "." for the whole answer.
	Header, Field string
}

// Type returns the name of the credential's type, or "" unless there is exactly one.
func (s *Spec) Type() string {
	set := map[string]bool{
		"header": s.Header != nil, "basic": s.Basic != nil, "bearer": s.Bearer != nil, "query": s.Query != nil,
		"oauth2ClientCredentials": s.OAuth2 != nil, "awsSigV4": s.AWSSigV4 != nil, "signer": s.Signer != nil,
		"bodyTemplate": s.BodyTemplate != nil,
	}
	out := ""
	for name, is := range set {
		if is && out != "" {
			return ""
		}
		if is {
			out = name
		}
	}
	return out
}

// String returns the name and type.
func (s Spec) String() string {
	return fmt.Sprintf("credential %s (%s, Secret %s)", s.Name, s.Type(), s.Secret)
}

// Format prints what String returns, whatever the verb.
func (s Spec) Format(f fmt.State, _ rune) { fmt.Fprint(f, s.String()) }

// MarshalText returns what String returns; JSON and loggers use it.
func (s Spec) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// LogValue returns what String returns.
func (s Spec) LogValue() slog.Value { return slog.StringValue(s.String()) }
