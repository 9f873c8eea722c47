package trials

import (
	"cmp"
	"slices"
	"time"

	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/trial"
)

// Said is what others know of the end of a process, as the kubelet; the zero
// value: nothing.
type Said struct {
	// Text is one short line.
	Text string
	// Began is when the process began, to the second: later marks are its own.
	Began time.Time
	// Orderly: it exited with 0, as a manager does that says itself that it ended
	// as it should.
	Orderly bool
}

// own tells whether the mark is of the process.
func (s Said) own(m trial.Mark) bool { return !m.Since.Before(s.Began) }

// of is what is said of the end that a mark explains, "" for none.
func (s Said) of(blamed *trial.Mark) string {
	if blamed == nil || s.Orderly || !s.own(*blamed) {
		return ""
	}
	return s.Text
}

// without leaves out the marks of a process that has ended as it should.
func (s Said) without(left []trial.Mark) []trial.Mark {
	// Invariant M43 (host/SECURITY.md): only those of the process that exited with 0.
	return slices.DeleteFunc(left, func(m trial.Mark) bool { return s.Orderly && s.own(m) })
}

// newest is the last mark that was made.
func newest(left []trial.Mark) trial.Mark {
	return slices.MaxFunc(left, func(a, b trial.Mark) int { return cmp.Compare(a.ID, b.ID) })
}
