// Package trial records the bundles that may end a manager: the running ones, with their
// manager, and those that ended one. It decides, and writes nothing itself. A Book is the
// record as read. Each method changes it, and the caller writes it back before any other
// step.
package trial

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// Subject is a possible cause of a manager's end: a module with its configuration, on an engine, or an
// image being read. A configuration can make a good module hang; grants and the values of Secrets do
// not count, since they change by themselves.
type Subject struct {
	// Provider is its configured name. Signer is the credential's name, "" for the provider
	// itself.
	Provider string `json:"provider"`
	Signer   string `json:"signer,omitempty"`
	// Module is the lowercase hex SHA-256, Config the source's name of the configuration.
	Module string `json:"module"`
	Config string `json:"config"`
	// Engine is the name of its engine, "" for engine.Default.
	Engine string `json:"engine,omitempty"`
	// Image is the digest of an image about to be read, "" for a module.
	Image string `json:"image,omitempty"`
}

// Mark records that a manager runs a subject, or is about to.
type Mark struct {
	Subject
	// ID identifies the attempt among all marks of the manager, including those of earlier
	// processes.
	ID      int64  `json:"id"`
	Manager string `json:"manager"`
	// Account is the manager's ServiceAccount.
	Account Account `json:"account,omitzero"`
	// Pod is the manager's, in its own namespace, "" if unknown.
	Pod string `json:"pod,omitempty"`
	// Boot identifies the uptime of the manager's machine.
	Boot string `json:"boot,omitempty"`
	// Kept is when the subject was kept; zero: it is on trial.
	Kept time.Time `json:"kept,omitzero"`
	// Resumed: it served when a manager ended regularly, and continues in this one, which may
	// not lead.
	Resumed bool `json:"resumed,omitempty"`
	// Phase is the last phase reached, "" before the first.
	Phase string    `json:"phase,omitempty"`
	Since time.Time `json:"since"`
}

// onTrial: not kept yet.
func (m Mark) onTrial() bool { return m.Kept.IsZero() }

// young: kept so recently that it is as likely a cause as a trial.
func (m Mark) young(now time.Time) bool { return m.onTrial() || now.Sub(m.Kept).Abs() < Young }

// Account is the ServiceAccount of a manager, the zero value for none.
type Account struct {
	Name string `json:"name,omitempty"`
	UID  string `json:"uid,omitempty"`
}

// Suspect is a subject that nobody runs before a pardon.
type Suspect struct {
	Mark            // the blamed mark
	Found time.Time `json:"found"`
	// Ends counts recent ends of managers with it; 0 for a young one, for which one is enough.
	Ends int `json:"ends,omitempty"`
	// Words are others' words about the end, such as the kubelet's.
	Words string `json:"words,omitempty"`
}

// Event is a subject's success or failure: it was kept, or a manager ended with it.
type Event struct {
	Subject
	Manager string    `json:"manager,omitempty"` // that ended
	At      time.Time `json:"at,omitzero"`
}

// Book is the whole record of one provider and its signers. The newest entries are last.
type Book struct {
	Marks    []Mark    `json:"marks,omitempty"`
	Suspects []Suspect `json:"suspects,omitempty"`
	// Passed are the last kept subjects, Ends the ends with trusted ones.
	Passed []Event `json:"passed,omitempty"`
	Ends   []Event `json:"ends,omitempty"`
}

const (
	// MostEnds within EndsPeriod make a trusted subject a suspect. Two may be a power cut and an
	// OOM kill; the third in an hour is no accident.
	MostEnds = 3
	// EndsPeriod is how long an end is remembered.
	EndsPeriod = time.Hour
	// Young is the age up to which one end is enough to blame a kept subject.
	Young = 10 * time.Minute
	// Settled is how long a subject was kept before other managers run it: a fault in its first
	// seconds then ends only one manager.
	Settled = 20 * time.Second
	// abandoned is much longer than a trial of a shared subject takes.
	abandoned = 10 * time.Minute
	// maxEntries bounds each list; the oldest are forgotten.
	maxEntries = 96
	// maxBytes bounds the text of a book that is read.
	maxBytes = 256 << 10
)

// Standing is why a subject should run.
type Standing int

// The standings.
const (
	// Offered, to the leader. It is on trial.
	Offered Standing = iota
	// Pardoned is Offered, by an operator's wish although it is a suspect.
	Pardoned
	// Trusted was kept before.
	Trusted
	// LastResort is Trusted without an alternative, or already serving: it runs also after one
	// end was blamed on it, but not after MostEnds.
	LastResort
	// Standby waits for the leader to pass the subject, to have it ready.
	Standby
	// Resuming served when a manager ended regularly. One manager continues with it, and gives
	// way to the leader.
	Resuming
	// Shared is run by every manager: on trial by one after the other, until one has passed it.
	Shared
)

// Busy is the error of a subject that another manager must pass first.
type Busy struct{ Why string }

func (b *Busy) Error() string { return "waiting for another manager: " + b.Why }

// Decided distinguishes a book's answer from a failure to read or write it.
func Decided(err error) bool {
	_, suspect := errors.AsType[*Suspect](err)
	_, busy := errors.AsType[*Busy](err)
	return suspect || busy
}

// Error of a blocked subject. The operator's remedy is added by whoever knows the manager's
// namespace.
func (s *Suspect) Error() string {
	times, did := "", "tried this module and configuration"
	switch {
	case s.Image != "":
		did = "read the image " + s.Image
	case s.Ends > 0:
		times, did = fmt.Sprintf(" %d times within %v", s.Ends, EndsPeriod), "ran this module and configuration"
	}
	out := fmt.Sprintf("the manager %s ended%s while it %s: begun at %s, after the phase %s, found at %s",
		s.Manager, times, did, s.Since.UTC().Format(time.RFC3339), cmp.Or(s.Phase, "none"), s.Found.UTC().Format(time.RFC3339))
	if s.Words != "" {
		out += "; " + s.Words
	}
	if s.Ends > 0 {
		out += "; it is tried once more after " + s.Found.Add(EndsPeriod).UTC().Format(time.RFC3339)
	}
	return out + "; offer another one"
}

// Again is how long the suspect stays blocked: 0 if only an operator can release it. A
// trusted one may be tried again after EndsPeriod, since its managers may have ended for
// another reason, and nothing else may serve.
func (s *Suspect) Again(now time.Time) time.Duration {
	if s.Ends == 0 {
		return 0
	}
	return max(EndsPeriod-now.Sub(s.Found).Abs(), time.Second)
}

func bounded[T any](list []T) []T { return list[max(0, len(list)-maxEntries):] }

// Decode reads a book; "" is an empty one. An unreadable book is an error: without the
// suspects nothing new may run.
func Decode(written string) (*Book, error) {
	b := &Book{}
	if written == "" {
		return b, nil
	}
	if len(written) > maxBytes {
		return nil, fmt.Errorf("it has more than %d bytes", maxBytes)
	}
	if err := json.Unmarshal([]byte(written), b); err != nil {
		return nil, err
	}
	b.Marks, b.Suspects, b.Passed, b.Ends = bounded(b.Marks), bounded(b.Suspects), bounded(b.Passed), bounded(b.Ends)
	return b, nil
}

// Encode reverses Decode.
func (b *Book) Encode() (string, error) {
	written, err := json.Marshal(b)
	return string(written), err
}
