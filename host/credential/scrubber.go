package credential

import (
	"bytes"
	"slices"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

const (
	// minSecretBytes is the length of the shortest value that is scrubbed.
	// Shorter ones stand everywhere.
	minSecretBytes = windowSize
	// keepOld is how long a value is scrubbed after it was replaced.
	keepOld = time.Hour
	// keepOnce is how long a value is scrubbed that serves one request only.
	keepOnce = 15 * time.Minute
	// maxOld and maxOnce bound how many there are, maxOldBytes the sum of each.
	maxOld      = 512
	maxOnce     = 256
	maxOldBytes = 2 << 20
	// maxDepth is how many escapings on top of each other are looked through.
	maxDepth = 2
	// maxPasses bounds the passes over data in which the marks themselves
	// make up a value.
	maxPasses = 3
)

// Scrubber replaces secret values in data. It is safe for concurrent use.
//
// It does not hide that a value was there: whoever can have data scrubbed can
// test guesses. Secrets must not be guessable, and a Scrubber is for one
// provider.
type Scrubber struct {
	redacted
	clock     clock.PassiveClock
	escapings []escaping

	mu        sync.Mutex
	current   map[owner][]*secretValue
	old, once shelf
	index     *index // nil: to be made
}

// owner is who has current values: a part of a Set.
type owner struct {
	set  *Set
	part string
}

// secretValue is a value with what it looks like.
type secretValue struct {
	redacted
	label    string
	value    []byte
	patterns []pattern
}

// shelf keeps values that are not current for a while.
type shelf struct {
	keep   time.Duration
	max    int
	values []oldValue // oldest first
	bytes  int
}

type oldValue struct {
	*secretValue
	until time.Time
}

func (s *shelf) add(v *secretValue, now time.Time) {
	s.values = append(s.values, oldValue{v, now.Add(s.keep)})
	s.bytes += len(v.value)
}

// forget drops the values whose time is over and the oldest ones above the
// bounds, and reports whether it did.
func (s *shelf) forget(now time.Time) bool {
	n := 0
	for ; n < len(s.values); n++ {
		if v := s.values[n]; len(s.values)-n <= s.max && s.bytes <= maxOldBytes && now.Before(v.until) {
			break
		}
		s.bytes -= len(s.values[n].value)
	}
	s.values = slices.Delete(s.values, 0, n)
	return n > 0
}

// NewScrubber returns a Scrubber that knows no values yet.
func NewScrubber(clock clock.PassiveClock) *Scrubber {
	return &Scrubber{
		clock: clock, escapings: escapings(), current: map[owner][]*secretValue{},
		old:  shelf{keep: keepOld, max: maxOld},
		once: shelf{keep: keepOnce, max: maxOnce},
	}
}

// Scrub returns data with "[scrubbed:NAME]" in place of every value of a
// credential NAME that stands in it: as it is, escaped as in JSON, URLs and
// HTML, in hexadecimal, and in base64 of anything around it. Data itself is
// returned when there is none; it is never changed.
func (s *Scrubber) Scrub(data []byte) []byte {
	x := s.currentIndex()
	if len(x.patterns) == 0 {
		return data
	}
	out := data
	for range maxPasses {
		spans := s.spans(x, out, 0)
		if len(spans) == 0 {
			return out
		}
		out = replace(out, spans)
	}
	if spans := s.spans(x, out, 0); len(spans) > 0 {
		return []byte(mark(spans[0].label))
	}
	return out
}

// spans are the parts of data to be replaced, in order and apart.
func (s *Scrubber) spans(x *index, data []byte, depth int) []span {
	out := x.find(data)
	if depth == maxDepth {
		return out
	}
	for _, e := range s.escapings {
		text, found := e.text(data)
		if !found {
			continue
		}
		if inner := s.spans(x, text, depth+1); len(inner) > 0 {
			out = merge(out, e.spans(data, inner))
		}
	}
	return out
}

func merge(a, b []span) []span {
	all := append(a, b...)
	slices.SortStableFunc(all, func(a, b span) int { return a.start - b.start })
	var out []span
	for _, s := range all {
		out = join(out, s)
	}
	return out
}

func mark(label string) string { return "[scrubbed:" + label + "]" }

func replace(data []byte, spans []span) []byte {
	var out bytes.Buffer
	done := 0
	for _, s := range spans {
		out.Write(data[done:s.start])
		out.WriteString(mark(s.label))
		done = s.end
	}
	out.Write(data[done:])
	return out.Bytes()
}

// hold makes values those of the owner, for the credential named label.
// The ones that it had before are scrubbed for a while longer. Too short ones
// are left out.
func (s *Scrubber) hold(by owner, label string, values ...[]byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.current[by]
	var now []*secretValue
	for _, value := range values {
		if !scrubbable(label, value) || slices.ContainsFunc(now, holds(value)) {
			continue
		}
		if i := slices.IndexFunc(before, holds(value)); i >= 0 {
			now = append(now, before[i])
			continue
		}
		now = append(now, newSecretValue(label, value))
		s.index = nil
	}
	for _, v := range before {
		if !slices.Contains(now, v) {
			s.old.add(v, s.clock.Now())
		}
	}
	s.current[by] = now
	if len(now) == 0 {
		delete(s.current, by)
	}
	s.forget()
}

// release takes all values of a Set for replaced ones.
func (s *Scrubber) release(set *Set) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for by, values := range s.current {
		if by.set != set {
			continue
		}
		for _, v := range values {
			s.old.add(v, s.clock.Now())
		}
		delete(s.current, by)
	}
	s.forget()
}

// holdOnce has values scrubbed that serve one request only.
func (s *Scrubber) holdOnce(label string, values ...[]byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, value := range values {
		if scrubbable(label, value) {
			s.once.add(newSecretValue(label, value), s.clock.Now())
			s.index = nil
		}
	}
	s.forget()
}

// scrubbable reports whether a value is long enough, and not a part of the
// mark that would stand in its place.
func scrubbable(label string, value []byte) bool {
	return len(value) >= minSecretBytes && !bytes.Contains([]byte(mark(label)), value)
}

func holds(value []byte) func(*secretValue) bool {
	return func(v *secretValue) bool { return bytes.Equal(v.value, value) }
}

func newSecretValue(label string, value []byte) *secretValue {
	value = bytes.Clone(value)
	return &secretValue{label: label, value: value, patterns: patternsOf(label, value)}
}

func (s *Scrubber) forget() {
	now := s.clock.Now()
	if old, once := s.old.forget(now), s.once.forget(now); old || once {
		s.index = nil
	}
}

func (s *Scrubber) currentIndex() *index {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.index == nil {
		var patterns []pattern
		for _, values := range s.current {
			for _, v := range values {
				patterns = append(patterns, v.patterns...)
			}
		}
		for _, v := range slices.Concat(s.old.values, s.once.values) {
			patterns = append(patterns, v.patterns...)
		}
		s.index = newIndex(patterns)
	}
	return s.index
}
