package credential

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"k8s.io/utils/clock"

	"github.com/wasm-ccm/wasm-ccm/abi"
)

const (
	// minSecretBytes is the length of the shortest scrubbed value. Shorter ones occur
	// everywhere.
	minSecretBytes = windowSize
	// keepOld is how long a replaced value is scrubbed.
	keepOld = time.Hour
	// keepOnce is how long a value for a single request is scrubbed.
	keepOnce = 15 * time.Minute
	// maxOld and maxOnce bound their numbers, maxOldBytes the sum of each.
	maxOld      = 512
	maxOnce     = 256
	maxOldBytes = 2 << 20
	// maxDepth is how many layers of escapes are decoded. Three are promised; a value with
	// escapes of its own may need more.
	maxDepth = 5
	// maxSpans bounds the replacements in one text. Each takes up to a hundred bytes: a short
	// value, repeated, would take gigabytes.
	//
	// Invariant M29 (host/SECURITY.md): marks do not fill the manager's memory.
	maxSpans = 1 << 16
	// maxPasses bounds the passes over data in which marks form a value.
	maxPasses = 3
)

// Scrubber replaces secret values in data. It is safe for concurrent use.
//
// It does not hide that a value was there: whoever can have data scrubbed can test guesses.
// Secrets must not be guessable, and a Scrubber is for one provider.
type Scrubber struct {
	redacted
	clock   clock.PassiveClock
	decoder *decoder

	mu        sync.Mutex
	current   map[owner][]*secretValue
	old, once shelf
	index     *index // nil: needs rebuilding
}

// owner holds current values: a part of a Set.
type owner struct {
	set  *Set
	part string
}

// secretValue is a value with its patterns.
type secretValue struct {
	redacted
	label    string
	value    []byte
	patterns []*pattern
}

// shelf keeps former values for a while.
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

// forget drops expired values and the oldest ones above the bounds, and reports whether it
// did.
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

// NewScrubber returns a Scrubber without values.
func NewScrubber(clock clock.PassiveClock) *Scrubber {
	return &Scrubber{
		clock: clock, decoder: newDecoder(), current: map[owner][]*secretValue{},
		old:  shelf{keep: keepOld, max: maxOld},
		once: shelf{keep: keepOnce, max: maxOnce},
	}
}

// ScrubberOf returns a Scrubber of constant values, for a program without credentials of its
// own.
func ScrubberOf(label string, values ...[]byte) *Scrubber {
	s := NewScrubber(clock.RealClock{})
	s.hold(owner{}, label, values...)
	return s
}

// Scrub is ScrubContext without a deadline, for short texts. A text with too many values
// becomes empty.
func (s *Scrubber) Scrub(data []byte) []byte {
	out, err := s.ScrubContext(context.Background(), data)
	if err != nil {
		return nil
	}
	return out
}

// ScrubContext returns data with "[scrubbed:NAME]" in place of every value of a credential
// NAME: unencoded, in hexadecimal, in base64 of anything around it, in two of these nested,
// and all of that escaped as in JSON, URLs and HTML, up to three times. Without a value it
// returns data itself; it never changes data. The time grows with the length of data; the
// error is the context's, checked every few ten milliseconds, or an *abi.Error with
// CodeTooLarge for more than maxSpans values.
func (s *Scrubber) ScrubContext(ctx context.Context, data []byte) ([]byte, error) {
	x := s.currentIndex()
	if len(x.entries) == 0 {
		return data, nil
	}
	out := data
	for range maxPasses {
		spans, err := s.spans(ctx, x, out)
		if err != nil {
			return nil, err
		}
		if len(spans) == 0 {
			return out, nil
		}
		out = replace(out, spans)
		if !x.bracketed {
			return out, nil
		}
	}
	spans, err := s.spans(ctx, x, out)
	if err != nil {
		return nil, err
	}
	if len(spans) > 0 {
		return []byte(mark(spans[0].label)), nil
	}
	return out, nil
}

// spans are the parts of data to replace, in order and apart: those of the text without
// escapes, translated back layer by layer.
func (s *Scrubber) spans(ctx context.Context, x *index, data []byte) ([]span, error) {
	layers := [][]byte{data}
	for len(layers) <= maxDepth && ctx.Err() == nil {
		text, found := s.decoder.text(layers[len(layers)-1])
		if !found {
			break
		}
		layers = append(layers, text)
	}
	var out []span
	for i := len(layers) - 1; i >= 0; i-- {
		// Invariant S3 (host/SECURITY.md): each layer is one pass, and ends with the context.
		if err := ctx.Err(); err != nil {
			return nil, fmt.Errorf("looking for secrets in %d bytes: %w", len(data), context.Cause(ctx))
		}
		if len(out) > 0 {
			out = s.decoder.spans(layers[i], out)
		}
		if out = merge(x.find(layers[i]), out); len(out) > maxSpans {
			return nil, &abi.Error{Code: abi.CodeTooLarge, Message: fmt.Sprintf("secrets stand in it more than %d times", maxSpans)}
		}
	}
	return out, nil
}

// merge joins two ordered lists.
func merge(a, b []span) []span {
	if len(b) == 0 {
		return a
	}
	out := make([]span, 0, len(a)+len(b))
	for len(a)+len(b) > 0 {
		if len(b) == 0 || len(a) > 0 && a[0].start <= b[0].start {
			out, a = join(out, a[0]), a[1:]
		} else {
			out, b = join(out, b[0]), b[1:]
		}
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

// hold replaces the owner's values, for the credential named label. The previous values stay
// scrubbed for some time. Too short values are ignored.
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
		now = append(now, s.newSecretValue(label, value))
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

// release retires all values of a Set.
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

// holdOnce has values for a single request scrubbed.
func (s *Scrubber) holdOnce(label string, values ...[]byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, value := range values {
		if scrubbable(label, value) {
			s.once.add(s.newSecretValue(label, value), s.clock.Now())
			s.index = nil
		}
	}
	s.forget()
}

// scrubbable reports whether a value is long enough, and not a part of its own mark.
func scrubbable(label string, value []byte) bool {
	return len(value) >= minSecretBytes && !bytes.Contains([]byte(mark(label)), value)
}

func holds(value []byte) func(*secretValue) bool {
	return func(v *secretValue) bool { return bytes.Equal(v.value, value) }
}

func (s *Scrubber) newSecretValue(label string, value []byte) *secretValue {
	value = bytes.Clone(value)
	return &secretValue{label: label, value: value, patterns: patternsOf(s.decoder, label, value)}
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
		var patterns []*pattern
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
