package kubecache

import (
	"math/rand/v2"
	"slices"
	"sort"
)

// journal records each change of some objects, in order. Replaced records stay until there
// are too many.
type journal struct {
	log   []record
	stale int
	// head is the number of the last change; deletions up to cut are forgotten.
	head, cut uint64
}

type record struct {
	number uint64
	*entry
}

// newJournal begins at a random number: cursors of an earlier journal are invalid in it, and
// its numbers reveal no counts.
func newJournal() journal {
	start := rand.Uint64() >> 1
	return journal{head: start, cut: start}
}

func (j *journal) append(e *entry) {
	j.head++
	j.log = append(j.log, record{j.head, e})
}

// retired is told that one of its entries is stale now.
func (j *journal) retired() {
	j.stale++
	if j.stale > len(j.log)/2+64 {
		j.log = slices.DeleteFunc(j.log, func(r record) bool { return r.stale })
		j.stale = 0
	}
}

// forget invalidates all existing cursors.
func (j *journal) forget() {
	j.head++
	j.cut = j.head
}

// position is a place in the changes.
type position struct {
	// number is the last examined change.
	number uint64
	// begun is the position at the start of a full read: earlier deletions are irrelevant to the
	// reader.
	begun uint64
}

// page is the result of a read from a position.
type page struct {
	data    []byte // fields of a KubeResponse
	next    position
	more    bool
	scanned int // examined records
}

// known reports whether the changes since a position are known.
func (j *journal) known(from position) bool {
	return max(from.number, from.begun) <= j.head && max(from.number, from.begun) >= j.cut
}

// read returns the changes since a position, of all names or one, at most count entries and
// about maxPageBytes; a nil position is the beginning. Restarted reports a start from the
// beginning because the position was invalid.
func (j *journal) read(since *position, name string, count int) (p page, restarted bool) {
	from := position{begun: j.head}
	if since != nil && j.known(*since) {
		from = *since
	} else {
		restarted = since != nil
	}
	p.next = from
	start := sort.Search(len(j.log), func(i int) bool { return j.log[i].number > from.number })
	found := 0
	for _, r := range j.log[start:] {
		p.scanned++
		old := r.stale || r.deleted && r.number <= from.begun
		if !old && (name == "" || r.name == name) {
			if found == count || found > 0 && len(p.data)+len(r.encoded) > maxPageBytes {
				p.more = true
				return p, restarted
			}
			p.data = append(p.data, r.encoded...)
			found++
		}
		p.next.number = r.number
	}
	p.next.number = j.head
	return p, restarted
}
