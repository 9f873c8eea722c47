package trials

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/rollout"
	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/source"
	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/status"
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

// suspected says what a person can do about a suspect, and when it is tried
// without one.
func (r runs) suspected(s *trial.Suspect) error {
	again, meanwhile := s.Again(r.clock.Now()), ""
	if again > 0 {
		meanwhile = fmt.Sprintf("; it is tried once more in %v", again.Round(time.Minute))
	}
	return &rollout.Suspected{Again: again, Err: fmt.Errorf("%w; offer another one, or, if it was not at fault, annotate ConfigMap %s with %s=%s%s",
		s, r.object.Name(), status.AnnotationPromote, text.Digest(s.Module), meanwhile)}
}

// Begin is rollout.Trials'.
func (r runs) Begin(ctx context.Context, bundle source.Bundle, engineName string, standing rollout.Standing) (rollout.Trial, error) {
	ctx, cancel := context.WithTimeout(ctx, beginTimeout)
	defer cancel()
	mark := trial.Mark{Subject: r.subject(bundle, engineName), ID: r.attempt(), Manager: r.manager, Since: r.clock.Now().UTC().Truncate(time.Second)}
	err := r.change(ctx, func(b *trial.Book) error {
		mark.Account = r.account // which is known by now
		return b.Begin(mark, r.standing(standing))
	})
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
		(&attempt{r.Book, mark.ID}).Ended()
		return nil, &plugin.LoadError{Phase: "mark", Reason: ReasonNotMarked, Err: fmt.Errorf(
			"no module is loaded before its trial is recorded, so that it cannot end the manager twice: %w", err)}
	}
	return &attempt{r.Book, mark.ID}, nil
}

// ReasonNotMarked is of a module that was not loaded, since nobody would know
// that it was when it ends the manager.
const ReasonNotMarked = "ModuleNotMarked"

// standing: every manager needs its signers, whether it leads or not.
func (r runs) standing(s rollout.Standing) trial.Standing {
	switch {
	case s == rollout.Trusted:
		return trial.Kept
	case r.signer != "":
		return trial.Shared
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

// PardonSigner forgets what is known against a signer whose module's digest is
// meant by the argument of a promotion. The name is "" when there is none.
func (b *Book) PardonSigner(ctx context.Context, argument string) (name string, err error) {
	argument = strings.TrimPrefix(argument, "sha256:")
	if len(argument) < rollout.LeastDigits {
		return "", nil // it is no digest
	}
	ctx, cancel := context.WithTimeout(ctx, beginTimeout)
	defer cancel()
	err = b.change(ctx, func(book *trial.Book) error {
		name = ""
		for _, s := range book.Suspects {
			if s.Signer != "" && strings.HasPrefix(s.Module, argument) {
				name = s.Signer
				book.Pardon(s.Subject)
				break
			}
		}
		return nil
	})
	return name, err
}
