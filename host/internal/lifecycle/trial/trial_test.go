package trial

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

func subject(name string) Subject { return Subject{Provider: "p", Module: name, Config: "c"} }

var begun = time.Date(2026, 11, 22, 1, 2, 3, 0, time.UTC)

func mark(manager, name string, id int64) Mark {
	return Mark{Subject: subject(name), ID: id, Manager: manager, Since: begun}
}

func suspected(t *testing.T, err error) Suspect {
	t.Helper()
	var s *Suspect
	if !errors.As(err, &s) {
		t.Fatalf("%v, want a suspect", err)
	}
	return *s
}

func busy(t *testing.T, err error) {
	t.Helper()
	var b *Busy
	if !errors.As(err, &b) {
		t.Fatalf("%v, want to wait", err)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// again is what a manager does when it starts after it ended without a word.
func (b *Book) again(manager string, now time.Time) {
	b.Recover(manager, Blame(b.Left(manager), now), "", "", now)
}

func (b *Book) begin(m Mark, s Standing) error { return b.Begin(m, s, func(Mark) bool { return true }) }

func TestWhatEndedTheManagerIsSuspected(t *testing.T) {
	b := &Book{}
	must(t, b.begin(mark("a", "good", 1), Trusted))
	must(t, b.begin(mark("a", "bad", 2), Offered))
	b.Reach("a", 1, Running, begun)
	b.Reach("a", 2, "Described", begun)
	b.again("a", begun.Add(time.Minute))
	must(t, b.begin(mark("a", "good", 3), Trusted))
	s := suspected(t, b.begin(mark("a", "bad", 4), Offered))
	if text := (&s).Error(); !strings.Contains(text, "a ended while it tried") || !strings.Contains(text, "2026-11-22T01:02:03Z, after the phase Described") {
		t.Errorf("message %q", text)
	}
	suspected(t, b.begin(mark("b", "bad", 1), Standby))
	must(t, b.begin(mark("a", "bad", 5), Pardoned))
}

func TestAnOrderlyEndLeavesNothing(t *testing.T) {
	b := &Book{}
	must(t, b.begin(mark("a", "new", 1), Offered))
	must(t, b.begin(mark("b", "old", 1), Trusted))
	b.Leave("a")
	b.again("a", begun)
	must(t, b.begin(mark("a", "new", 2), Offered))
	b.Strike("a", 2)
	if len(b.Left("a")) != 0 || len(b.Left("b")) != 1 {
		t.Errorf("book %+v", b)
	}
}

func TestAStandbyWaitsForTheLeader(t *testing.T) {
	b := &Book{}
	busy(t, b.begin(mark("b", "new", 1), Standby))
	must(t, b.begin(mark("a", "new", 1), Offered))
	busy(t, b.begin(mark("b", "new", 2), Standby))
	busy(t, b.begin(mark("b", "new", 3), Trusted)) // recorded before it has passed
	b.Reach("a", 1, Kept, begun.Add(-time.Hour))
	must(t, b.begin(mark("b", "new", 4), Standby))
}

func TestTheNextLeaderSuspectsWhatTheOneBeforeTried(t *testing.T) {
	b := &Book{}
	must(t, b.begin(mark("a", "bad", 1), Offered))
	if s := suspected(t, b.begin(mark("b", "bad", 1), Offered)); s.Manager != "a" {
		t.Errorf("suspect %+v", s)
	}
	b.again("a", begun) // which comes back
	suspected(t, b.begin(mark("a", "bad", 2), Standby))
}

// A signer is run by every manager: one after the other tries it.
func TestSharedSubjectsAreTriedByOneAtATime(t *testing.T) {
	b := &Book{}
	must(t, b.begin(mark("a", "signer", 1), Shared))
	busy(t, b.begin(mark("b", "signer", 1), Shared))
	late := mark("b", "signer", 1)
	late.Since = begun.Add(time.Hour) // the other one never came back
	gone := *b
	suspected(t, gone.begin(late, Shared))
	b.Leave("a")
	must(t, b.begin(mark("b", "signer", 2), Shared))
	b.Reach("b", 2, Kept, begun.Add(-time.Hour))
	must(t, b.begin(mark("a", "signer", 3), Shared))
	b.again("a", begun) // once is nothing: it was trusted
	must(t, b.begin(mark("a", "signer", 4), Shared))
}

func TestWhatIsTrustedMayEndAManagerTwiceAnHour(t *testing.T) {
	for _, test := range []struct {
		every   time.Duration
		suspect bool
	}{{10 * time.Minute, true}, {40 * time.Minute, false}} {
		b, now := &Book{}, begun
		for n := range int64(MostEnds) {
			must(t, b.begin(mark("a", "good", n), Trusted))
			must(t, b.begin(mark("b", "good", n), Trusted)) // a power cut ends both
			now = now.Add(test.every)
			b.again("a", now)
			b.again("b", now)
		}
		err := b.begin(mark("a", "good", 9), Trusted)
		if got := err != nil; got != test.suspect {
			t.Errorf("one end each %v: %v", test.every, err)
		}
		if test.suspect && !strings.Contains(err.Error(), "ended 3 times within 1h") {
			t.Errorf("message %q", err)
		}
		b.Pardon(subject("good"))
		must(t, b.begin(mark("a", "good", 10), Trusted))
		b.again("a", now)
		must(t, b.begin(mark("a", "good", 11), Trusted)) // it is counted anew
	}
}

// What was good may not be what ended the managers, and nothing else may serve:
// it is tried once more an hour later, and one end is enough then.
func TestWhatWasTrustedIsTriedOnceMore(t *testing.T) {
	b, now := &Book{}, begun
	for n := range int64(MostEnds) {
		must(t, b.begin(mark("a", "good", n), Trusted))
		now = now.Add(time.Minute)
		b.again("a", now)
	}
	at := func(id int64, now time.Time) Mark {
		m := mark("a", "good", id)
		m.Since = now
		return m
	}
	var suspect *Suspect
	err := b.begin(at(10, now.Add(EndsPeriod-time.Second)), Trusted)
	if !errors.As(err, &suspect) || suspect.Again(now) != EndsPeriod || suspect.Again(now.Add(2*EndsPeriod)) != time.Second {
		t.Fatalf("before the hour is over: %v", err)
	}
	now = now.Add(EndsPeriod)
	must(t, b.begin(at(11, now), Trusted))
	if !b.Marks[0].Kept.IsZero() {
		t.Error("it is trusted at once")
	}
	b.again("a", now.Add(time.Minute))
	if err := b.begin(at(12, now.Add(48*time.Hour)), Trusted); !errors.As(err, &suspect) || suspect.Again(now) != 0 {
		t.Errorf("after another end: %v", err)
	}
}

func TestOneIsBlamed(t *testing.T) {
	now := begun.Add(time.Hour)
	kept := func(provider, phase string, age time.Duration) Mark {
		return Mark{Subject: Subject{Provider: provider, Module: "m"}, Kept: now.Add(-age), Phase: phase}
	}
	onTrial := func(provider string, id int64) Mark {
		return Mark{Subject: Subject{Provider: provider, Module: "m"}, ID: id}
	}
	for name, test := range map[string]struct {
		left []Mark
		want string
	}{
		"nothing":                       {nil, ""},
		"the only one":                  {[]Mark{kept("a", Running, time.Hour)}, "a"},
		"none of several":               {[]Mark{kept("a", Running, time.Hour), kept("b", Running, time.Hour)}, ""},
		"what was loaded":               {[]Mark{kept("a", Running, time.Hour), kept("b", "Compiled", time.Hour)}, "b"},
		"none of several loads":         {[]Mark{kept("a", "Compiled", time.Hour), kept("b", "", time.Hour)}, ""},
		"a trial before anything":       {[]Mark{kept("a", "Compiled", time.Second), onTrial("x", 1), kept("b", Running, time.Hour)}, "x"},
		"the newest trial alone":        {[]Mark{onTrial("x", 2), onTrial("y", 3), onTrial("z", 1)}, "y"},
		"what was kept last, if lately": {[]Mark{kept("a", Running, time.Minute), kept("b", Running, 2*time.Minute), kept("c", "", time.Hour)}, "a"},
	} {
		got := ""
		if m := Blame(test.left, now); m != nil {
			got = m.Provider
		}
		if got != test.want {
			t.Errorf("%s: blamed %q, want %q", name, got, test.want)
		}
	}
}

// What was kept for a few minutes is blamed at the first end, and runs all the
// same when there is nothing else.
func TestWhatWasKeptLatelyIsBlamed(t *testing.T) {
	b := &Book{}
	must(t, b.begin(mark("a", "new", 1), Offered))
	b.Reach("a", 1, Kept, begun)
	b.again("a", begun.Add(Young-time.Second))
	suspected(t, b.begin(mark("a", "new", 2), Trusted))
	must(t, b.begin(mark("a", "new", 3), LastResort))
	b.again("a", begun.Add(Young)) // it counts, and is not blamed at once any more
	must(t, b.begin(mark("a", "new", 4), Trusted))
}

// A machine that is switched off ends what was good on it, and says nothing of that.
func TestAMachineThatEndsBlamesTrialsOnly(t *testing.T) {
	b := &Book{}
	for n := range int64(2 * MostEnds) {
		must(t, b.begin(mark("a", "good", n), Trusted))
		b.Recover("a", Blame(b.Left("a"), begun), fmt.Sprint(n+1), "", begun)
	}
	must(t, b.begin(mark("a", "good", 20), Trusted))
	must(t, b.begin(mark("a", "new", 21), Offered))
	b.Recover("a", Blame(b.Left("a"), begun), "another", "the kubelet says: OOMKilled", begun)
	must(t, b.begin(mark("a", "good", 22), Trusted))
	if s := suspected(t, b.begin(mark("a", "new", 23), Offered)); !strings.Contains((&s).Error(), "OOMKilled") {
		t.Error((&s).Error())
	}
}

// What was kept for some seconds may still end every manager that runs it.
func TestAStandbyWaitsUntilItHasSettled(t *testing.T) {
	b := &Book{}
	must(t, b.begin(mark("a", "new", 1), Offered))
	b.Reach("a", 1, Kept, begun)
	busy(t, b.begin(mark("b", "new", 1), Standby))
	late := mark("b", "new", 2)
	late.Since = begun.Add(Settled)
	must(t, b.begin(late, Standby))
}

// Both managers were started anew, and the one that leads is not the one that
// goes on with what was observed.
func TestWhoLeadsBlamesNobodyThatGoesOn(t *testing.T) {
	b := &Book{}
	must(t, b.begin(mark("a", "observed", 1), Resuming))
	busy(t, b.begin(mark("b", "observed", 1), Resuming))
	must(t, b.begin(mark("b", "observed", 2), Offered))
}

// The next leader blames one of what the leader before had on trial.
func TestTheNextLeaderBlamesOne(t *testing.T) {
	b := &Book{}
	must(t, b.begin(mark("a", "innocent", 1), Offered))
	must(t, b.Begin(mark("b", "innocent", 1), Offered, func(Mark) bool { return false }))
}

func TestDecode(t *testing.T) {
	b := &Book{}
	for n := range int64(3 * maxEntries) {
		b.accuse(mark("a", fmt.Sprint(n), n), begun, 0, "")
	}
	must(t, b.begin(mark("a", "x", 1), Offered))
	text, err := b.Encode()
	must(t, err)
	got, err := Decode(text)
	must(t, err)
	if len(got.Suspects) != maxEntries || len(got.Marks) != 1 || got.Suspects[maxEntries-1].Module != fmt.Sprint(3*maxEntries-1) {
		t.Errorf("%d suspects, %d marks", len(got.Suspects), len(got.Marks))
	}
	for _, text := range []string{"mine", strings.Repeat(" ", maxBytes+1)} {
		if _, err := Decode(text); err == nil {
			t.Errorf("%.10q was read", text)
		}
	}
}

// TestRandomLives lets two managers begin, pass, end and die at any time, and
// looks at what must never be: the module that kills whoever runs it does so
// once, or once more for each promotion; what never kills is never suspected
// unless the kill -9 hit it on trial.
func TestRandomLives(t *testing.T) {
	for seed := range uint64(3000) {
		lives(t, rand.New(rand.NewPCG(seed, 1)))
	}
}

func lives(t *testing.T, random *rand.Rand) {
	b, now, id := &Book{}, begun, int64(0)
	leader, kills, pardons := 0, 0, 0
	names := []string{"a", "b"}
	var trace []string
	for range 80 {
		now = now.Add(time.Duration(random.IntN(60)) * time.Second)
		who := random.IntN(2)
		manager := names[who]
		id++
		standing := Standby
		if who == leader {
			standing = Offered
			if random.IntN(10) == 0 {
				standing = Pardoned
			}
		}
		switch random.IntN(6) {
		case 0, 1: // the module that kills
			m := mark(manager, "killer", id)
			m.Since = now
			if standing == Pardoned {
				pardons++
			}
			if b.begin(m, standing) == nil {
				kills++
				if random.IntN(2) == 0 { // the other one leads until it is back
					leader = 1 - leader
				}
				if random.IntN(2) == 0 {
					_ = b.begin(mark(names[leader], "killer", id), Offered) // and is refused, or the walk fails below
				}
				b.again(manager, now)
			}
		case 2:
			if b.begin(mark(manager, "good", id), standing) == nil && random.IntN(2) == 0 {
				b.Reach(manager, id, Kept, now)
			}
		case 3: // drained
			b.Leave(manager)
			if who == leader {
				leader = 1 - leader
			}
		case 4:
			b.Strike(manager, id-1)
		case 5:
			leader = 1 - leader
			b.Leave(names[1-leader]) // or it would be its death
		}
		trace = append(trace, fmt.Sprintf("%s %+v", manager, *b))
		if kills > 1+pardons {
			t.Fatalf("it killed %d times, promoted %d times:\n%s", kills, pardons, strings.Join(trace, "\n"))
		}
		for _, m := range b.Marks {
			if m.Subject == subject("killer") {
				t.Fatalf("a dead manager runs it:\n%s", strings.Join(trace, "\n"))
			}
		}
	}
}
