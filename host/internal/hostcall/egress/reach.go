package egress

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"
)

// The results of an attempt to reach a host.
const (
	// Reached: the host accepted the connection, and for https proved its identity.
	Reached = "Reached"
	// NotResolved: its name has no address, or the resolver failed.
	NotResolved = "NotResolved"
	// AddressRefused: none of its tried addresses may be connected to.
	AddressRefused = "AddressRefused"
	// NotConnected: the connection failed.
	NotConnected = "NotConnected"
	// TLSFailed: the connection succeeded, the TLS handshake did not.
	TLSFailed = "TLSFailed"
	// NotAsked: a wildcard has no address of its own.
	NotAsked = "NotAsked"
)

// reachTimeout bounds the attempt to reach one host.
const reachTimeout = 5 * time.Second

// Reach is the result of an attempt to reach a grant's host.
type Reach struct {
	// Host is HOST:PORT of the grants.
	Host string
	// Result is one of the constants above; Detail is the reason unless Reached.
	Result, Detail string
	// Address is the connection's, as ADDRESS:PORT; "" without one.
	Address string
	// TLS is its version, such as "TLS 1.3"; "" for http.
	TLS string
	// CertificateEnds is when the host's certificate ends; zero for http.
	CertificateEnds time.Time
	// Took is how long the attempt took.
	Took time.Duration
}

// Reach connects to the host of each grant by the rules for requests: the same resolver,
// addresses, certificates. It sends no request, and uses no credential; a host that demands
// a client certificate gets the grant's. Rates and breakers are not affected. It tries at
// most limit hosts, in the order of the grants, concurrently, within some seconds; more
// reports further hosts.
func (c *Client) Reach(ctx context.Context, limit int) (all []Reach, more bool) {
	found := c.reachable()
	more = len(found) > limit
	found = found[:min(len(found), limit)]
	all = make([]Reach, len(found))
	var wg sync.WaitGroup
	for i, g := range found {
		wg.Go(func() { all[i] = c.reach(ctx, g) })
	}
	wg.Wait()
	return all, more
}

// reachable are the grants, one for each host and transport.
func (c *Client) reachable() (found []granted) {
	type way struct {
		scheme, label string
		transport     *http.Transport
	}
	seen := map[way]bool{}
	for _, g := range c.grants {
		w := way{g.Scheme, g.label, g.transport}
		if !seen[w] {
			seen[w] = true
			found = append(found, g)
		}
	}
	return found
}

// reach tries one host.
//
// Invariant E10 (host/SECURITY.md): it connects only where a request may go, sends nothing,
// and ends.
func (c *Client) reach(ctx context.Context, g granted) Reach {
	out := Reach{Host: g.label}
	if strings.HasPrefix(g.Host, wildcard) {
		out.Result, out.Detail = NotAsked, "it stands for many hosts"
		return out
	}
	ctx, cancel := context.WithTimeout(ctx, reachTimeout)
	defer cancel()
	begun := time.Now()
	if err := c.handshake(ctx, g, &out); err != nil {
		out.Detail = c.scrubString(err.Error())
		if ctx.Err() != nil {
			out.Detail = fmt.Sprintf("no answer within %v", reachTimeout)
		}
	}
	out.Took = time.Since(begun)
	return out
}

// handshake proceeds as far as possible, and records the result in out.
func (c *Client) handshake(ctx context.Context, g granted, out *Reach) error {
	conn, err := c.connect(ctx, "tcp", hostPort(g.Host, g.Port), g.CIDRs)
	if err != nil {
		out.Result = unconnected(err)
		return err
	}
	defer conn.Close()
	out.Result, out.Address = Reached, conn.RemoteAddr().String()
	if g.Scheme != "https" {
		return nil
	}
	config := c.newTLS(g.Grant)
	config.ServerName, config.NextProtos = g.Host, []string{"h2", "http/1.1"} // as net/http does
	secure := tls.Client(conn, config)
	if err := secure.HandshakeContext(ctx); err != nil {
		out.Result = TLSFailed
		return err
	}
	state := secure.ConnectionState()
	out.TLS, out.CertificateEnds = tls.VersionName(state.Version), state.PeerCertificates[0].NotAfter
	return nil
}

// unconnected names the step at which the connection failed.
func unconnected(err error) string {
	var unresolved *net.DNSError
	var refused *refusedError
	switch {
	case errors.As(err, &unresolved):
		return NotResolved
	case errors.As(err, &refused):
		return AddressRefused
	}
	return NotConnected
}
