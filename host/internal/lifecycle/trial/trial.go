// Package trial records the bundles that may end a manager: the running ones,
// with their manager, and those that ended one. It decides, and writes nothing
// itself. A Book is the record as read. Each method changes it, and the caller
// writes it back before any other step.
package trial

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"time"
)

// Subject is what may end a manager: a module with its configuration, on an
// engine. A configuration can make a good module hang; what an administrator
// grants, and the values of Secrets, do not count, since those change by themselves.
type Subject struct {
	// Provider is its configured name. Signer is that of the credential, ""
	// for the provider itself.
	Provider string `json:"provider"`
	Signer   string `json:"signer,omitempty"`
	// Module is the lowercase hex SHA-256, Config the source's name of the
	// configuration.
	Module string `json:"module"`
	Config string `json:"config"`
	// Engine is the name of the engine that runs it, "" for engine.Default.
	Engine string `json:"engine,omitempty"`
}

// Mark says that a manager runs a subject, or is about to.
type Mark struct {
	Subject
	// ID is the attempt's; no other mark of the same manager has it, also none
	// of the process before.
	ID      int64  `json:"id"`
	Manager string `json:"manager"`
	// Account is what the manager ran as.
	Account Account `json:"account,omitzero"`
	// Trusted: the subject has passed a trial before.
	Trusted bool `json:"trusted,omitempty"`
	// Phase is the last one that it reached, "" before the first.
	Phase string    `json:"phase,omitempty"`
	Since time.Time `json:"since"`
}

// Account is the ServiceAccount of a manager, the zero value where it has none.
type Account struct {
	Name string `json:"name,omitempty"`
	UID  string `json:"uid,omitempty"`
}

// madeAnew reports whether it is the same account, and another object.
func (a Account) madeAnew(now Account) bool {
	return a.UID != "" && now.UID != "" && a.Name == now.Name && a.UID != now.UID
}

// Suspect is a subject that nobody runs until a person wants it.
type Suspect struct {
	Subject
	Manager string    `json:"manager"`
	Phase   string    `json:"phase,omitempty"`
	Since   time.Time `json:"since"`
	Found   time.Time `json:"found"`
	// Ends is how often a manager ended with it, of late; 0 for one that was on
	// trial, of which once is enough.
	Ends int `json:"ends,omitempty"`
}

// End is that of a manager while it ran a trusted subject.
type End struct {
	Subject
	Manager string    `json:"manager"`
	At      time.Time `json:"at"`
}

// Book is all of it, for one provider and its signers. The newest come last.
type Book struct {
	Marks    []Mark    `json:"marks,omitempty"`
	Suspects []Suspect `json:"suspects,omitempty"`
	// Passed are the subjects that passed a trial last.
	Passed []Subject `json:"passed,omitempty"`
	Ends   []End     `json:"ends,omitempty"`
}

const (
	// MostEnds within EndsPeriod make a suspect of a trusted subject. Two may
	// be a power cut and an OOM kill; the third in an hour is no accident.
	MostEnds = 3
	// EndsPeriod is how long an end is remembered.
	EndsPeriod = time.Hour
	// abandoned is much longer than a manager tries a shared subject.
	abandoned = 10 * time.Minute
	// maxEntries bounds each list; the oldest are forgotten.
	maxEntries = 128
	// maxBytes bounds the text of a book that is read.
	maxBytes = 256 << 10
)

// Standing says why a subject is to be run.
type Standing int

// The standings.
const (
	// Offered, to the manager that leads. It is on trial.
	Offered Standing = iota
	// Pardoned is Offered, and a person wants it although it is a suspect.
	Pardoned
	// Kept was good before: it is trusted.
	Kept
	// Standby wants to be ready for what the leader has passed, and waits for it.
	Standby
	// Shared is run by every manager: on trial by one after the other, until
	// one has passed it.
	Shared
)

// Busy is the error of a subject that another manager has to pass first.
type Busy struct{ Manager string }

func (b *Busy) Error() string {
	if b.Manager == "" {
		return "the leading manager has not tried it yet"
	}
	return "the manager " + b.Manager + " is trying it"
}

// Error of a subject that nobody runs any more.
func (s *Suspect) Error() string {
	phase := "before its first phase"
	if s.Phase != "" {
		phase = "after the phase " + s.Phase
	}
	if s.Ends > 0 {
		return fmt.Sprintf("the manager %s ended %d times within %v while it ran this module and configuration, last on %s, %s",
			s.Manager, s.Ends, EndsPeriod, s.Found.UTC().Format(time.RFC3339), phase)
	}
	return fmt.Sprintf("the manager %s ended while it tried this module and configuration: begun at %s, %s, found at %s",
		s.Manager, s.Since.UTC().Format(time.RFC3339), phase, s.Found.UTC().Format(time.RFC3339))
}

// forever is the time of those that only a person lets be tried.
const forever = time.Duration(math.MaxInt64)

// Left is how long nobody runs the suspect yet: 0 when its time is over. One
// that was trusted may be tried again after EndsPeriod, since what ended its
// managers may have been something else, and nothing else may serve.
func (s *Suspect) Left(now time.Time) time.Duration {
	if s.Ends == 0 {
		return forever
	}
	return max(0, EndsPeriod-now.Sub(s.Found))
}

// Again is Left for who wants to come back: 0 when only a person helps.
func (s *Suspect) Again(now time.Time) time.Duration {
	if s.Ends == 0 {
		return 0
	}
	return max(s.Left(now), time.Second)
}

// Begin adds a mark, or returns a *Suspect or *Busy and may have changed the
// book all the same. Trusted of the mark is set.
func (b *Book) Begin(m Mark, s Standing) error {
	if s == Pardoned {
		b.Pardon(m.Subject)
	}
	if other := b.tried(m); other != nil && (s == Offered || s == Pardoned || s == Shared && m.Since.Sub(other.Since) > abandoned) {
		// Invariant M14 (host/SECURITY.md): what another leader has left on trial has ended it.
		// Who leads tries alone, and strikes out when it ends as it should.
		b.accuse(*other, m.Since, 0)
		b.Strike(other.Manager, other.ID)
	}
	// Invariant M13 (host/SECURITY.md): a suspect is run by nobody until it is pardoned; what was
	// trusted, once more and on trial, when its time is over.
	onTrial := s == Pardoned
	if i := b.suspect(m.Subject); i >= 0 {
		if found := b.Suspects[i]; found.Left(m.Since) != 0 {
			return &found
		}
		b.Pardon(m.Subject)
		onTrial = true
	}
	// Invariant M17 (host/SECURITY.md): while one manager tries a signer, the others wait.
	passed := slices.Contains(b.Passed, m.Subject)
	// Of a manager that never came back nobody waits with what was good.
	if other := b.tried(m); other != nil && (s != Kept || m.Since.Sub(other.Since) <= abandoned) {
		return &Busy{other.Manager}
	}
	// Invariant M14 (host/SECURITY.md): a standby runs only what has passed.
	if s == Standby && !passed {
		return &Busy{}
	}
	// A revision that has passed stays trusted when it is offered again: a
	// manager that could not keep it loads it again after each restart.
	m.Trusted = !onTrial && (s == Kept || passed)
	b.Marks = bounded(append(b.Marks, m))
	return nil
}

// tried is the mark of another manager that tries the same, or nil.
func (b *Book) tried(m Mark) *Mark {
	i := slices.IndexFunc(b.Marks, func(x Mark) bool { return x.Subject == m.Subject && !x.Trusted && x.Manager != m.Manager })
	if i < 0 {
		return nil
	}
	found := b.Marks[i]
	return &found
}

func (b *Book) suspect(s Subject) int {
	return slices.IndexFunc(b.Suspects, func(x Suspect) bool { return x.Subject == s })
}

func (b *Book) accuse(m Mark, found time.Time, ends int) {
	b.Pardon(m.Subject)
	b.Passed = slices.DeleteFunc(b.Passed, func(x Subject) bool { return x == m.Subject })
	b.Suspects = bounded(append(b.Suspects, Suspect{m.Subject, m.Manager, m.Phase, m.Since, found, ends}))
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

// Pass ends a trial well: the subject is trusted, and may be run by others.
func (b *Book) Pass(manager string, id int64) {
	if m := b.mark(manager, id); m != nil {
		m.Trusted = true
		b.Passed = slices.DeleteFunc(b.Passed, func(x Subject) bool { return x == m.Subject })
		b.Passed = bounded(append(b.Passed, m.Subject))
	}
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

// Blame returns the marks, out of all marks of a dead manager in all books,
// that explain its end: the marks on trial; else the only mark of a load; else
// the only mark. Among several trusted marks it blames none, so no provider can
// get another one refused.
func Blame(left []Mark) []Mark {
	trial := slices.DeleteFunc(slices.Clone(left), func(m Mark) bool { return m.Trusted })
	if len(trial) > 0 {
		return trial
	}
	// Invariant M17 (host/SECURITY.md): of several that may have been it, none is blamed.
	loading := slices.DeleteFunc(slices.Clone(left), func(m Mark) bool { return m.Phase == Running })
	for _, some := range [][]Mark{loading, left} {
		if len(some) > 0 && !slices.ContainsFunc(some, func(m Mark) bool { return m.Subject != some[0].Subject }) {
			return some[len(some)-1:]
		}
	}
	return nil
}

// Running is the phase of what serves.
const Running = "Serving"

// Recover removes the marks of a manager that ended without a clean shutdown,
// and records its end with the blamed marks.
func (b *Book) Recover(manager string, blamed []Mark, now time.Time) {
	// Also what was written down by a clock that was far ahead.
	b.Ends = slices.DeleteFunc(b.Ends, func(x End) bool { return now.Sub(x.At).Abs() >= EndsPeriod })
	for _, m := range b.Left(manager) {
		switch {
		case !slices.ContainsFunc(blamed, func(x Mark) bool { return x.ID == m.ID && x.Subject == m.Subject }):
		case !m.Trusted:
			b.accuse(m, now, 0)
		default:
			b.Ends = bounded(append(b.Ends, End{m.Subject, manager, now}))
			if n := b.ends(m.Subject, manager); n >= MostEnds {
				b.accuse(m, now, n)
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

func bounded[T any](list []T) []T { return list[max(0, len(list)-maxEntries):] }

// Decode reads a book; "" is an empty one. What cannot be read is an error:
// who cannot tell what is suspected must run nothing new.
func Decode(text string) (*Book, error) {
	b := &Book{}
	if text == "" {
		return b, nil
	}
	if len(text) > maxBytes {
		return nil, fmt.Errorf("it has more than %d bytes", maxBytes)
	}
	if err := json.Unmarshal([]byte(text), b); err != nil {
		return nil, err
	}
	b.Marks, b.Suspects, b.Passed, b.Ends = bounded(b.Marks), bounded(b.Suspects), bounded(b.Passed), bounded(b.Ends)
	return b, nil
}

// Encode is the opposite of Decode.
func (b *Book) Encode() (string, error) {
	text, err := json.Marshal(b)
	return string(text), err
}
