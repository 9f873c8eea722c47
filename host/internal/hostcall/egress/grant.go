// Package egress sends the HTTP requests of a provider. It denies everything without a grant
// of the administrator. Scheme, host, port, path and method are compared before anything is
// sent. The address of the host is checked when the connection is made, so that DNS cannot
// lead a provider to the cloud's metadata service or into the cluster.
//
// Credentials are added after that, and removed from answers. Towards the clouds it behaves
// well: bounded rate and concurrency, retries within a budget, a circuit breaker per host.
package egress

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// Grant allows requests to one scheme, host and port.
type Grant struct {
	// Scheme is "http" or "https".
	Scheme string
	// Host is a DNS name in lower case without a trailing dot, or an IP address as netip.Addr
	// writes it. An IP address may be connected to even if it is not public. "*." before a name
	// of two labels or more matches exactly one label: *.example.com allows a.example.com, and
	// neither a.b.example.com nor example.com.
	Host string
	Port uint16
	// PathPrefix begins with "/". It is compared with the sent path: a prefix without "/" at its
	// end allows the path itself and all below it. "" is "/".
	PathPrefix string
	// Methods are the allowed methods; empty allows GET, HEAD, OPTIONS, POST,
	// PUT, PATCH and DELETE.
	Methods []string
	// Reads are requests that change nothing, by other methods than GET, HEAD and OPTIONS or
	// with an action.
	Reads []Read
	// CIDRs are allowed addresses of the host that are loopback, link-local, private or
	// otherwise not public.
	CIDRs []netip.Prefix
	// RootCAs verify the server; nil takes those of the Options.
	RootCAs *x509.CertPool
	// ClientCertificate authenticates to the server; nil: none.
	ClientCertificate *ClientCertificate
	// Trust identifies RootCAs and ClientCertificate. A failure with others says nothing about a
	// host with these.
	Trust string
	// Credentials are the names of the credentials allowed for the requests.
	Credentials []string
}

// ClientCertificate is a certificate for TLS. Grants with the same pointer
// share connections.
type ClientCertificate struct {
	// Get is called for every new connection, concurrently. Its result is immutable. A renewed
	// certificate is used from the next connection on.
	Get func(ctx context.Context) (*tls.Certificate, error)
}

// wildcard is the label that matches any other.
const wildcard = "*."

// ParseGrant reads a URL prefix such as https://api.example.com:8774/v2.1/ or
// https://*.example.com/, for all usual methods. The error names the prefix
// unless it holds a password.
func ParseGrant(prefix string) (Grant, error) {
	g, err := parseGrant(prefix)
	if errors.Is(err, errUserinfo) {
		return Grant{}, fmt.Errorf("URL prefix: %w", err)
	}
	if err != nil {
		return Grant{}, fmt.Errorf("URL prefix %q: %w; give https://HOST[:PORT][/PATH/]", prefix, err)
	}
	return g, nil
}

func parseGrant(prefix string) (Grant, error) {
	scheme, rest, _ := strings.Cut(prefix, "://")
	exact, any := strings.CutPrefix(rest, wildcard)
	if any {
		prefix = scheme + "://" + exact
	}
	t, err := parseTarget(prefix)
	if err != nil {
		return Grant{}, err
	}
	if t.query || strings.Contains(prefix, "?") {
		return Grant{}, errors.New("it must not have a query")
	}
	g := Grant{Scheme: t.scheme, Host: t.host, Port: t.port, PathPrefix: t.path}
	if any {
		if _, err := netip.ParseAddr(t.host); err == nil || !strings.Contains(t.host, ".") {
			return Grant{}, errors.New("the wildcard * stands before a name of two labels or more")
		}
		g.Host = wildcard + t.host
	}
	return g, nil
}

// String returns the URL prefix of the grant.
func (g Grant) String() string {
	return g.Scheme + "://" + hostPort(g.Host, g.Port) + g.pathPrefix()
}

func (g Grant) pathPrefix() string {
	if g.PathPrefix == "" {
		return "/"
	}
	return g.PathPrefix
}

// Validate returns why New would refuse the grant.
func (g Grant) Validate() error {
	parsed, err := ParseGrant(g.String())
	if err != nil {
		return err
	}
	if parsed.String() != g.String() {
		return fmt.Errorf("grant %s: is not in its canonical form %s", g, parsed)
	}
	for _, m := range g.Methods {
		if !validMethod(m) {
			return fmt.Errorf("grant %s: method %q is not allowed", g, m)
		}
	}
	for _, p := range g.CIDRs {
		if !p.IsValid() || p.Addr().Is4In6() {
			return fmt.Errorf("grant %s: CIDR %s is not valid; write IPv4 networks as IPv4", g, p)
		}
	}
	for _, r := range g.Reads {
		if err := r.Validate(); err != nil {
			return fmt.Errorf("grant %s: %w", g, err)
		}
	}
	if g.Scheme == "http" && (g.RootCAs != nil || g.ClientCertificate != nil) {
		return fmt.Errorf("grant %s: certificates need https", g)
	}
	if g.ClientCertificate != nil && g.ClientCertificate.Get == nil {
		return fmt.Errorf("grant %s: the client certificate has no function", g)
	}
	return nil
}

// allows reports whether the grant covers the method and target.
func (g Grant) allows(method string, t target) bool {
	return g.allowsTarget(t) && g.allowsMethod(method)
}

// allowsTarget reports whether the grant covers the target by any method.
func (g Grant) allowsTarget(t target) bool {
	return g.allowsOrigin(t) && g.allowsPath(t.path)
}

// allowsOrigin reports whether the grant covers any path of the target's host.
func (g Grant) allowsOrigin(t target) bool {
	return g.Scheme == t.scheme && g.Port == t.port && g.allowsHost(t.host)
}

func (g Grant) allowsHost(host string) bool {
	parent, any := strings.CutPrefix(g.Host, wildcard)
	if !any {
		return g.Host == host
	}
	label, rest, _ := strings.Cut(host, ".")
	return label != "" && rest == parent
}

func (g Grant) allowsPath(path string) bool {
	return below(g.pathPrefix(), path)
}

// below compares an escaped path with a prefix, by the rule of Grant.PathPrefix.
func below(prefix, path string) bool {
	if strings.HasSuffix(prefix, "/") {
		return strings.HasPrefix(path, prefix)
	}
	return path == prefix || strings.HasPrefix(path, prefix+"/")
}

func (g Grant) allowsMethod(method string) bool {
	if len(g.Methods) > 0 {
		return slices.Contains(g.Methods, method)
	}
	switch method {
	case "GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE":
		return true
	}
	return false
}
