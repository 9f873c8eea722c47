package addresses

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/wasm-ccm/wasm-ccm/host/internal/text"
)

// Policy decides about addresses and names. It is immutable and safe for
// concurrent use. New and Default make one.
type Policy struct {
	allow, deny  list
	services     []netip.Prefix
	blocks       []block
	translations []translation
	names        []reserved
}

// Default returns the policy without allow and deny lists.
func Default() *Policy {
	return &Policy{blocks: blocks(), translations: translations(), names: reservedNames()}
}

// list is one parsed list of the administrator.
type list struct {
	networks []netip.Prefix
	names    []string // in lower case; each includes all names below it
}

// New returns the policy of an administrator's lists. Their entries are networks, as
// 10.0.0.0/8 or fd00::/8 without host bits, and DNS names.
//
// An entry of allow opens a refused block only if it lies within the block: a wider entry,
// as 10.0.0.0/8 where the cluster's Services are in 10.96.0.0/12, was not written with the
// block in mind. Entries of deny are refused in any case.
func New(allow, deny []string) (*Policy, error) {
	p := Default()
	var err error
	if p.allow, err = parseList(allow); err != nil {
		return nil, fmt.Errorf("allow%w", err)
	}
	if p.deny, err = parseList(deny); err != nil {
		return nil, fmt.Errorf("deny%w", err)
	}
	return p, nil
}

// WithServiceCIDRs returns a policy that also refuses the networks of the
// cluster's Services.
func (p *Policy) WithServiceCIDRs(cidrs []netip.Prefix) *Policy {
	c := *p
	c.services = slices.Clone(cidrs)
	return &c
}

// IP returns nil, or an *Error if a load balancer or a Node must not have the address.
// ParseIP has read it.
func (p *Policy) IP(ip netip.Addr) error {
	// Invariant A1 (host/SECURITY.md): the address and all its translations are checked.
	for _, meant := range append([]netip.Addr{ip}, p.translated(ip)...) {
		if refused := p.covering(netip.PrefixFrom(meant, meant.BitLen())); refused != nil {
			refused.What = ip.String()
			return refused
		}
	}
	return nil
}

// shortestDestination is the shortest prefix of a route's destination, in bits.
const shortestDestination, shortestDestination6 = 8, 16

// Destination returns nil, or an *Error if a route must not lead to the network. ParseCIDR
// has read it.
func (p *Policy) Destination(to netip.Prefix) error {
	least := shortestDestination
	if to.Addr().Is6() {
		least = shortestDestination6
	}
	if to.Bits() < least {
		return &Error{What: to.String(), Why: fmt.Sprintf("shorter than /%d, which is a large part of all addresses", least)}
	}
	for _, t := range p.translations {
		if t.prefix.Overlaps(to) && !p.opens(block{prefix: t.prefix}, to) {
			return &Error{What: to.String(), Why: "a network whose addresses routers translate to IPv4", mend: to.String()}
		}
	}
	if refused := p.covering(to); refused != nil {
		refused.What = to.String()
		return refused
	}
	return nil
}

// covering refuses a network that overlaps a block which no entry of allow opens. The caller
// fills in the network's name.
func (p *Policy) covering(asked netip.Prefix) *Error {
	all := overlapping(p.blocks, asked)
	for _, b := range all {
		if b.never {
			return &Error{Why: b.why}
		}
	}
	// Invariant A6 (host/SECURITY.md): deny is asked before allow.
	if i := slices.IndexFunc(p.deny.networks, asked.Overlaps); i >= 0 {
		return &Error{Why: "denied by " + p.deny.networks[i].String(), denied: true}
	}
	for _, s := range p.services {
		if s.Overlaps(asked) {
			all = append(all, block{prefix: s, why: "of the cluster's Services (" + s.String() + ")"})
		}
	}
	for _, b := range all {
		if !p.opens(b, asked) {
			return &Error{Why: b.why, mend: asked.String()}
		}
	}
	return nil
}

// opens reports whether an entry within the block covers the network.
func (p *Policy) opens(b block, asked netip.Prefix) bool {
	return slices.ContainsFunc(p.allow.networks, func(entry netip.Prefix) bool {
		// Invariant A6 (host/SECURITY.md): only an entry within a block opens it.
		return within(entry, b.prefix) && within(asked, entry)
	})
}

// within reports whether all of a is in b.
func within(a, b netip.Prefix) bool { return a.Bits() >= b.Bits() && b.Contains(a.Addr()) }

func parseList(entries []string) (l list, err error) {
	for i, entry := range entries {
		network, name, err := ParseEntry(entry)
		switch {
		case err != nil:
			return l, fmt.Errorf("[%d]: %w", i, err)
		case name != "":
			l.names = append(l.names, name)
		default:
			l.networks = append(l.networks, network)
		}
	}
	return l, nil
}

// ParseEntry reads an entry of a list: a network, or a name in lower case.
func ParseEntry(entry string) (network netip.Prefix, name string, err error) {
	if _, err := netip.ParseAddr(entry); err == nil {
		return network, "", fmt.Errorf("%s: write an address with its length, as 192.0.2.1/32 or 2001:db8::1/128", text.Quote(entry))
	}
	if !strings.Contains(entry, "/") {
		if err := nameSyntax(entry); err != nil {
			return network, "", err
		}
		if strings.Contains(entry, ".") && strings.Trim(lastLabel(entry), "0123456789") == "" {
			return network, "", fmt.Errorf("%s ends like an address and is none: write a network, as 192.0.2.0/24, or a DNS name", text.Quote(entry))
		}
		return network, strings.ToLower(entry), nil
	}
	network, err = ParseCIDR(entry)
	if asIs, _ := netip.ParsePrefix(entry); err == nil && asIs != network {
		err = fmt.Errorf("%s: write %s", text.Quote(entry), network)
	}
	return network, "", err
}
