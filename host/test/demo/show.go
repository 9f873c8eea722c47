package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/term"
)

// interval is how often the show looks for what it waits for.
const interval = 100 * time.Millisecond

// errEnded says that the manager has ended: nothing will happen any more.
var errEnded = errors.New("the manager has ended")

// show prints lines for people: plain ones, with colours on a terminal.
type show struct {
	out    io.Writer
	colour bool
	began  time.Time
}

func newShow(out *os.File) *show {
	colour := term.IsTerminal(int(out.Fd())) && os.Getenv("NO_COLOR") == ""
	return &show{out: out, colour: colour, began: time.Now()}
}

func (s *show) paint(code, text string) string {
	if !s.colour {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

// step announces what comes next.
func (s *show) step(format string, args ...any) {
	fmt.Fprintf(s.out, "\n%s\n", s.paint("1", "==> "+fmt.Sprintf(format, args...)))
}

// fact prints what has just been seen to be so.
func (s *show) fact(subject, text string) {
	at := fmt.Sprintf("%6.1fs", time.Since(s.began).Seconds())
	fmt.Fprintf(s.out, "%s  %s %-22s %s\n", s.paint("2", at), s.paint("32", "ok"), subject, text)
}

func (s *show) note(format string, args ...any) {
	fmt.Fprintf(s.out, format+"\n", args...)
}

// expectation is something that the show waits for.
type expectation struct {
	subject string
	// waiting says what is expected, for the error when it does not happen.
	waiting string
	// look returns what there is to tell once it is so, else "". errEnded ends
	// the wait; another error is looked past: the next look may do better.
	look func(context.Context) (string, error)
}

// expect prints every expectation as it comes true, in any order. Its error
// names the step and what did not happen within the limit.
func (s *show) expect(ctx context.Context, step string, limit time.Duration, expected []expectation) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		var pending []expectation
		var last error
		for _, e := range expected {
			text, err := e.look(ctx)
			if err == nil && text != "" {
				s.fact(e.subject, text)
				continue
			}
			pending = append(pending, e)
			if errors.Is(err, errEnded) {
				return fmt.Errorf("step %q: %w", step, err)
			}
			if err != nil {
				last = err
			}
		}
		if expected = pending; len(expected) == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return notHappened(ctx, step, limit, expected, last)
		case <-ticker.C:
		}
	}
}

func notHappened(ctx context.Context, step string, limit time.Duration, pending []expectation, last error) error {
	if errors.Is(context.Cause(ctx), context.Canceled) {
		return context.Canceled
	}
	var what []string
	for _, e := range pending {
		what = append(what, e.subject+": "+e.waiting)
	}
	err := fmt.Errorf("step %q: not within %s: %s", step, limit, strings.Join(what, "; "))
	if last != nil {
		err = fmt.Errorf("%w (last error: %w)", err, last)
	}
	return err
}
