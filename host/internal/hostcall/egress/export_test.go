package egress

import (
	"context"
	"net"
	"net/netip"
)

// ConnectBy makes c connect by another function than dial, before its first
// request.
func ConnectBy(c *Client, connect func(ctx context.Context, address string) (net.Conn, error)) {
	c.connect = func(ctx context.Context, _, address string, _ []netip.Prefix) (net.Conn, error) {
		return connect(ctx, address)
	}
}

// Hosts is the number of hosts that c keeps in mind.
func Hosts(c *Client) int { return len(c.traffic.hosts.byName) }
