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

// How far an attempt to reach a host came.
const (
	// Reached: the host took the connection, and for https it proved who it is.
	Reached = "Reached"
	// NotResolved: its name has no address, or the resolver did not say one.
	NotResolved = "NotResolved"
	// AddressRefused: all of its addresses that were tried may not be connected to.
	AddressRefused = "AddressRefused"
	// NotConnected: nobody took the connection.
	NotConnected = "NotConnected"
	// TLSFailed: there is a connection, and no agreement about who is at its ends.
	TLSFailed = "TLSFailed"
	// NotAsked: a wildcard has no address of its own.
	NotAsked = "NotAsked"
)

// reachTimeout bounds the attempt to reach one host.
const reachTimeout = 5 * time.Second

// Reach is what came of an attempt to reach the host of grants.
type Reach struct {
	// Host is HOST:PORT of the grants.
	Host string
	// Result is one of the words above; Detail is why, where it is not Reached.
	Result, Detail string
	// Address is that of the connection, as ADDRESS:PORT; "" without one.
	Address string
	// TLS is its version, such as "TLS 1.3"; "" for http.
	TLS string
	// CertificateEnds is when the host's certificate ends; zero for http.
	CertificateEnds time.Time
	// Took is how long the attempt took.
	Took time.Duration
}

// Reach connects to the host of each grant, by the rules that requests are sent by:
// the same resolver, addresses, certificates. No request is sent, and no credential
// is used; a host that asks for a client certificate gets the grant's. Neither rates
// nor breakers notice.
// It asks for at most limit hosts, in the order of the grants, all at once, and takes
// some seconds at most; more is true if there are more.
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

// reachable are the grants, one for all that share a host and how it is connected to.
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
// Invariant E10 (host/SECURITY.md): it goes where a request may go, says nothing, and ends.
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

// handshake goes as far as it can, and says so in out.
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

// unconnected says at which step there was no connection.
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
