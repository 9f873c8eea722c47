package credential

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/url"

	"k8s.io/apimachinery/pkg/types"
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

// Type returns the name of the credential's type, or "" when there is not
// exactly one.
func (s *Spec) Type() string {
	set := map[string]bool{
		"header": s.Header != nil, "basic": s.Basic != nil, "bearer": s.Bearer != nil, "query": s.Query != nil,
		"oauth2ClientCredentials": s.OAuth2 != nil, "awsSigV4": s.AWSSigV4 != nil, "signer": s.Signer != nil,
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
