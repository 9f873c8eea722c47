package credential

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/url"

	"k8s.io/apimachinery/pkg/types"

	"github.com/wasm-ccm/wasm-ccm/host/internal/hostcall/bodytemplate"
)

// Spec describes a credential that the configuration's validation has accepted:
// what its fields may be is said there, and nowhere else. It holds no secret value, but it is printed as
// its name and type only, since what it refers to does.
//
// Exactly one of the pointers is set; it is the type.
type Spec struct {
	// Name is what a provider calls it: a DNS label.
	Name string
	// Secret is the Kubernetes Secret with the values. A line break at the end
	// of a value is left out, except for signers.
	Secret types.NamespacedName
	// PublicKeys are keys of the Secret whose values are no secrets, as a
	// region or the name of a user: they are not scrubbed.
	PublicKeys []string

	Header   *Header
	Basic    *Basic
	Bearer   *Bearer
	Query    *Query
	OAuth2   *OAuth2ClientCredentials
	AWSSigV4 *AWSSigV4
	Signer   *SignerSpec
	// BodyTemplate is for a secret that stands in a body, as in that of a login.
	BodyTemplate *BodyTemplate

	// Session, unless nil, keeps what a login gives from the provider. It goes
	// with Basic, which is then for requests without a session, and with
	// BodyTemplate.
	Session *Session
}

// Header sets a header to a value of the Secret.
type Header struct {
	// Name is the header's.
	Name string
	// Prefix stands before the value, e.g. "Token ".
	Prefix string
	// Key of the Secret.
	Key string
}

// Basic is HTTP's basic authentication (RFC 7617). The name of the user is
// taken for no secret; the password and the header are scrubbed.
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
	// Scopes and Params go along with the token request. Params hold no
	// secrets.
	Scopes []string
	Params url.Values
	// InBody sends ID and secret as form values, for servers that do not
	// understand basic authentication.
	InBody bool
	// Transport sends the token requests. It must reach the token endpoint and
	// nothing else.
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

// SignerSpec leaves everything to a module.
type SignerSpec struct {
	// Signer runs the module.
	Signer Signer
	// Tokens sends its token requests, and must reach the URLs granted to the
	// signer only. Nil: it may ask for none.
	Tokens TokenSender
}

// BodyTemplate sends a body of the administrator's where the provider's holds a
// placeholder.
type BodyTemplate struct {
	// Placeholder is what the provider has instead of the secret. It consists of
	// letters, digits, '.', '_' and '-', so that it looks the same in every format.
	Placeholder string
	// Method and Path are those of the request. Method "": POST. Path is compared
	// as it is sent.
	Method, Path string
	// ContentType is sent with the body. Headers replace the provider's.
	ContentType string
	Headers     map[string]string
	// Body is sent with the values of the Secret.
	Body *bodytemplate.Template
}

// Session is where an answer has what stands for a login. Cookie or Header is set.
type Session struct {
	// Cookie is the name of a cookie, in answers and in requests.
	Cookie string
	// Header is the name of a header of later requests, in which the session is
	// the last word, and Field is where the
	// JSON of a login's answer has its value: names, with dots between them, or
	// "." where the answer is the value.
	Header, Field string
}

// Type returns the name of the credential's type, or "" when there is not
// exactly one.
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
