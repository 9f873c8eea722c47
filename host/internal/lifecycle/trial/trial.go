// Package trial records the bundles that may end a manager: the running ones,
// with their manager, and those that ended one. It decides, and writes nothing
// itself. A Book is the record as read. Each method changes it, and the caller
// writes it back before any other step.
package trial

import (
	"encoding/json"
	"fmt"
	"math"
	"time"
)

// Subject is what may end a manager: a module with its configuration, on an
// engine, or an image that is read. A configuration can make a good module hang; what an administrator
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
	// Image is the digest of an image that is about to be read, "" for a module.
	Image string `json:"image,omitempty"`
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
	// Pod names the manager's, in its own namespace, "" where it did not know.
	Pod string `json:"pod,omitempty"`
	// Boot names the time for which the manager's machine was up.
	Boot string `json:"boot,omitempty"`
	// Kept is when the subject was kept; zero: it is on trial.
	Kept time.Time `json:"kept,omitzero"`
	// Resumed: it served when a manager ended in order, and goes on in this one,
	// which may not lead.
	Resumed bool `json:"resumed,omitempty"`
	// Phase is the last one that it reached, "" before the first.
	Phase string    `json:"phase,omitempty"`
	Since time.Time `json:"since"`
}

// onTrial: nothing is known of it.
func (m Mark) onTrial() bool { return m.Kept.IsZero() }

// young: it was kept so lately that it is as likely as a trial to have ended a manager.
func (m Mark) young(now time.Time) bool { return m.onTrial() || now.Sub(m.Kept).Abs() < Young }

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
	// Ends is how often a manager ended with it, of late; 0 for one that was
	// young, of which once is enough.
	Ends int `json:"ends,omitempty"`
	// Words are what others know of the end, as the kubelet.
	Words string `json:"words,omitempty"`
}

// End is that of a manager while it ran a trusted subject.
type End struct {
	Subject
	Manager string    `json:"manager"`
	At      time.Time `json:"at"`
}

// Passed is a subject that was kept.
type Passed struct {
	Subject
	At time.Time `json:"at,omitzero"`
}

// Book is all of it, for one provider and its signers. The newest come last.
type Book struct {
	Marks    []Mark    `json:"marks,omitempty"`
	Suspects []Suspect `json:"suspects,omitempty"`
	// Passed are the subjects that were kept last.
	Passed []Passed `json:"passed,omitempty"`
	Ends   []End    `json:"ends,omitempty"`
}

const (
	// MostEnds within EndsPeriod make a suspect of a trusted subject. Two may
	// be a power cut and an OOM kill; the third in an hour is no accident.
	MostEnds = 3
	// EndsPeriod is how long an end is remembered.
	EndsPeriod = time.Hour
	// Young is what was kept for less than this: one end is enough to blame it.
	Young = 10 * time.Minute
	// Settled is how long a subject was kept before other managers run it: what
	// ends a manager in its first seconds then ends one.
	Settled = 20 * time.Second
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
	// Last is Kept, when there is nothing else: it runs also when one end was
	// blamed on it, but not after MostEnds.
	Last
	// Standby wants to be ready for what the leader has passed, and waits for it.
	Standby
	// Resumed served when a manager ended in order. One manager goes on with it, and
	// gives way to the one that leads.
	Resumed
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
	words := ""
	if s.Words != "" {
		words = "; " + s.Words
	}
	phase += words
	switch {
	case s.Image != "":
		return fmt.Sprintf("the manager %s ended while it read the image %s: begun at %s, found at %s%s", s.Manager, s.Image, s.Since.UTC().Format(time.RFC3339), s.Found.UTC().Format(time.RFC3339), words)
	case s.Ends > 0:
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
