package egress

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"syscall"
)

// identity is the identity of a connection. Only requests with equal identities share
// connections.
type identity struct {
	roots       *x509.CertPool
	certificate *ClientCertificate
	cidrs       string
}

func identityOf(g Grant) identity {
	var cidrs []string
	for _, p := range g.CIDRs {
		cidrs = append(cidrs, p.String())
	}
	slices.Sort(cidrs)
	return identity{g.RootCAs, g.ClientCertificate, strings.Join(slices.Compact(cidrs), ",")}
}

// transportOf returns the transport of a grant.
func (c *Client) transportOf(g Grant) *http.Transport {
	c.mu.Lock()
	defer c.mu.Unlock()
	// Invariant E7 (host/SECURITY.md): grants share connections only with equal identities.
	id := identityOf(g)
	if c.transports[id] == nil {
		c.transports[id] = c.newTransport(g)
	}
	return c.transports[id]
}

func (c *Client) newTransport(g Grant) *http.Transport {
	return &http.Transport{
		// Invariant E5 (host/SECURITY.md): a proxy of the environment would bypass grants and the
		// check of addresses.
		Proxy: nil, // not the environment's, which no grant names
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			return c.connect(ctx, network, address, g.CIDRs)
		},
		TLSClientConfig:        c.newTLS(g),
		TLSHandshakeTimeout:    tlsTimeout,
		DisableCompression:     true, // response.go decompresses within the bounds
		MaxIdleConns:           maxIdleConns,
		MaxIdleConnsPerHost:    c.options.MaxPerHost,
		MaxConnsPerHost:        c.options.MaxPerHost,
		IdleConnTimeout:        idleTimeout,
		MaxResponseHeaderBytes: maxHeaderBytes,
		ForceAttemptHTTP2:      true,
	}
}

// newTLS is the TLS configuration of a grant, for both sides. net/http and Reach each change
// their own copy.
func (c *Client) newTLS(g Grant) *tls.Config {
	config := &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: g.RootCAs}
	if g.RootCAs == nil {
		config.RootCAs = c.options.RootCAs
	}
	if g.ClientCertificate != nil {
		config.GetClientCertificate = func(info *tls.CertificateRequestInfo) (*tls.Certificate, error) {
			return certificate(info.Context(), g.ClientCertificate)
		}
	}
	return config
}

func certificate(ctx context.Context, source *ClientCertificate) (*tls.Certificate, error) {
	found, err := source.Get(ctx)
	if err == nil && found == nil {
		err = errors.New("there is none")
	}
	if err != nil {
		return nil, &certificateError{err}
	}
	return found, nil
}

// certificateError is the error of an unavailable client certificate.
type certificateError struct{ err error }

func (e *certificateError) Error() string { return "client certificate: " + e.err.Error() }
func (e *certificateError) Unwrap() error { return e.err }

// dial connects to a host. The address is checked between its resolution and the connection,
// within the same call: DNS cannot change in between.
func (c *Client) dial(ctx context.Context, network, address string, allowed []netip.Prefix) (net.Conn, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	if addr, err := netip.ParseAddr(host); err == nil {
		// The administrator's grant names this very address.
		allowed = append(slices.Clone(allowed), netip.PrefixFrom(addr, addr.BitLen()))
	}
	dialer := net.Dialer{
		Timeout:  dialTimeout,
		Resolver: c.options.Resolver,
		ControlContext: func(_ context.Context, _, resolved string, _ syscall.RawConn) error {
			addr, err := netip.ParseAddrPort(resolved)
			if err != nil {
				return &refusedError{err}
			}
			// Invariant E3 (host/SECURITY.md): the checked address is the one connected to.
			if err := c.vetter.check(addr.Addr(), allowed); err != nil {
				return &refusedError{err}
			}
			return nil
		},
	}
	return dialer.DialContext(ctx, network, address)
}

// refusedError is the error of a refused address.
type refusedError struct{ err error }

func (e *refusedError) Error() string { return e.err.Error() }
func (e *refusedError) Unwrap() error { return e.err }
