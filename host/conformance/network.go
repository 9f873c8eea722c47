package conformance

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/netip"
	"net/url"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/host/config/v1alpha1"
	"github.com/wasm-ccm/wasm-ccm/host/credential"
	"github.com/wasm-ccm/wasm-ccm/host/egress"
)

// maxTokenBytes bounds the answer to a token request, as in the manager.
const maxTokenBytes = 1 << 20

// network is the way to the cloud that a HostConfiguration describes, with one
// set of Secrets.
type network struct {
	client      *egress.Client
	credentials *credential.Set
	options     egress.Options
	signers     []*signer
}

func newNetwork(ctx context.Context, o *Options, secrets Secrets) (*network, error) {
	n := &network{}
	specs := make([]credential.Spec, len(o.Provider.Credentials))
	for i := range o.Provider.Credentials {
		c := &o.Provider.Credentials[i]
		spec, err := n.spec(ctx, o, c)
		if err != nil {
			n.close(ctx)
			return nil, fmt.Errorf("credential %s: %w", c.Name, err)
		}
		specs[i] = spec
	}
	err := n.connect(o, secrets, specs)
	if err != nil {
		n.close(ctx)
	}
	return n, err
}

func (n *network) connect(o *Options, secrets Secrets, specs []credential.Spec) (err error) {
	scrubber := credential.NewScrubber(clock.RealClock{})
	if n.credentials, err = credential.NewSet(secrets, specs, credential.Options{Scrubber: scrubber}); err != nil {
		return err
	}
	grants, err := egressGrants(o.Provider.Grants, secrets)
	if err != nil {
		return err
	}
	r := o.Provider.Requests
	n.options = egress.Options{
		MaxBatchBytes: r.ResponseBytes.Value(), MaxTimeout: r.Timeout.Duration, MaxConcurrent: r.Concurrent,
		RequestsPerSecond: r.PerSecond, Burst: r.Burst, Credentials: n.credentials,
	}
	if n.client, err = egress.New(grants, n.options); err != nil {
		return fmt.Errorf("grants: %w", err)
	}
	return nil
}

// Send is hostfunc.HTTP.
func (n *network) Send(ctx context.Context, requests []*abi.HttpRequest) ([]*abi.HttpResult, error) {
	return n.client.Send(ctx, requests)
}

func (n *network) scrub(text string) string { return string(n.credentials.Scrub([]byte(text))) }

func (n *network) close(ctx context.Context) {
	if n.client != nil {
		n.client.Close()
	}
	if n.credentials != nil {
		n.credentials.Close()
	}
	for _, s := range n.signers {
		s.slot.Close(ctx)
	}
}

func egressGrants(grants []v1alpha1.Grant, secrets credential.Secrets) ([]egress.Grant, error) {
	var all []egress.Grant
	for i, g := range grants {
		cidrs, err := prefixes(g.CIDRs)
		if err != nil {
			return nil, fmt.Errorf("grants[%d].cidrs: %w", i, err)
		}
		roots, err := pool(g.CABundle)
		if err != nil {
			return nil, fmt.Errorf("grants[%d].caBundle: %w", i, err)
		}
		out := egress.Grant{
			Scheme: g.Scheme, Host: g.Host, Port: g.Port, PathPrefix: g.PathPrefix, Methods: g.Methods,
			CIDRs: cidrs, RootCAs: roots, Credentials: g.Credentials,
		}
		if ref := g.ClientCertificate; ref != nil {
			out.ClientCertificate = &egress.ClientCertificate{Get: clientCertificate(secrets, *ref)}
		}
		all = append(all, out)
	}
	return all, nil
}

func prefixes(cidrs []string) (all []netip.Prefix, err error) {
	for _, cidr := range cidrs {
		prefix, err := netip.ParsePrefix(cidr)
		if err != nil {
			return nil, err
		}
		all = append(all, prefix)
	}
	return all, nil
}

// pool returns nil, which is the system's, for an empty bundle.
func pool(bundle string) (*x509.CertPool, error) {
	if bundle == "" {
		return nil, nil
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM([]byte(bundle)) {
		return nil, errors.New("it has no certificate in PEM")
	}
	return roots, nil
}

func clientCertificate(secrets credential.Secrets, ref v1alpha1.Reference) func(context.Context) (*tls.Certificate, error) {
	return func(ctx context.Context) (*tls.Certificate, error) {
		data, _, err := secrets.Get(ctx, ref.Namespace, ref.Name)
		if err != nil {
			return nil, err
		}
		certificate, err := tls.X509KeyPair(data[corev1.TLSCertKey], data[corev1.TLSPrivateKeyKey])
		if err != nil {
			return nil, fmt.Errorf("the Secret %s/%s: %w", ref.Namespace, ref.Name, err)
		}
		return &certificate, nil
	}
}

// spec makes of a configured credential what package credential knows.
func (n *network) spec(ctx context.Context, o *Options, c *v1alpha1.Credential) (spec credential.Spec, err error) {
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
		a := c.AWSSigV4
		spec.AWSSigV4 = &credential.AWSSigV4{
			Region: a.Region, Service: a.Service,
			AccessKeyIDKey: a.AccessKeyIDKey, SecretAccessKeyKey: a.SecretAccessKeyKey, SessionTokenKey: a.SessionTokenKey,
		}
	case c.OAuth2ClientCredentials != nil:
		spec.OAuth2, err = oauth2(c.OAuth2ClientCredentials)
	case c.Signer != nil:
		spec.Signer, err = n.signer(ctx, o, c)
	}
	return spec, err
}

func oauth2(o *v1alpha1.OAuth2Credential) (*credential.OAuth2ClientCredentials, error) {
	client, err := tokenClient([]v1alpha1.Endpoint{o.Token})
	if err != nil {
		return nil, err
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

// tokenClient reaches the endpoints of tokens and nothing else.
func tokenClient(endpoints []v1alpha1.Endpoint) (*egress.Client, error) {
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
	return egress.New(grants, egress.Options{MaxBatchBytes: maxTokenBytes, MaxConcurrent: 4, RequestsPerSecond: 5, Burst: 20})
}
