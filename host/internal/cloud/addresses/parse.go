package addresses

import (
	"fmt"
	"net/netip"

	"github.com/wasm-ccm/wasm-ccm/host/internal/text"
)

// ParseIP reads an address. Every spelling that it takes means the same to Go,
// to Kubernetes and to libc: no leading zeros, no zone, no IPv4 address in the
// spelling of IPv6. IPv6 may be written in upper case or at length.
func ParseIP(s string) (netip.Addr, error) {
	// Invariant A2 (host/SECURITY.md): a spelling means the same address to all readers;
	// ambiguous spellings are refused.
	ip, err := netip.ParseAddr(s)
	switch {
	case err != nil:
		return netip.Addr{}, fmt.Errorf("%s is not an IP address", text.Quote(s))
	case ip.Zone() != "":
		return netip.Addr{}, fmt.Errorf("%s has a zone, which Kubernetes does not know", text.Quote(s))
	case ip.Is4In6():
		return netip.Addr{}, &Error{What: s, Why: "an IPv4 address in the notation of IPv6, which is ambiguous: " + ip.Unmap().String() + " is meant"}
	}
	return ip, nil
}

// ParseCIDR reads a network as strictly. Host bits are dropped, as by every other reader.
func ParseCIDR(s string) (netip.Prefix, error) {
	prefix, err := netip.ParsePrefix(s)
	switch {
	case err != nil:
		return netip.Prefix{}, fmt.Errorf("%s is not a CIDR", text.Quote(s))
	case prefix.Addr().Is4In6():
		return netip.Prefix{}, fmt.Errorf("%s is an IPv4 address in the notation of IPv6, which is ambiguous", text.Quote(s))
	}
	return prefix.Masked(), nil
}
