package brake

import (
	"slices"
	"time"
)

// place is a Node's position in the line for permits: the first has number 1.
type place struct {
	number   int
	expected time.Time // when it should get its permit
}

// line holds the places of all Nodes that need a permit.
type line struct {
	at     time.Time // time of the computation
	places map[nodeKey]place
}

// place says when a Node should get its permit. An earlier estimate stands until it is wrong
// by more than the tolerance, so that all reports agree. The caller holds the lock.
func (b *Brake) place(c *candidate, now time.Time) place {
	if _, ok := b.line.places[c.key]; !ok || now.Sub(b.line.at).Abs() >= lookPeriod { // expensive with thousands of Nodes
		b.line = line{now, b.gone.line(now, b.book.bucket, b.census.size, b.options.Limits)}
	}
	p := b.line.places[c.key]
	if wrong := p.expected.Sub(c.expected).Abs(); wrong > tolerance+p.expected.Sub(now)/10 {
		c.expected = p.expected.Truncate(time.Second).Add(time.Second) // rounded up
	}
	p.expected = c.expected
	return p
}

// tolerance is the allowed error of an estimate, plus a tenth of the remaining wait: a Node
// is asked about once per askPeriod.
const tolerance = time.Minute

// line simulates the future: each permit goes to the first Node whose grace period is over
// by then, and the cluster shrinks.
func (all candidates) line(now time.Time, k bucket, size int, l Limits) map[nodeKey]place {
	var rest []*candidate
	for _, c := range all {
		switch {
		case c.granted: // it goes, or went after the census
			size--
		case c.needs(now):
			rest = append(rest, c)
		}
	}
	slices.SortFunc(rest, (*candidate).compare)
	places := make(map[nodeKey]place, len(rest))
	for len(rest) > 0 {
		now = now.Add(k.wait(1, now, l.rate(size)))
		next := slices.IndexFunc(rest, func(c *candidate) bool { return !c.over().After(now) })
		if next < 0 { // permits wait for a Node
			next = earliest(rest)
			now = rest[next].over()
		}
		k.fill(now, l.rate(size))
		k.Permits--
		size--
		c := rest[next]
		places[c.key] = place{len(places) + 1, now}
		copy(rest[1:], rest[:next])
		rest = rest[1:]
	}
	return places
}

func earliest(all []*candidate) (first int) {
	for n, c := range all {
		if c.over().Before(all[first].over()) {
			first = n
		}
	}
	return first
}

// over is the end of its grace period.
func (c *candidate) over() time.Time { return c.since.Add(c.grace) }

// needs reports whether the Node is in the line now, or will be after its grace period.
func (c *candidate) needs(now time.Time) bool {
	return c.counts && now.Sub(c.said) <= rankAfter
}
