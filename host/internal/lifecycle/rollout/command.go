package rollout

import (
	"context"
	"fmt"
	"strings"

	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/trial"
)

// maxCommands bounds the commands that wait for Run.
const maxCommands = 16

// The commands of an operator.
const (
	CommandPause    = "Pause"
	CommandResume   = "Resume"
	CommandPromote  = "Promote"
	CommandRollback = "Rollback"
)

// LeastDigits is the shortest prefix of a digest that a promotion accepts.
const LeastDigits = 8

// Command is an operator's command about a rollout.
type Command struct {
	// Kind is one of the constants.
	Kind string
	// Argument of Promote is a prefix of the module's digest, with or without "sha256:", so that
	// nobody promotes a module unseen; or "true".
	Argument string
	// By names the operator.
	By string
}

// Command queues a command. It runs once this manager leads and has read the previous
// leader's record. It never blocks; the error says that the queue is full.
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

// reach loads the kept predecessor of the serving generation, if a restart has not loaded
// it.
func (r *Rollout) reach(ctx context.Context) {
	if r.state.Serving != r.state.Good || !r.state.Previous.none() {
		return
	}
	for _, s := range r.saved {
		if s.Revision == r.state.Serving.Bundle || !s.Kept {
			continue
		}
		if l, _ := r.revive(ctx, s, r.standingOf(s, trial.Offered)); l != nil {
			r.state.Previous = l.revision
			return
		}
	}
}

// meant compares the argument of Promote with the offered module.
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

// reportState reports a change without a phase of its own.
func (r *Rollout) reportState() {
	for _, l := range []*loaded{r.candidate(), r.serving()} {
		if l != nil {
			r.report(l.bundle, l)
			return
		}
	}
	r.report(r.current.bundle, nil)
}
