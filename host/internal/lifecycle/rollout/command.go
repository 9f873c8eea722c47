package rollout

import (
	"context"
	"fmt"
	"strings"
)

// maxCommands bounds the commands that wait for Run.
const maxCommands = 16

// The commands of a person.
const (
	CommandPause    = "Pause"
	CommandResume   = "Resume"
	CommandPromote  = "Promote"
	CommandRollback = "Rollback"
)

// LeastDigits of a digest say which module a promotion means.
const LeastDigits = 8

// Command is what a person wants of a rollout.
type Command struct {
	// Kind is one of the constants.
	Kind string
	// Argument of Promote is the beginning of the digest that is meant, with or
	// without "sha256:", so that nobody promotes what he has not seen; or "true".
	Argument string
	// By says who.
	By string
}

// Command hands over a command. It waits until this manager leads and knows
// what the one before has left. It never blocks; the error says that too many
// wait.
func (r *Rollout) Command(c Command) error {
	select {
	case r.commands <- c:
		return nil
	default:
		return fmt.Errorf("%d commands are waiting", maxCommands)
	}
}

func (r *Rollout) command(ctx context.Context, c Command) Action {
	action, err := r.obey(ctx, c)
	r.options.Reporter.Commanded(c, err)
	if err == nil {
		r.save()
		if action == Nothing {
			r.reportState()
		}
	}
	return action
}

func (r *Rollout) obey(ctx context.Context, c Command) (Action, error) {
	switch c.Kind {
	case CommandPause:
		r.state.Pause()
		return Nothing, nil
	case CommandResume:
		return r.state.Resume(), nil
	case CommandPromote:
		if err := r.meant(c.Argument); err != nil {
			return Nothing, err
		}
		return r.state.Promote()
	case CommandRollback:
		r.reach(ctx)
		action, err := r.state.Rollback(c.By)
		if err == nil {
			r.by = c.By
		}
		return action, err
	}
	return Nothing, fmt.Errorf("the command %q is not known", c.Kind)
}

// reach loads what was kept before what serves, where a restart has left it
// out.
func (r *Rollout) reach(ctx context.Context) {
	if r.state.Serving != r.state.Good || !r.state.Previous.none() {
		return
	}
	for _, s := range r.saved {
		if s.Revision == r.state.Serving.Bundle || !s.Kept {
			continue
		}
		if l, _ := r.revive(ctx, s, r.standingOf(s, Offered)); l != nil {
			r.state.Previous = l.revision
			return
		}
	}
}

// meant compares the argument of Promote with what the source holds.
func (r *Rollout) meant(argument string) error {
	digest := r.current.bundle.ModuleDigest()
	argument = strings.TrimPrefix(argument, "sha256:")
	switch {
	case argument == "true":
		return nil
	case len(argument) < LeastDigits:
		return fmt.Errorf("%q is no digest of at least %d digits, nor true", argument, LeastDigits)
	case !strings.HasPrefix(digest, argument):
		return fmt.Errorf("the source holds sha256:%s, not %s", digest, argument)
	}
	return nil
}

// reportState tells of a change that no phase stands for.
func (r *Rollout) reportState() {
	for _, l := range []*loaded{r.candidate(), r.serving()} {
		if l != nil {
			r.report(l.bundle, l)
			return
		}
	}
	r.report(r.current.bundle, nil)
}
