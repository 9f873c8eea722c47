package trial

import (
	"cmp"
	"slices"
	"time"
)

// Begin adds a mark, or returns a *Suspect or *Busy; the book may have changed in any case.
// It sets the mark's Kept. Guilty reports whether another manager's mark explains that
// manager's end.
func (b *Book) Begin(m Mark, s Standing, guilty func(Mark) bool) error {
	trusted := s == Trusted || s == LastResort
	if err := b.elsewhere(m, s, trusted, guilty); err != nil {
		return err
	}
	at, passed := b.passed(m.Subject)
	if i := b.suspect(m.Subject); i >= 0 {
		// Invariant M13 (host/SECURITY.md): nobody runs a suspect until it is pardoned; a trusted one
		// runs once more, on trial, after EndsPeriod.
		found := b.Suspects[i]
		last := s == LastResort && found.Ends == 0
		if s != Pardoned && !last && (found.Ends == 0 || m.Since.Sub(found.Found).Abs() < EndsPeriod) {
			return &found
		}
		b.Pardon(m.Subject)
		passed, trusted = false, last
	}
	run := slices.ContainsFunc(b.Marks, func(x Mark) bool { return x.Subject == m.Subject && x.Manager != m.Manager })
	// Invariant M14 (host/SECURITY.md): a standby runs only subjects that have been kept for a
	// while.
	if settled := passed && m.Since.Sub(at).Abs() >= Settled; !settled && (s == Standby || s == Shared && passed && run) {
		return &Busy{"the leading manager has not tried it yet"}
	}
	switch {
	case passed:
		m.Kept = at
	case trusted: // kept so long ago that the book has forgotten it
		m.Kept = m.Since.Add(-Young)
	}
	m.Resumed = s == Resuming
	b.Marks = bounded(append(b.Marks, m))
	return nil
}

// elsewhere returns why the subject must wait for another manager that has it on trial.
func (b *Book) elsewhere(m Mark, s Standing, trusted bool, guilty func(Mark) bool) error {
	leads := s == Offered || s == Pardoned
	i := slices.IndexFunc(b.Marks, func(x Mark) bool {
		return x.Subject == m.Subject && x.onTrial() && x.Manager != m.Manager && (!leads || !x.Resumed)
	})
	if i < 0 {
		return nil
	}
	switch other, gone := b.Marks[i], m.Since.Sub(b.Marks[i].Since) > abandoned; {
	case leads, s == Shared && gone:
		// Invariant M14 (host/SECURITY.md): a trial that another leader left behind has ended that
		// leader. A leader tries alone, and removes its marks at a regular end.
		if s != Pardoned && guilty(other) {
			b.accuse(other, m.Since, 0, "")
		}
		b.Strike(other.Manager, other.ID)
	case trusted && gone: // that manager never came back, and a good subject must not wait
	default:
		// Invariant M17 (host/SECURITY.md): while one manager tries a signer, the others wait.
		return &Busy{"the manager " + other.Manager + " is trying it"}
	}
	return nil
}

// passed returns when a subject was kept.
func (b *Book) passed(s Subject) (at time.Time, ok bool) {
	if i := slices.IndexFunc(b.Passed, func(x Event) bool { return x.Subject == s }); i >= 0 {
		return b.Passed[i].At, true
	}
	return time.Time{}, false
}

func (b *Book) suspect(s Subject) int {
	return slices.IndexFunc(b.Suspects, func(x Suspect) bool { return x.Subject == s })
}

func (b *Book) accuse(m Mark, found time.Time, ends int, words string) {
	b.Pardon(m.Subject)
	b.forget(m.Subject)
	b.Suspects = bounded(append(b.Suspects, Suspect{m, found, ends, words}))
}

func (b *Book) forget(s Subject) {
	b.Passed = slices.DeleteFunc(b.Passed, func(x Event) bool { return x.Subject == s })
}

// Pardon removes everything recorded against a subject.
func (b *Book) Pardon(s Subject) {
	b.Suspects = slices.DeleteFunc(b.Suspects, func(x Suspect) bool { return x.Subject == s })
	b.Ends = slices.DeleteFunc(b.Ends, func(x Event) bool { return x.Subject == s })
}

// Reach records a phase. Kept ends the trial well: others may run the subject. A subject
// kept before keeps its date.
func (b *Book) Reach(manager string, id int64, phase string, now time.Time) {
	i := slices.IndexFunc(b.Marks, func(x Mark) bool { return x.Manager == manager && x.ID == id })
	switch {
	case i < 0: // somebody has removed it
	case phase == Ended:
		b.Strike(manager, id)
	case phase != Kept:
		b.Marks[i].Phase = phase
	default:
		m := &b.Marks[i]
		if m.onTrial() {
			m.Kept = now
		}
		b.forget(m.Subject)
		b.Passed = bounded(append(b.Passed, Event{Subject: m.Subject, At: m.Kept}))
	}
}

// Strike removes a mark: nothing of the attempt runs any more.
func (b *Book) Strike(manager string, id int64) {
	b.Marks = slices.DeleteFunc(b.Marks, func(x Mark) bool { return x.Manager == manager && x.ID == id })
}

// Leave removes all marks of a manager that ends regularly.
func (b *Book) Leave(manager string) {
	b.Marks = slices.DeleteFunc(b.Marks, func(x Mark) bool { return x.Manager == manager })
}

// Forget removes the marks of all managers whose ServiceAccount was deleted and created
// again: the manager was uninstalled, which took their rights before they ended, so nobody
// knows how they ended.
func (b *Book) Forget(now Account) {
	// Invariant M16 (host/SECURITY.md): no module can create a ServiceAccount again. A manager
	// with the old account can write nothing, so its marks stay unconfirmed.
	b.Marks = slices.DeleteFunc(b.Marks, func(m Mark) bool {
		before := m.Account
		return before.UID != "" && now.UID != "" && before.Name == now.Name && before.UID != now.UID
	})
}

// Left returns the marks that a manager left behind.
func (b *Book) Left(manager string) []Mark {
	return slices.DeleteFunc(slices.Clone(b.Marks), func(m Mark) bool { return m.Manager != manager })
}

// Newer reports whether the manager of a mark had a newer trial, even if that is blamed by
// now.
func (b *Book) Newer(m Mark, now time.Time) bool {
	newer := func(x Mark) bool { return x.Manager == m.Manager && x.ID > m.ID && x.onTrial() }
	return slices.ContainsFunc(b.Marks, newer) || slices.ContainsFunc(b.Suspects, func(s Suspect) bool {
		// Otherwise it belongs to another end: clocks differ by less, except one that was ahead
		// then.
		return newer(s.Mark) && s.Found.After(m.Since.Add(-abandoned)) && s.Found.Before(now.Add(abandoned))
	})
}

// Blame returns the one mark, out of all that a dead manager left in all books, that explains its
// end: the newest trial; else the last kept one, if less than Young ago; else the only one being
// loaded, or the only one. Of several older ones none is blamed, so that no provider can get
// another one refused.
func Blame(left []Mark, now time.Time) *Mark {
	which := func(of func(Mark) bool) []Mark {
		return slices.DeleteFunc(slices.Clone(left), func(m Mark) bool { return !of(m) })
	}
	for _, some := range [][]Mark{which(Mark.onTrial), which(func(m Mark) bool { return m.young(now) })} {
		if len(some) > 0 {
			newest := slices.MaxFunc(some, func(a, b Mark) int { return cmp.Or(a.Kept.Compare(b.Kept), cmp.Compare(a.ID, b.ID)) })
			return &newest
		}
	}
	// Invariant M17 (host/SECURITY.md): of several possible causes none is blamed.
	for _, some := range [][]Mark{which(func(m Mark) bool { return m.Phase != Running }), left} {
		if len(some) > 0 && !slices.ContainsFunc(some, func(m Mark) bool { return m.Subject != some[0].Subject }) {
			return &some[len(some)-1]
		}
	}
	return nil
}

// The phases beyond an attempt's progress: serving, kept, and ended.
const (
	Running = "Serving"
	Kept    = "Kept"
	Ended   = "Ended"
)

// Recover removes the marks of a manager that ended without a clean shutdown, and records
// its end with the blamed mark; nil: none explains it. Boot identifies the current uptime of
// the machine, words are others' words about the end.
func (b *Book) Recover(manager string, blamed *Mark, boot, words string, now time.Time) {
	// Also entries of a clock that was far ahead.
	b.Ends = slices.DeleteFunc(b.Ends, func(x Event) bool { return now.Sub(x.At).Abs() >= EndsPeriod })
	for _, m := range b.Left(manager) {
		switch {
		case blamed == nil || m.ID != blamed.ID || m.Subject != blamed.Subject:
		case !m.onTrial() && m.Boot != boot: // the machine ended, which a good subject cannot cause
		case m.young(now):
			b.accuse(m, now, 0, words)
		default:
			b.Ends = bounded(append(b.Ends, Event{m.Subject, manager, now}))
			// Per manager: a power cut ends all of them once.
			n := len(slices.DeleteFunc(slices.Clone(b.Ends), func(x Event) bool { return x.Subject != m.Subject || x.Manager != manager }))
			if n >= MostEnds {
				b.accuse(m, now, n, words)
			}
		}
	}
	b.Leave(manager)
}
