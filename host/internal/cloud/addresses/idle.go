package addresses

import (
	"net/netip"
	"slices"
)

// Idle returns the entries of allow without effect: those that lie in no network and below
// no name that is refused by default, and those that deny overrides. Only an entry within a
// block opens it.
func (p *Policy) Idle() (entries []string) {
	for _, network := range p.allow.networks {
		if !p.opensAny(network) {
			entries = append(entries, network.String())
		}
	}
	for _, name := range p.allow.names {
		if !p.opensName(name) {
			entries = append(entries, name)
		}
	}
	return entries
}

func (p *Policy) opensAny(entry netip.Prefix) bool {
	covers := func(network netip.Prefix) bool { return within(entry, network) }
	for _, b := range p.blocks {
		if b.never && covers(b.prefix) {
			return false
		}
	}
	if slices.ContainsFunc(p.deny.networks, covers) {
		return false
	}
	return slices.ContainsFunc(p.services, covers) ||
		slices.ContainsFunc(p.blocks, func(b block) bool { return covers(b.prefix) }) ||
		slices.ContainsFunc(p.translations, func(t translation) bool { return covers(t.prefix) })
}

func (p *Policy) opensName(entry string) bool {
	if slices.ContainsFunc(p.deny.names, func(denied string) bool { return below(entry, denied) }) {
		return false
	}
	return entry == "kubernetes" || readAsAddress(entry) || slices.ContainsFunc(p.names, func(r reserved) bool { return r.has(entry) })
}
