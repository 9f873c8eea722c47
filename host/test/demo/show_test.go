package main

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"
)

// after answers text from the nth look on.
func after(n int, text string, before error) expectation {
	looks := 0
	return expectation{subject: "node a", waiting: "it is " + text, look: func(context.Context) (string, error) {
		if looks++; looks < n {
			return "", before
		}
		return text, nil
	}}
}

func TestExpectTellsEachFactOnce(t *testing.T) {
	var out strings.Builder
	s := &show{out: &out, began: time.Now()}
	err := s.expect(t.Context(), "a step", time.Minute, []expectation{
		after(1, "seen", nil), after(3, "late", nil), after(2, "recovered", errors.New("connection refused")),
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"seen", "late", "recovered"} {
		if n := strings.Count(out.String(), text); n != 1 {
			t.Errorf("%q is told %d times, want once:\n%s", text, n, &out)
		}
	}
	if strings.Contains(out.String(), "\x1b") {
		t.Errorf("colours without a terminal: %q", &out)
	}
}

func TestExpectNamesWhatDidNotHappen(t *testing.T) {
	s := &show{out: &strings.Builder{}, began: time.Now()}
	err := s.expect(t.Context(), "a step", time.Millisecond, []expectation{
		after(1, "seen", nil), after(1000, "missed", errors.New("connection refused")),
	})
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{`step "a step"`, "node a: it is missed", "connection refused"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is missing in %q", want, err)
		}
	}
	if strings.Contains(err.Error(), "seen") {
		t.Errorf("%q names what did happen", err)
	}
}

func TestExpectEndsWhenInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s := &show{out: &strings.Builder{}, began: time.Now()}
	err := s.expect(ctx, "a step", time.Minute, []expectation{after(1000, "missed", nil)})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("expect = %v, want canceled", err)
	}
}

func TestExpectEndsWithTheManager(t *testing.T) {
	s := &show{out: &strings.Builder{}, began: time.Now()}
	err := s.expect(t.Context(), "a step", time.Minute, []expectation{after(1000, "missed", errEnded)})
	if !errors.Is(err, errEnded) || !strings.Contains(err.Error(), "a step") {
		t.Errorf("expect = %v, want that the manager has ended, and the step", err)
	}
}
