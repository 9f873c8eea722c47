package status

import (
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// What others influence is cut at these, in bytes.
const (
	maxMessage    = 1 << 10
	maxText       = 256
	maxConditions = 16
	maxRefused    = 32
	maxLabel      = 63
)

func (s Status) bounded() Status {
	s.Phase, s.Reason, s.Message = cut(s.Phase, maxText), cut(s.Reason, maxText), cut(s.Message, maxMessage)
	s.Since = seconds(s.Since)
	s.Offered, s.Serving, s.Candidate, s.Good = s.Offered.bounded(), s.Serving.bounded(), s.Candidate.bounded(), s.Good.bounded()
	s.Providers = names(s.Providers)
	conditions := s.Conditions[:min(len(s.Conditions), maxConditions)]
	s.Conditions = make([]metav1.Condition, len(conditions))
	for i, c := range conditions {
		c.Type, c.Reason, c.Message = cut(c.Type, maxText), cut(c.Reason, maxText), cut(c.Message, maxMessage)
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
		Name: cut(v.Name, maxText), Version: cut(v.Version, maxText),
		Digest: cut(v.Digest, maxText), ConfigDigest: cut(v.ConfigDigest, maxText), Revision: cut(v.Revision, maxText),
	}
}

func (r Record) bounded() Record {
	r.Good = r.Good.bounded()
	refused := r.Refused[:min(len(r.Refused), maxRefused)]
	r.Refused = make([]Refusal, len(refused))
	for i, f := range refused {
		r.Refused[i] = Refusal{
			Revision: cut(f.Revision, maxText), Scope: cut(f.Scope, maxText), Module: cut(f.Module, maxText), Phase: cut(f.Phase, maxText), Reason: cut(f.Reason, maxText),
			Message: cut(f.Message, maxMessage), Since: seconds(f.Since),
		}
	}
	return r
}

func seconds(t time.Time) time.Time {
	if t.IsZero() {
		return time.Time{}
	}
	return t.UTC().Truncate(time.Second)
}

// cut bounds a text, but not within a character. What the API server refuses,
// or a terminal obeys, is replaced.
func cut(text string, most int) string {
	// Invariant M26 (host/SECURITY.md): no text is written that is longer, or has control
	// characters.
	text = text[:min(len(text), most+utf8.UTFMax)] // the rest need not be looked at
	text = strings.Map(printable, strings.ToValidUTF8(text, "?"))
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most-3], "") + "..."
}

func printable(r rune) rune {
	if unicode.IsPrint(r) || r == '\n' || r == '\t' {
		return r
	}
	return '?'
}

// label makes a value of a label of a text: what is not allowed in one becomes
// a hyphen, and what is too long is cut.
func label(text string) string {
	allowed := func(r rune) rune {
		if alphanumeric(r) || strings.ContainsRune("-_.", r) {
			return r
		}
		return '-'
	}
	text = strings.Map(allowed, text)
	text = text[:min(len(text), maxLabel)]
	return strings.TrimFunc(text, func(r rune) bool { return !alphanumeric(r) })
}

func alphanumeric(r rune) bool {
	return r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
}
