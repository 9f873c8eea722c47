package trial

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// A node that begins with a wrong clock, and is set right a minute later, must
// not have its ends remembered until that time comes.
func TestEndsOfTheFutureAreForgotten(t *testing.T) {
	b, now := &Book{}, begun.AddDate(0, 1, 0)
	for n := range int64(2) { // a month ahead
		must(t, b.begin(mark("a", "good", n), Trusted))
		b.again("a", now)
	}
	for n := range int64(4) {
		now = begun.Add(time.Duration(n) * 24 * time.Hour)
		must(t, b.begin(mark("a", "good", n+2), Trusted))
		b.again("a", now)
	}
	must(t, b.begin(mark("a", "good", 9), Trusted))
}

// The fullest book can be read again.
func TestTheFullestBookCanBeRead(t *testing.T) {
	long := strings.Repeat("x", 63)
	b := &Book{}
	for n := range int64(300) {
		s := Subject{Provider: long, Signer: long, Module: strings.Repeat("0", 64), Config: strings.Repeat("0", 64)}
		m := Mark{Subject: s, ID: 1<<62 + n, Manager: long + ".x:65535", Kept: begun, Phase: "Configured", Since: begun,
			Account: Account{long, long[:36]}, Pod: long, Boot: long[:36]}
		b.Marks = bounded(append(b.Marks, m))
		m.Module = fmt.Sprintf("%064d", n)
		b.accuse(m, begun.Add(time.Nanosecond), 3, strings.Repeat("w", 256))
		b.Passed = bounded(append(b.Passed, Event{Subject: s, At: begun}))
		b.Ends = bounded(append(b.Ends, Event{s, m.Manager, begun.Add(time.Nanosecond)}))
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
	b.Reach("a", 1, Kept, begun.Add(-time.Hour))
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
	busy(t, b.begin(m, Trusted))
	m.Since = begun.Add(time.Hour)
	must(t, b.begin(m, Trusted))
}

// A suspect of a time when the clock was ahead is of another end than what was begun
// since, and explains nothing.
func TestASuspectOfBeforeExplainsNoLaterEnd(t *testing.T) {
	for name, found := range map[string]time.Time{"by the right clock": begun.Add(-time.Hour), "by the wrong one": begun.AddDate(1, 0, 0)} {
		b, ahead := &Book{}, mark("a", "bad", begun.AddDate(1, 0, 0).UnixNano())
		ahead.Since = begun.AddDate(1, 0, 0)
		must(t, b.begin(ahead, Offered))
		b.again("a", found)
		m, now := mark("a", "worse", begun.UnixNano()), begun.Add(time.Minute)
		must(t, b.begin(m, Offered))
		if b.Newer(m, now) {
			t.Errorf("found %s: it excuses what is on trial", name)
		}
		newest := mark("a", "worst", begun.UnixNano()+1)
		must(t, b.begin(newest, Offered))
		b.accuse(newest, now, 0, "")
		b.Strike("a", newest.ID)
		if !b.Newer(m, now) {
			t.Errorf("found %s: two are blamed for one end", name)
		}
	}
}

// What was good, and was suspected by a clock that was far ahead, does not stay out until
// that time.
func TestWhatWasSuspectedInTheFutureIsTriedAgain(t *testing.T) {
	b, ahead := &Book{}, begun.AddDate(1, 0, 0)
	for n := range int64(MostEnds) {
		must(t, b.begin(mark("a", "good", n), Trusted))
		b.again("a", ahead)
	}
	if s := suspected(t, b.begin(Mark{Subject: subject("good"), ID: 8, Manager: "a", Since: ahead}, Trusted)); s.Again(begun) != time.Second {
		t.Errorf("it is tried after %v", s.Again(begun))
	}
	must(t, b.begin(mark("a", "good", 9), Trusted))
}
