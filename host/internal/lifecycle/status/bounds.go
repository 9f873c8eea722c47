package status

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/wasm-ccm/wasm-ccm/host/internal/text"
)

// Limits, in bytes, at which others' texts are cut.
const (
	maxMessage    = 1 << 10
	maxText       = 256
	maxConditions = 16
	maxRefused    = 32
	maxHistory    = 32
)

// bounded returns a copy whose texts are lines within their limits.
func (s Status) bounded() Status {
	// Invariant M26 (host/SECURITY.md): no written text exceeds its limit or has control
	// characters.
	s.Phase, s.Reason, s.Message = text.Line(s.Phase, maxText), text.Line(s.Reason, maxText), text.Line(s.Message, maxMessage)
	s.Since = seconds(s.Since)
	s.Offered, s.Serving, s.Candidate, s.Good = s.Offered.bounded(), s.Serving.bounded(), s.Candidate.bounded(), s.Good.bounded()
	s.Providers = names(s.Providers)
	conditions := s.Conditions[:min(len(s.Conditions), maxConditions)]
	s.Conditions = make([]metav1.Condition, len(conditions))
	for i, c := range conditions {
		c.Type, c.Reason, c.Message = text.Line(c.Type, maxText), text.Line(c.Reason, maxText), text.Line(c.Message, maxMessage)
		s.Conditions[i] = c
	}
	return s
}

// bounded returns a copy.
func (v *Version) bounded() *Version {
	if v == nil {
		return nil
	}
	return &Version{
		Name: text.Line(v.Name, maxText), Version: text.Line(v.Version, maxText),
		Digest: text.Line(v.Digest, maxText), ConfigDigest: text.Line(v.ConfigDigest, maxText), Revision: text.Line(v.Revision, maxText),
		Image: text.Line(v.Image, maxText), Engine: text.Line(v.Engine, maxText),
	}
}

func (r Record) bounded() Record {
	r.Held = text.Line(r.Held, maxText)
	saved := r.Saved[:min(len(r.Saved), len(sets))]
	r.Saved = nil
	for _, s := range saved {
		r.Saved = append(r.Saved, Saved{*s.bounded(), s.Kept})
	}
	refused := r.Refused[:min(len(r.Refused), maxRefused)]
	r.Refused = make([]Refusal, len(refused))
	for i, f := range refused {
		r.Refused[i] = Refusal{
			Revision: text.Line(f.Revision, maxText), Scope: text.Line(f.Scope, maxText), Module: text.Line(f.Module, maxText), Phase: text.Line(f.Phase, maxText), Reason: text.Line(f.Reason, maxText),
			Message: text.Line(f.Message, maxMessage), Since: seconds(f.Since), Stands: f.Stands,
		}
	}
	history := r.History[:min(len(r.History), maxHistory)]
	r.History = nil
	for i := range history {
		r.History = append(r.History, history[i].bounded())
	}
	return r
}

// bounded returns a copy.
func (s Served) bounded() Served {
	s.Version = *s.Version.bounded()
	s.Offered, s.From, s.Until, s.Kept = seconds(s.Offered), seconds(s.From), seconds(s.Until), seconds(s.Kept)
	s.Calls, s.Failures, s.Questions = max(s.Calls, 0), max(s.Failures, 0), max(s.Questions, 0)
	s.Why, s.By = text.Line(s.Why, maxMessage), text.Line(s.By, maxText)
	return s
}

func seconds(t time.Time) time.Time {
	if t.IsZero() {
		return time.Time{}
	}
	return t.UTC().Truncate(time.Second)
}
