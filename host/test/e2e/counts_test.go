package e2e

import "maps"

// counts are how often each path was read and written.
type counts struct{ reads, writes map[string]int }

// counts returns those so far.
func (a *account) counts() counts {
	a.mu.Lock()
	defer a.mu.Unlock()
	return counts{maps.Clone(a.reads), maps.Clone(a.writes)}
}

// requests is how many there were.
func (a *account) requests() (sum int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, all := range []map[string]int{a.reads, a.writes} {
		for _, n := range all {
			sum += n
		}
	}
	return sum
}
