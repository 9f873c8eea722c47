package egress

import (
	"net/http"
	"net/netip"

	"github.com/wasm-ccm/wasm-ccm/abi"
)

// permit asks the grants in force, which may be newer than this client's. Withdrawn grants
// apply at once; added ones with the next client. It is called before each attempt's
// credential is applied, and again before the attempt is sent.
//
// Invariant G3 (host/SECURITY.md): nothing is sent without this check.
func (c *Client) permit(call *call) *abi.Error {
	now := c
	if c.options.InForce != nil {
		now = c.options.InForce()
	}
	if now == c {
		call.now, call.transport = call.grant, call.grant.transport
		return nil
	}
	if now == nil {
		return denied("%s %s: it is no longer granted; to allow it, add it to the HostConfiguration again", call.request.Method, call.name)
	}
	g, e := now.granted(call)
	if e != nil {
		return e
	}
	if call.grant.ClientCertificate != nil && g.ClientCertificate == nil {
		return denied("%s %s: its client certificate is no longer granted; to allow it, add clientCertificate to the grant in the HostConfiguration (providers[].grants[].clientCertificate) again",
			call.request.Method, call.name)
	}
	call.now, call.transport = g, c.narrowed(call.grant.Grant, g.CIDRs)
	return nil
}

// narrowed is a grant's transport, restricted to the networks granted now.
func (c *Client) narrowed(g Grant, now []netip.Prefix) *http.Transport {
	g.CIDRs = common(g.CIDRs, now)
	return c.transportOf(g)
}

// common are the addresses in both.
func common(some, others []netip.Prefix) (both []netip.Prefix) {
	for _, p := range some {
		for _, q := range others {
			switch {
			case !p.Overlaps(q):
			case p.Bits() > q.Bits():
				both = append(both, p)
			default:
				both = append(both, q)
			}
		}
	}
	return both
}
