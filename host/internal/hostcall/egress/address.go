package egress

import (
	"fmt"
	"net/netip"
	"slices"
)

// notPublic are networks of the machine, the site or the cloud that netip does not know as
// such.
func notPublic() []netip.Prefix {
	return []netip.Prefix{
		netip.MustParsePrefix("0.0.0.0/8"),
		netip.MustParsePrefix("100.64.0.0/10"),    // carrier-grade NAT; Alibaba's metadata service
		netip.MustParsePrefix("168.63.129.16/32"), // Azure's host, reachable from virtual machines only
		netip.MustParsePrefix("192.0.0.0/24"),     // Oracle's metadata service
		netip.MustParsePrefix("192.0.2.0/24"),
		netip.MustParsePrefix("192.88.99.0/24"),
		netip.MustParsePrefix("198.18.0.0/15"),
		netip.MustParsePrefix("198.51.100.0/24"),
		netip.MustParsePrefix("203.0.113.0/24"),
		netip.MustParsePrefix("240.0.0.0/4"),
		netip.MustParsePrefix("2001::/23"), // Teredo among others
		netip.MustParsePrefix("2001:db8::/32"),
		netip.MustParsePrefix("2002::/16"), // 6to4 holds an IPv4 address
		netip.MustParsePrefix("3fff::/20"),
	}
}

// vetter decides which addresses may be connected to. It is immutable.
type vetter struct {
	notPublic []netip.Prefix
	global6   netip.Prefix
	nat64     netip.Prefix
}

func newVetter() *vetter {
	return &vetter{
		notPublic: notPublic(),
		global6:   netip.MustParsePrefix("2000::/3"),
		nat64:     netip.MustParsePrefix("64:ff9b::/96"),
	}
}

// check returns why a connection to addr is refused, or nil. Allowed addresses pass, except
// those of no host.
func (v *vetter) check(addr netip.Addr, allowed []netip.Prefix) error {
	switch {
	case addr.Is4In6(), addr.Zone() != "", addr.IsUnspecified(), addr.IsMulticast():
		return fmt.Errorf("%s is never connected to", addr)
	case contains(allowed, addr), v.public(addr):
		return nil
	}
	return fmt.Errorf("%s is not a public address (loopback, link-local, metadata, private or reserved); if it is right, add it to the cidrs of the grant in the HostConfiguration (providers[].grants)", addr)
}

func (v *vetter) public(addr netip.Addr) bool {
	if v.nat64.Contains(addr) {
		b := addr.As16()
		addr = netip.AddrFrom4([4]byte(b[12:]))
	}
	switch {
	case addr.IsLoopback(), addr.IsPrivate(), addr.IsLinkLocalUnicast(), addr.IsUnspecified(), addr.IsMulticast():
		return false
	case addr.Is6() && !v.global6.Contains(addr):
		return false
	}
	return !contains(v.notPublic, addr)
}

func contains(prefixes []netip.Prefix, addr netip.Addr) bool {
	return slices.ContainsFunc(prefixes, func(p netip.Prefix) bool { return p.Contains(addr) })
}
