package egress

import (
	"cmp"
	"slices"
	"time"
)

// HostState is the state of one host of a cloud.
type HostState struct {
	// Host is HOST:PORT of its grant, with the wildcard.
	Host string
	// Breaker is "closed", "half-open" or "open".
	Breaker string
	// OpenUntil is when an open breaker admits a request, QuietUntil the end of the server's
	// pause. Both may be past, or zero.
	OpenUntil, QuietUntil time.Time
	// LastFault is the last failure; "" for none.
	LastFault string
}

// Hosts returns the state of each host, sorted by name. A wildcard may have several entries
// of one name.
func (t *Traffic) Hosts() []HostState {
	t.hosts.mu.Lock()
	defer t.hosts.mu.Unlock()
	all := make([]HostState, 0, len(t.hosts.byName))
	for _, x := range t.hosts.byName {
		all = append(all, x.state())
	}
	slices.SortFunc(all, func(a, b HostState) int {
		return cmp.Or(cmp.Compare(a.Host, b.Host), cmp.Compare(b.Breaker, a.Breaker))
	})
	return all
}

func (x *host) state() HostState {
	breaker := x.breaker.State().String() // a change calls the observer, which takes the lock
	x.mu.Lock()
	defer x.mu.Unlock()
	return HostState{Host: x.label, Breaker: breaker, OpenUntil: x.openUntil, QuietUntil: x.quietUntil, LastFault: x.lastFault}
}
