package listing

import "time"

const (
	// few is the number of nodes up to which they are asked for directly; more use a listing,
	// unless that has more pages than there are nodes.
	few = 5
	// window is how long a node counts after a question about it. The lifecycle controller asks
	// about each node that is not Ready every five seconds.
	window = 30 * time.Second
)

// demand holds the nodes asked about other than by a refresh, with the time of the last
// question.
type demand map[string]time.Time

// add records a node and reports whether demand exceeds the limit. It keeps at most one node
// over the limit: more make no difference.
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
