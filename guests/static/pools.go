package main

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/wasm-ccm/wasm-ccm/guests/yaml"
)

// pool is a named set of addresses. The blocks of all pools are disjoint.
type pool struct {
	name       string
	autoAssign bool // also without an explicit request
	blocks     []block
}

// block is a range of addresses of one family, both ends included.
type block struct{ first, last netip.Addr }

func (b block) contains(a netip.Addr) bool {
	return a.Is4() == b.first.Is4() && !a.Less(b.first) && !b.last.Less(a)
}

func (p *pool) contains(a netip.Addr) bool {
	return slices.ContainsFunc(p.blocks, func(b block) bool { return b.contains(a) })
}

// firstFree returns the first address of a family that is not taken. It tries
// no more addresses than there are taken ones, plus one per block.
func (p *pool) firstFree(is4 bool, taken map[netip.Addr]string) (netip.Addr, bool) {
	for _, b := range p.blocks {
		if b.first.Is4() != is4 {
			continue
		}
		for a := b.first; b.contains(a); a = a.Next() {
			if taken[a] == "" {
				return a, true
			}
		}
	}
	return netip.Addr{}, false
}

// poolOf returns the pool of an address, or nil.
func (inv *inventory) poolOf(a netip.Addr) *pool {
	for i := range inv.pools {
		if inv.pools[i].contains(a) {
			return &inv.pools[i]
		}
	}
	return nil
}

func (inv *inventory) poolNamed(name string) *pool {
	for i := range inv.pools {
		if inv.pools[i].name == name {
			return &inv.pools[i]
		}
	}
	return nil
}

// ---- reading ---------------------------------------------------------------

func (r *reader) readPools(f *yaml.Field) {
	r.hasPools = true
	for _, n := range r.list(f, maxPools) {
		if r.is(n, "a pool", yaml.Map) {
			r.readPool(n)
		}
	}
	r.checkBlocks()
}

func (r *reader) readPool(n yaml.Node) {
	p := pool{autoAssign: true}
	skipEnds := false
	for i := range n.Fields {
		f := &n.Fields[i]
		switch f.Key {
		case "name":
			if p.name = r.text(f); f.Value.Kind == yaml.Text && !isDNSName(p.name) {
				r.fail(f.Line, "name: %q must be lower case letters, digits, '-' and '.'", p.name)
			}
		case "autoAssign":
			p.autoAssign = r.boolean(f)
		case "skipNetworkAndBroadcast":
			skipEnds = r.boolean(f)
		case "cidrs", "ranges": // below, once the flags are known
		default:
			r.unknown(f, "name, cidrs, ranges, autoAssign, skipNetworkAndBroadcast")
		}
	}
	if p.name == "" && !hasField(n, "name") {
		r.fail(n.Line, "a pool has no name")
	} else if r.poolNamed(p.name) != nil {
		r.fail(n.Line, "pool %s stands twice", p.name)
	}
	for i := range n.Fields {
		r.readBlocks(&p, &n.Fields[i], skipEnds)
	}
	if len(p.blocks) == 0 && !hasField(n, "cidrs") && !hasField(n, "ranges") {
		r.fail(n.Line, "pool %s has no addresses: give it cidrs or ranges", p.name)
	}
	r.pools = append(r.pools, p)
}

func (r *reader) readBlocks(p *pool, f *yaml.Field, skipEnds bool) {
	if f.Key != "cidrs" && f.Key != "ranges" {
		return
	}
	for _, n := range r.list(f, maxBlocks) {
		if !r.is(n, "a block", yaml.Text) {
			continue
		}
		var b block
		var ok bool
		if f.Key == "cidrs" {
			b, ok = r.cidr(n, skipEnds)
		} else {
			b, ok = r.addressRange(n)
		}
		if ok {
			p.blocks = append(p.blocks, b)
			r.blocks = append(r.blocks, blockOfPool{b, p.name, n.Line})
		}
	}
}

func (r *reader) cidr(n yaml.Node, skipEnds bool) (b block, ok bool) {
	prefix, err := netip.ParsePrefix(n.Value)
	switch {
	case err != nil:
		r.fail(n.Line, "%q is not a CIDR", n.Value)
		return b, false
	case prefix != prefix.Masked():
		r.fail(n.Line, "%q has bits behind its prefix; did you mean %s?", n.Value, prefix.Masked())
		return b, false
	case unusable(prefix.Addr()):
		r.fail(n.Line, "%q: these cannot be addresses of load balancers", n.Value)
		return b, false
	}
	b = block{prefix.Addr(), lastOf(prefix)}
	if skipEnds && prefix.Addr().BitLen()-prefix.Bits() > 1 {
		b.first = b.first.Next()
		if b.first.Is4() { // IPv6 has no broadcast address
			b.last = b.last.Prev()
		}
	}
	return b, true
}

func lastOf(prefix netip.Prefix) netip.Addr {
	a := prefix.Addr().AsSlice()
	for bit := prefix.Bits(); bit < len(a)*8; bit++ {
		a[bit/8] |= 0x80 >> (bit % 8)
	}
	last, _ := netip.AddrFromSlice(a) // of the length of an address
	return last
}

func (r *reader) addressRange(n yaml.Node) (b block, ok bool) {
	from, to, found := strings.Cut(n.Value, "-")
	first, err1 := netip.ParseAddr(strings.TrimSpace(from))
	last, err2 := netip.ParseAddr(strings.TrimSpace(to))
	switch {
	case !found || err1 != nil || err2 != nil:
		r.fail(n.Line, "%q is not FIRST-LAST, two addresses", n.Value)
	case first.Is4() != last.Is4() || first.Zone() != "" || last.Zone() != "" || last.Less(first):
		r.fail(n.Line, "%q does not go from a first to a last address of one family", n.Value)
	case unusable(first) || unusable(last):
		r.fail(n.Line, "%q: these cannot be addresses of load balancers", n.Value)
	default:
		return block{first, last}, true
	}
	return b, false
}

func unusable(a netip.Addr) bool {
	return a.Is4In6() || a.IsUnspecified() || a.IsMulticast()
}

// checkBlocks reports overlapping blocks, in one pool or two: an address
// belongs to one pool.
func (r *reader) checkBlocks() {
	slices.SortStableFunc(r.blocks, func(a, b blockOfPool) int { return a.first.Compare(b.first) })
	for i := 1; i < len(r.blocks); i++ {
		a, b := r.blocks[i-1], r.blocks[i]
		if a.contains(b.first) {
			if a.line > b.line {
				a, b = b, a
			}
			r.fail(b.line, "the addresses of pool %s overlap with those of pool %s in line %d", b.pool, a.pool, a.line)
			return
		}
	}
}

// checkMachines reports machines whose address is in a pool: a load balancer
// would take it from them. It runs after machines and pools.
func (r *reader) checkMachines() {
	for _, a := range r.machineIPs {
		if p := r.poolOf(a.ip); p != nil {
			r.fail(a.line, "address %s of machine %s is in pool %s; take it out of the pool", a.ip, a.machine, p.name)
		}
	}
}
