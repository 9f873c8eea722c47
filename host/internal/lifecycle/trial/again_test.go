package trial

import (
	"strings"
	"testing"
	"time"
)

// A node that begins with a wrong clock, and is set right a minute later, must
// not have its ends remembered until that time comes.
func TestEndsOfTheFutureAreForgotten(t *testing.T) {
	b, now := &Book{}, begun.AddDate(0, 1, 0)
	for n := range int64(2) { // a month ahead
		must(t, b.begin(mark("a", "good", n), Kept))
		b.again("a", now)
	}
	for n := range int64(4) {
		now = begun.Add(time.Duration(n) * 24 * time.Hour)
		must(t, b.begin(mark("a", "good", n+2), Kept))
		b.again("a", now)
	}
	must(t, b.begin(mark("a", "good", 9), Kept))
}

// The fullest book can be read again.
func TestTheFullestBookCanBeRead(t *testing.T) {
	long := strings.Repeat("x", 63)
	b := &Book{}
	for n := range int64(300) {
		s := Subject{Provider: long, Signer: long, Module: strings.Repeat("0", 64), Config: strings.Repeat("0", 64)}
		m := Mark{Subject: s, ID: 1<<62 + n, Manager: long + ".x:65535", Kept: begun, Phase: "Configured", Since: begun}
		b.Marks = bounded(append(b.Marks, m))
		b.Suspects = bounded(append(b.Suspects, Suspect{s, m.Manager, m.Phase, begun, begun.Add(time.Nanosecond), 3, ""}))
		b.Passed = bounded(append(b.Passed, Passed{s, begun}))
		b.Ends = bounded(append(b.Ends, End{s, m.Manager, begun.Add(time.Nanosecond)}))
	}
	text, err := b.Encode()
	must(t, err)
	_, err = Decode(text)
	must(t, err)
}

// What is too large to be kept is offered again after each restart. It has
// passed, so a power cut in these seconds must not take the provider away.
func TestWhatHasPassedIsTrustedWhenItIsOfferedAgain(t *testing.T) {
	b := &Book{}
	must(t, b.begin(mark("a", "large", 1), Offered))
	b.Pass("a", 1, begun.Add(-time.Hour))
	b.Leave("a")
	must(t, b.begin(mark("a", "large", 2), Offered))
	b.again("a", begun)
	must(t, b.begin(mark("a", "large", 3), Offered))
	b.again("a", begun)
	must(t, b.begin(mark("a", "large", 4), Offered))
	b.again("a", begun)
	suspected(t, b.begin(mark("a", "large", 5), Offered))
	must(t, b.begin(mark("a", "large", 6), Pardoned)) // on trial again
	b.again("a", begun)
	suspected(t, b.begin(mark("a", "large", 7), Offered))
}

// A node that is gone for good had something on trial that is good elsewhere:
// nobody strikes that out, and nothing could be promoted.
func TestWhatWasKeptDoesNotWaitForever(t *testing.T) {
	b := &Book{}
	must(t, b.begin(mark("gone", "good", 1), Offered))
	m := mark("b", "good", 1)
	busy(t, b.begin(m, Kept))
	m.Since = begun.Add(time.Hour)
	must(t, b.begin(m, Kept))
}
