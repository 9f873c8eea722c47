package addresses

import "net/netip"

// block is a network that no part of a cluster uses.
type block struct {
	prefix netip.Prefix
	why    string
	// never: no entry of allow opens it.
	never bool
}

const metadata = "a metadata or credential service of a cloud"

// blocks are refused by default. Networks for documentation are not among them: nobody
// routes them, so they steer nothing. Nor are private networks: most clusters use them.
//
// Invariant A5 (host/SECURITY.md): no block is a network that an ordinary cluster uses.
func blocks() []block {
	of := func(never bool, why string, prefixes ...string) (all []block) {
		for _, p := range prefixes {
			all = append(all, block{netip.MustParsePrefix(p), why, never})
		}
		return all
	}
	all := of(true, "nobody's address", "0.0.0.0/8", "::/128")
	all = append(all, of(true, "a multicast address", "224.0.0.0/4", "ff00::/8")...)
	all = append(all, of(true, "the broadcast address", "255.255.255.255/32")...)
	all = append(all, of(false, "a loopback address", "127.0.0.0/8", "::1/128")...)
	all = append(all, of(false, metadata,
		"169.254.169.254/32", "169.254.170.2/32", "169.254.170.23/32", // most clouds; AWS' for tasks and pods
		"100.100.100.200/32", "168.63.129.16/32", "192.0.0.192/32", // Alibaba, Azure, Oracle
		"fd00:ec2::254/128", "fd00:ec2::23/128", "fd20:ce::254/128", "fd00:42::42/128")...) // AWS, Google, Scaleway
	all = append(all, of(false, "a link-local address", "169.254.0.0/16", "fe80::/10")...)
	all = append(all, of(false, "a reserved address", "240.0.0.0/4", "100::/64")...)
	return append(all, of(false, "an IPv4 address in an obsolete notation of IPv6", "::/96")...)
}

// aroundBits: no Node's pods are in a network of 16 addresses or fewer.
const aroundBits = 4

// overlapping returns the blocks that overlap the network. A block of a single address
// counts only for a network of similar size: 100.100.100.0/24 may well hold a Node's pods, a
// network of a few addresses was chosen for the address.
func overlapping(all []block, asked netip.Prefix) (found []block) {
	for _, b := range all {
		if b.prefix.Overlaps(asked) && (!b.prefix.IsSingleIP() || asked.Bits() >= asked.Addr().BitLen()-aroundBits) {
			found = append(found, b)
		}
	}
	return found
}

// translation is an IPv6 network whose addresses embed IPv4 addresses, to which routers on
// the path translate them.
type translation struct {
	prefix netip.Prefix
	// v4 returns the IPv4 addresses in the 16 bytes of an address.
	v4 func(b [16]byte) []netip.Addr
}

func translations() []translation {
	last := func(b [16]byte) []netip.Addr { return []netip.Addr{v4(b[12:])} }
	return []translation{
		{netip.MustParsePrefix("64:ff9b::/96"), last},                                                          // NAT64
		{netip.MustParsePrefix("64:ff9b:1::/48"), last},                                                        // NAT64 of a site
		{netip.MustParsePrefix("::ffff:0:0:0/96"), last},                                                       // SIIT
		{netip.MustParsePrefix("2002::/16"), func(b [16]byte) []netip.Addr { return []netip.Addr{v4(b[2:])} }}, // 6to4
		{netip.MustParsePrefix("2001::/32"), func(b [16]byte) []netip.Addr { // Teredo: its server, its client
			return []netip.Addr{v4(b[4:]), v4([]byte{^b[12], ^b[13], ^b[14], ^b[15]})}
		}},
	}
}

func v4(b []byte) netip.Addr { return netip.AddrFrom4([4]byte(b)) }

// translated returns the addresses to which routers translate this one.
func (p *Policy) translated(ip netip.Addr) (all []netip.Addr) {
	for _, t := range p.translations {
		if t.prefix.Contains(ip) {
			all = append(all, t.v4(ip.As16())...)
		}
	}
	return all
}
