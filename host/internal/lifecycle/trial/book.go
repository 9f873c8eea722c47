package trial

import (
	"cmp"
	"slices"
	"time"
)

// Begin adds a mark, or returns a *Suspect or *Busy and may have changed the
// book all the same. Kept of the mark is set. Guilty tells whether the mark of
// another manager explains how that one ended.
func (b *Book) Begin(m Mark, s Standing, guilty func(Mark) bool) error {
	b.inherit(m, s, guilty)
	if i := b.suspect(m.Subject); i >= 0 && s == Last && b.Suspects[i].Ends == 0 {
		b.Pardon(m.Subject)
	}
	// Invariant M13 (host/SECURITY.md): a suspect is run by nobody until it is pardoned; what was
	// trusted, once more and on trial, when its time is over.
	onTrial := false
	if i := b.suspect(m.Subject); i >= 0 {
		if found := b.Suspects[i]; s != Pardoned && found.Left(m.Since) != 0 {
			return &found
		}
		b.Pardon(m.Subject)
		onTrial = true
	}
	at, passed := b.passed(m.Subject)
	// Invariant M17 (host/SECURITY.md): while one manager tries a signer, the others wait.
	// Of a manager that never came back nobody waits with what was good.
	if other := b.tried(m, s); other != nil && (s != Kept && s != Last || m.Since.Sub(other.Since) <= abandoned) {
		return &Busy{other.Manager}
	}
	// Invariant M14 (host/SECURITY.md): a standby runs only what has been kept, and for a while.
	if settled := passed && m.Since.Sub(at).Abs() >= Settled; !settled && (s == Standby || s == Shared && passed && b.run(m)) {
		return &Busy{}
	}
	switch {
	case onTrial:
	case passed:
		m.Kept = at
	case s == Kept || s == Last: // so long ago that it is forgotten here
		m.Kept = m.Since.Add(-Young)
	}
	m.Resumed = s == Resumed
	b.Marks = bounded(append(b.Marks, m))
	return nil
}

// inherit finds what the leader before has left on trial.
func (b *Book) inherit(m Mark, s Standing, guilty func(Mark) bool) {
	other := b.tried(m, s)
	if other == nil || s != Offered && s != Pardoned && (s != Shared || m.Since.Sub(other.Since) <= abandoned) {
		return
	}
	// Invariant M14 (host/SECURITY.md): what another leader has left on trial has ended it.
	// Who leads tries alone, and strikes out when it ends as it should.
	if guilty(*other) && s != Pardoned {
		b.accuse(*other, m.Since, 0, "")
	}
	b.Strike(other.Manager, other.ID)
}

// passed tells when a subject was kept.
func (b *Book) passed(s Subject) (at time.Time, ok bool) {
	for _, x := range b.Passed {
		if x.Subject == s {
			return x.At, true
		}
	}
	return time.Time{}, false
}

// run: another manager runs the subject.
func (b *Book) run(m Mark) bool {
	return slices.ContainsFunc(b.Marks, func(x Mark) bool { return x.Subject == m.Subject && x.Manager != m.Manager })
}

// tried is the mark of another manager that tries the same, or nil.
func (b *Book) tried(m Mark, s Standing) *Mark {
	leads := s == Offered || s == Pardoned
	i := slices.IndexFunc(b.Marks, func(x Mark) bool {
		return x.Subject == m.Subject && x.onTrial() && x.Manager != m.Manager && (!leads || !x.Resumed)
	})
	if i < 0 {
		return nil
	}
	found := b.Marks[i]
	return &found
}

func (b *Book) suspect(s Subject) int {
	return slices.IndexFunc(b.Suspects, func(x Suspect) bool { return x.Subject == s })
}

func (b *Book) accuse(m Mark, found time.Time, ends int, words string) {
	b.Pardon(m.Subject)
	b.forget(m.Subject)
	b.Suspects = bounded(append(b.Suspects, Suspect{m.Subject, m.Manager, m.Phase, m.Since, found, ends, words}))
}

func (b *Book) forget(s Subject) {
	b.Passed = slices.DeleteFunc(b.Passed, func(x Passed) bool { return x.Subject == s })
}

// Pardon forgets what is known against a subject.
func (b *Book) Pardon(s Subject) {
	b.Suspects = slices.DeleteFunc(b.Suspects, func(x Suspect) bool { return x.Subject == s })
	b.Ends = slices.DeleteFunc(b.Ends, func(x End) bool { return x.Subject == s })
}

func (b *Book) mark(manager string, id int64) *Mark {
	i := slices.IndexFunc(b.Marks, func(x Mark) bool { return x.Manager == manager && x.ID == id })
	if i < 0 {
		return nil // somebody has removed it
	}
	return &b.Marks[i]
}

// Reach notes a phase.
func (b *Book) Reach(manager string, id int64, phase string) {
	if m := b.mark(manager, id); m != nil {
		m.Phase = phase
	}
}

// Pass ends a trial well: the subject is kept, and may be run by others. What
// was kept before stays as old as it is.
func (b *Book) Pass(manager string, id int64, now time.Time) {
	m := b.mark(manager, id)
	if m == nil {
		return
	}
	if m.onTrial() {
		m.Kept = now
	}
	b.forget(m.Subject)
	b.Passed = bounded(append(b.Passed, Passed{m.Subject, m.Kept}))
}

// Strike removes a mark: nothing of the attempt runs any more.
func (b *Book) Strike(manager string, id int64) {
	b.Marks = slices.DeleteFunc(b.Marks, func(x Mark) bool { return x.Manager == manager && x.ID == id })
}

// Leave removes all marks of a manager that ends as it should.
func (b *Book) Leave(manager string) {
	b.Marks = slices.DeleteFunc(b.Marks, func(x Mark) bool { return x.Manager == manager })
}

// Forget removes the marks of all managers that ran as an account which was deleted
// since, and made anew: the manager was uninstalled, which took their rights
// before they ended, and nobody can say how they did.
func (b *Book) Forget(now Account) {
	// Invariant M16 (host/SECURITY.md): no module makes an account anew. A manager with the
	// account of before can write nothing, so it has nothing to be known by.
	b.Marks = slices.DeleteFunc(b.Marks, func(m Mark) bool { return m.Account.madeAnew(now) })
}

// Left are the marks that a manager left behind.
func (b *Book) Left(manager string) (left []Mark) {
	for _, m := range b.Marks {
		if m.Manager == manager {
			left = append(left, m)
		}
	}
	return left
}

// Blame returns the one mark, out of all that a dead manager left in all books,
// that explains its end: the newest trial; else what was kept last, if that was
// less than Young ago; else the only one that was being loaded, or the only one. Among several that
// were kept for longer none is blamed, so no provider can get another one refused.
func Blame(left []Mark, now time.Time) *Mark {
	trials := slices.DeleteFunc(slices.Clone(left), func(m Mark) bool { return !m.onTrial() })
	if len(trials) > 0 {
		newest := slices.MaxFunc(trials, func(a, b Mark) int { return cmp.Compare(a.ID, b.ID) })
		return &newest
	}
	if len(left) > 0 {
		if latest := slices.MaxFunc(left, func(a, b Mark) int { return a.Kept.Compare(b.Kept) }); latest.young(now) {
			return &latest
		}
	}
	// Invariant M17 (host/SECURITY.md): of several that may have been it, none is blamed.
	loading := slices.DeleteFunc(slices.Clone(left), func(m Mark) bool { return m.Phase == Running })
	for _, some := range [][]Mark{loading, left} {
		if len(some) > 0 && !slices.ContainsFunc(some, func(m Mark) bool { return m.Subject != some[0].Subject }) {
			return &some[len(some)-1]
		}
	}
	return nil
}

// Running is the phase of what serves.
const Running = "Serving"

// Ending is what is known of the end of a manager.
type Ending struct {
	// Blamed explains it, nil: nothing does.
	Blamed *Mark
	// Boot names the time for which the machine is up now.
	Boot string
	// Words are what others know of it.
	Words string
}

// Recover removes the marks of a manager that ended without a clean shutdown,
// and records its end with the blamed one.
func (b *Book) Recover(manager string, e Ending, now time.Time) {
	// Also what was written down by a clock that was far ahead.
	b.Ends = slices.DeleteFunc(b.Ends, func(x End) bool { return now.Sub(x.At).Abs() >= EndsPeriod })
	for _, m := range b.Left(manager) {
		switch {
		case e.Blamed == nil || m.ID != e.Blamed.ID || m.Subject != e.Blamed.Subject:
		case m.onTrial():
			b.accuse(m, now, 0, e.Words)
		case m.Boot != e.Boot: // the machine ended, and what was good has nothing to do with it
		case m.young(now):
			b.accuse(m, now, 0, e.Words)
		default:
			b.Ends = bounded(append(b.Ends, End{m.Subject, manager, now}))
			if n := b.ends(m.Subject, manager); n >= MostEnds {
				b.accuse(m, now, n, e.Words)
			}
		}
	}
	b.Leave(manager)
}

// ends counts those of one manager: a power cut ends all of them once.
func (b *Book) ends(s Subject, manager string) (n int) {
	for _, x := range b.Ends {
		if x.Subject == s && x.Manager == manager {
			n++
		}
	}
	return n
}
