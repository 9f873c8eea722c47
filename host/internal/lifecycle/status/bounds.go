package status

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/rollout"
	"github.com/wasm-ccm/wasm-ccm/host/internal/text"
	"github.com/wasm-ccm/wasm-ccm/host/status/v1alpha1"
)

// Limits, in bytes, at which others' texts are cut.
const (
	maxMessage    = 1 << 10
	maxText       = 256
	maxConditions = 16
)

// bounded returns a copy of what a ConfigMap has, whose texts are lines within their limits.
func (s Status) bounded() Status {
	// Invariant M26 (host/SECURITY.md): no written text exceeds its limit or has control
	// characters.
	p := &s.Provider
	s.Name, s.Ops, s.Provider = "", nil, v1alpha1.Provider{
		Name: p.Name, Phase: text.Line(p.Phase, maxText), Reason: text.Line(p.Reason, maxText), Message: text.Line(p.Message, maxMessage),
		Since: metav1.NewTime(seconds(p.Since.Time)), Generation: p.Generation, Paused: p.Paused,
		Serving: boundedModule(p.Serving), Offered: boundedModule(p.Offered), Candidate: boundedModule(p.Candidate), Good: boundedModule(p.Good),
		Conditions: slices.Clone(p.Conditions[:min(len(p.Conditions), maxConditions)]),
	}
	for i := range s.Conditions {
		c := &s.Conditions[i]
		c.Type, c.Reason, c.Message = text.Line(c.Type, maxText), text.Line(c.Reason, maxText), text.Line(c.Message, maxMessage)
	}
	s.Providers = names(s.Providers)
	return s
}

// boundedModule returns a copy.
func boundedModule(m *v1alpha1.Module) *v1alpha1.Module {
	if m == nil {
		return nil
	}
	out := *m
	for _, s := range []*string{&out.Name, &out.Version, &out.Digest, &out.ConfigDigest, &out.Revision, &out.ImageDigest, &out.Engine} {
		*s = text.Line(*s, maxText)
	}
	return &out
}

// bounded returns a copy.
func bounded(r rollout.Record) rollout.Record {
	r.Held = text.Line(r.Held, maxText)
	r.Saved = slices.Clone(r.Saved[:min(len(r.Saved), len(sets))])
	for i := range r.Saved {
		r.Saved[i].Module = *boundedModule(&r.Saved[i].Module)
	}
	r.Refused = slices.Clone(r.Refused[max(0, len(r.Refused)-rollout.MaxRefused):])
	for i := range r.Refused {
		boundRefusal(&r.Refused[i])
	}
	r.History = slices.Clone(r.History[:min(len(r.History), rollout.MaxHistory)])
	for i := range r.History {
		boundServed(&r.History[i])
	}
	return r
}

func boundRefusal(f *rollout.Refusal) {
	f.Revision = rollout.ParseRevision(text.Line(f.Revision.Module, maxText), text.Line(f.Revision.String(), maxText))
	f.Scope, f.Phase = rollout.Scope(text.Line(string(f.Scope), maxText)), rollout.Phase(text.Line(string(f.Phase), maxText))
	f.Reason, f.Message = text.Line(f.Reason, maxText), text.Line(f.Message, maxMessage)
}

func boundServed(s *rollout.Served) {
	s.Module = *boundedModule(&s.Module)
	s.Offered, s.From, s.Until, s.Kept = seconds(s.Offered), seconds(s.From), seconds(s.Until), seconds(s.Kept)
	s.Calls, s.Failures, s.Questions = max(s.Calls, 0), max(s.Failures, 0), max(s.Questions, 0)
	s.Why, s.By = text.Line(s.Why, maxMessage), text.Line(s.By, maxText)
}

func seconds(t time.Time) time.Time {
	if t.IsZero() {
		return time.Time{}
	}
	return t.UTC().Truncate(time.Second)
}
