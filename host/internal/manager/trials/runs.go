package trials

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/rollout"
	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/source"
	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/trial"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/engine"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/plugin"
	"github.com/wasm-ccm/wasm-ccm/host/internal/text"
)

// Of returns the trials of the provider itself, or of one of its signers.
func (b *Book) Of(signer string) rollout.Trials { return runs{b, signer} }

// runs is a rollout.Trials.
type runs struct {
	*Book
	signer string
}

// suspected says when a suspect is tried without a person. Who tells of a rollout
// says what a person can do; of a signer nobody else tells.
func (r runs) suspected(s *trial.Suspect) error {
	again := s.Again(r.clock.Now())
	err := fmt.Errorf("%w; offer another one", s)
	if r.signer != "" {
		err = fmt.Errorf("%w; or, if it was not at fault: ccmctl rollout promote %s %s", err, r.provider, text.Digest(s.Module))
	}
	if again > 0 {
		err = fmt.Errorf("%w; it is tried once more in %v", err, again.Round(time.Minute))
	}
	return &rollout.Suspected{Again: again, Err: err}
}

// Begin is rollout.Trials'.
func (r runs) Begin(ctx context.Context, bundle source.Bundle, engineName string, standing rollout.Standing) (rollout.Trial, error) {
	ctx, cancel := context.WithTimeout(ctx, beginTimeout)
	defer cancel()
	id, err := r.begin(ctx, r.subject(bundle, engineName), r.standing(standing))
	var suspect *trial.Suspect
	var busy *trial.Busy
	switch {
	case errors.As(err, &suspect):
		return nil, r.suspected(suspect)
	case errors.As(err, &busy):
		return nil, fmt.Errorf("%w: %w", rollout.ErrTriedElsewhere, busy)
	case errors.Is(err, errEnds): // the next leader tries it
		return nil, fmt.Errorf("%w: %w", rollout.ErrTriedElsewhere, err)
	case err != nil:
		// It may be written all the same, when only the answer is late. Such a
		// mark would have others wait for it, and be blamed after the restart.
		(&attempt{r.Book, id}).Ended()
		return nil, &plugin.LoadError{Phase: "mark", Reason: ReasonNotMarked, Err: fmt.Errorf(
			"no module is loaded before its trial is recorded, so that it cannot end the manager twice: %w", err)}
	}
	return &attempt{r.Book, id}, nil
}

// begin marks a subject, and returns the number of the attempt.
func (b *Book) begin(ctx context.Context, s trial.Subject, standing trial.Standing) (int64, error) {
	mark := trial.Mark{Subject: s, ID: b.attempt(), Manager: b.manager, Pod: b.pod, Boot: bootID(), Since: b.now()}
	return mark.ID, b.change(ctx, func(book *trial.Book) error {
		mark.Account = b.account // which is known by now
		return book.Begin(mark, standing, func(m trial.Mark) bool { return b.guilty(ctx, m) })
	})
}

// now is the time as books have it.
func (b *Book) now() time.Time { return b.clock.Now().UTC().Truncate(time.Second) }

// ReasonNotMarked is of a module that was not loaded, since nobody would know
// that it was when it ends the manager.
const ReasonNotMarked = "ModuleNotMarked"

// standing: every manager needs its signers, whether it leads or not.
func (r runs) standing(s rollout.Standing) trial.Standing {
	switch {
	case s == rollout.Trusted:
		return trial.Kept
	case s == rollout.LastResort:
		return trial.Last
	case r.signer != "":
		return trial.Shared
	case s == rollout.Resuming:
		return trial.Resumed
	case s == rollout.Pardoned:
		return trial.Pardoned
	case s == rollout.Standby:
		return trial.Standby
	}
	return trial.Offered
}

func (r runs) subject(bundle source.Bundle, engineName string) trial.Subject {
	if engineName == engine.Default {
		engineName = "" // as managers of before have written it
	}
	return trial.Subject{Provider: r.provider, Signer: r.signer, Module: bundle.ModuleDigest(), Config: bundle.ConfigDigest(), Engine: engineName}
}

// Pardon forgets what is known against a signer whose module's digest is meant
// by the argument of a promotion, or against an image. What names it, and is ""
// when there is none.
func (b *Book) Pardon(ctx context.Context, argument string) (what trial.Subject, err error) {
	argument = strings.TrimPrefix(argument, "sha256:")
	if len(argument) < rollout.LeastDigits {
		return trial.Subject{}, nil // it is no digest
	}
	ctx, cancel := context.WithTimeout(ctx, beginTimeout)
	defer cancel()
	err = b.change(ctx, func(book *trial.Book) error {
		what = trial.Subject{}
		for _, s := range book.Suspects {
			if s.Signer != "" && strings.HasPrefix(s.Module, argument) || strings.HasPrefix(s.Image, "sha256:"+argument) {
				what = s.Subject
				book.Pardon(what)
				break
			}
		}
		return nil
	})
	return what, err
}
