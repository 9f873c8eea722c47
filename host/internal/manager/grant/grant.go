// Package grant turns the HostConfiguration of a provider (its grants,
// credentials, capabilities and limits) into the types of packages egress,
// credential and plugin. The manager and the conformance kit share it, so that
// they allow the same.
//
// It starts nothing and sends nothing.
package grant

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/netip"

	corev1 "k8s.io/api/core/v1"

	"github.com/wasm-ccm/wasm-ccm/host/config/v1alpha1"
	"github.com/wasm-ccm/wasm-ccm/host/internal/hostcall/credential"
	"github.com/wasm-ccm/wasm-ccm/host/internal/hostcall/egress"
	"github.com/wasm-ccm/wasm-ccm/host/internal/hostcall/kubecache"
)

// Options are the bounds of a provider's requests; the caller fills in
// Credentials and Observer.
func Options(r v1alpha1.Requests) egress.Options {
	return egress.Options{
		MaxBatchBytes:     r.ResponseBytes.Value(),
		MaxTimeout:        r.Timeout.Duration,
		MaxConcurrent:     r.Concurrent,
		RequestsPerSecond: r.PerSecond,
		Burst:             r.Burst,
	}
}

// Egress converts a provider's grants to those of package egress. Errors name
// the grant by its index. Client certificates are read from the secrets for
// each new connection.
func Egress(grants []v1alpha1.Grant, secrets credential.Secrets) ([]egress.Grant, error) {
	// Grants with the same certificate share connections.
	certificates := map[v1alpha1.Reference]*egress.ClientCertificate{}
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
			CIDRs: cidrs, RootCAs: roots, Trust: trust(g), Credentials: g.Credentials,
		}
		for _, r := range g.Reads {
			out.Reads = append(out.Reads, egress.Read(r))
		}
		if ref := g.ClientCertificate; ref != nil {
			if certificates[*ref] == nil {
				certificates[*ref] = &egress.ClientCertificate{Get: clientCertificate(secrets, *ref)}
			}
			out.ClientCertificate = certificates[*ref]
		}
		all = append(all, out)
	}
	return all, nil
}

// trust identifies the TLS settings of connections by their content: it is the
// same after a reload.
func trust(g v1alpha1.Grant) string {
	name := ""
	if g.CABundle != "" {
		name = fmt.Sprintf("%x", sha256.Sum256([]byte(g.CABundle)))
	}
	if c := g.ClientCertificate; c != nil {
		name += " " + c.Namespace + "/" + c.Name
	}
	return name
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

// pool returns nil, the system's pool, for an empty bundle.
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

// clientCertificate reads a Secret of the type kubernetes.io/tls for each new
// connection, so that a renewed one is used.
func clientCertificate(secrets credential.Secrets, ref v1alpha1.Reference) func(context.Context) (*tls.Certificate, error) {
	return func(ctx context.Context) (*tls.Certificate, error) {
		data, _, err := secrets.Get(ctx, ref.Namespace, ref.Name)
		if err != nil {
			return nil, err
		}
		certificate, err := tls.X509KeyPair(data[corev1.TLSCertKey], data[corev1.TLSPrivateKeyKey])
		if err != nil { // the error names the mismatch, and quotes no key
			return nil, fmt.Errorf("the Secret %s/%s: %w; it has to be of the type %s", ref.Namespace, ref.Name, err, corev1.SecretTypeTLS)
		}
		return &certificate, nil
	}
}

// Kube converts a provider's grants of the cluster's objects.
func Kube(k *v1alpha1.Kube) kubecache.Grant {
	return kubecache.Grant{
		Nodes: k.Nodes, Services: k.Services, EndpointSlices: k.EndpointSlices,
		ConfigMaps: names(k.ConfigMaps), Secrets: names(k.Secrets),
		Annotations: k.Annotations, Labels: k.Labels,
	}
}

func names(all []v1alpha1.Reference) (out []kubecache.Name) {
	for _, r := range all {
		out = append(out, kubecache.Name(r))
	}
	return out
}
