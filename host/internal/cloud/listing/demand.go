package listing

import "time"

const (
	// few nodes are asked directly; more of them use a listing, unless that
	// has more pages.
	few = 5
	// window is how long a node counts after it was asked for. The lifecycle
	// controller asks for each node that is not Ready every five seconds.
	window = 30 * time.Second
)

// demand is the nodes other than those that are merely refreshed, by the time
// when they were last asked for.
type demand map[string]time.Time

// add notes a node and reports whether more than limit are asked for. It keeps
// no more than one over the limit: then it does not matter how many there are.
func (d demand) add(node string, limit int, now time.Time) bool {
	for name, at := range d {
		if now.Sub(at) > window {
			delete(d, name)
		}
	}
	if _, noted := d[node]; noted || len(d) <= limit {
		d[node] = now
	}
	return len(d) > limit
}
