package grant

import (
	"fmt"
	"net/url"

	"k8s.io/apimachinery/pkg/types"

	"github.com/wasm-ccm/wasm-ccm/host/config/v1alpha1"
	"github.com/wasm-ccm/wasm-ccm/host/internal/hostcall/bodytemplate"
	"github.com/wasm-ccm/wasm-ccm/host/internal/hostcall/credential"
	"github.com/wasm-ccm/wasm-ccm/host/internal/hostcall/egress"
)

// SignerFunc returns the signer of the credential of that name.
type SignerFunc func(name string, c *v1alpha1.SignerCredential) (credential.Signer, error)

// Credential converts a configured credential to that of package credential. It
// calls signer for one with a signer.
func Credential(c *v1alpha1.Credential, signer SignerFunc) (credential.Spec, error) {
	b := builder{signer: signer, tokens: map[string]*egress.Client{}}
	return b.credential(c)
}

// builder builds the credentials of a network.
type builder struct {
	signer  SignerFunc
	inForce func() *Network
	tokens  map[string]*egress.Client
}

func (b *builder) credential(c *v1alpha1.Credential) (spec credential.Spec, err error) {
	spec = credential.Spec{Name: c.Name, Secret: types.NamespacedName(c.Secret), PublicKeys: c.PublicKeys}
	switch {
	case c.Header != nil:
		spec.Header = &credential.Header{Name: c.Header.Header, Prefix: c.Header.Prefix, Key: c.Header.Key}
	case c.Basic != nil:
		spec.Basic = &credential.Basic{UsernameKey: c.Basic.UsernameKey, PasswordKey: c.Basic.PasswordKey}
	case c.Bearer != nil:
		spec.Bearer = &credential.Bearer{Key: c.Bearer.Key}
	case c.Query != nil:
		spec.Query = &credential.Query{Param: c.Query.Parameter, Key: c.Query.Key}
	case c.AWSSigV4 != nil:
		spec.AWSSigV4 = awsSigV4(c.AWSSigV4)
	case c.OAuth2ClientCredentials != nil:
		spec.OAuth2, err = b.oauth2(c.Name, c.OAuth2ClientCredentials)
	case c.Signer != nil:
		spec.Signer, err = b.signerSpec(c.Name, c.Signer)
	case c.BodyTemplate != nil:
		spec.BodyTemplate, err = bodyTemplate(c.BodyTemplate)
	}
	if s := c.Session; s != nil {
		spec.Session = &credential.Session{Cookie: s.Cookie, Header: s.Header, Field: s.Field}
	}
	return spec, err
}

func bodyTemplate(b *v1alpha1.BodyTemplate) (*credential.BodyTemplate, error) {
	body, err := bodytemplate.Parse(b.ContentType, b.Body)
	if err != nil {
		return nil, fmt.Errorf("bodyTemplate: body: %w", err)
	}
	return &credential.BodyTemplate{
		Placeholder: b.Placeholder, Method: b.Method, Path: b.Path, ContentType: b.ContentType, Headers: b.Headers, Body: body,
	}, nil
}

func awsSigV4(a *v1alpha1.AWSSigV4) *credential.AWSSigV4 {
	return &credential.AWSSigV4{
		Region: a.Region, Service: a.Service,
		AccessKeyIDKey: a.AccessKeyIDKey, SecretAccessKeyKey: a.SecretAccessKeyKey, SessionTokenKey: a.SessionTokenKey,
	}
}

func (b *builder) oauth2(name string, o *v1alpha1.OAuth2Credential) (*credential.OAuth2ClientCredentials, error) {
	client, err := b.tokenClient(name, []v1alpha1.Endpoint{o.Token})
	if err != nil {
		return nil, fmt.Errorf("oauth2ClientCredentials: %w", err)
	}
	out := &credential.OAuth2ClientCredentials{
		TokenURL: o.Token.URL, ClientIDKey: o.ClientIDKey, ClientSecretKey: o.ClientSecretKey,
		Scopes: o.Scopes, Transport: roundTripper{client},
	}
	if o.Audience != "" {
		out.Params = url.Values{"audience": {o.Audience}}
	}
	return out, nil
}

func (b *builder) signerSpec(name string, c *v1alpha1.SignerCredential) (*credential.SignerSpec, error) {
	module, err := b.signer(name, c)
	if err != nil {
		return nil, fmt.Errorf("signer: %w", err)
	}
	spec := &credential.SignerSpec{Signer: module}
	if len(c.Tokens) > 0 {
		client, err := b.tokenClient(name, c.Tokens)
		if err != nil {
			return nil, fmt.Errorf("signer: %w", err)
		}
		spec.Tokens = credential.NewTokenSender(client)
	}
	return spec, nil
}

// tokenClient reaches only the endpoints of tokens. The provider cannot use it.
func (b *builder) tokenClient(name string, endpoints []v1alpha1.Endpoint) (*egress.Client, error) {
	var grants []egress.Grant
	for _, e := range endpoints {
		grant, err := egress.ParseGrant(e.URL)
		if err != nil {
			return nil, err
		}
		if grant.CIDRs, err = prefixes(e.CIDRs); err != nil {
			return nil, err
		}
		if grant.RootCAs, err = pool(e.CABundle); err != nil {
			return nil, err
		}
		grants = append(grants, grant)
	}
	client, err := egress.New(grants, egress.Options{
		MaxBatchBytes: maxTokenBytes, MaxConcurrent: 4, RequestsPerSecond: 5, Burst: 20,
		// Invariant G3 (host/SECURITY.md): a URL of tokens that is withdrawn gets no secret.
		InForce: inForce(b.inForce, func(now *Network) *egress.Client { return now.tokens[name] }),
	})
	b.tokens[name] = client
	return client, err
}

// maxTokenBytes bounds the answer to a token request. Keystone's contain a
// service catalog.
const maxTokenBytes = 1 << 20
