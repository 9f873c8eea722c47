package trials

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/rollout"
	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/source"
	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/trial"
	"github.com/wasm-ccm/wasm-ccm/host/internal/report"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/engine"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/plugin"
	"github.com/wasm-ccm/wasm-ccm/host/internal/text"
)

// Of returns the trials of the provider itself, or of one of its signers.
func (b *Book) Of(signer string) rollout.Trials {
	return func(ctx context.Context, bundle source.Bundle, engineName string, standing trial.Standing) (rollout.Trial, error) {
		ctx, cancel := context.WithTimeout(ctx, beginTimeout)
		defer cancel()
		if signer != "" && standing != trial.Trusted && standing != trial.LastResort {
			standing = trial.Shared // every manager needs its signers, whether it leads or not
		}
		if engineName == engine.Default {
			engineName = "" // as in the marks of older managers
		}
		told, err := b.begin(ctx, trial.Subject{
			Provider: b.provider, Signer: signer, Module: bundle.ModuleDigest(), Config: bundle.ConfigDigest(), Engine: engineName,
		}, standing)
		if err == nil || trial.Decided(err) {
			return told, err
		}
		return nil, &plugin.LoadError{Phase: "mark", Reason: ReasonNotMarked, Err: fmt.Errorf(
			"no module is loaded before its trial is recorded, so that it cannot end the manager twice: %w", err)}
	}
}

// begin marks a subject.
func (b *Book) begin(ctx context.Context, s trial.Subject, standing trial.Standing) (rollout.Trial, error) {
	mark := trial.Mark{Subject: s, ID: b.attempt(), Manager: b.Manager, Pod: b.Pod, Boot: bootID(), Since: b.now()}
	told := func(p rollout.Phase) {
		now := b.now()
		b.note(func(book *trial.Book) { book.Reach(mark.Manager, mark.ID, string(p), now) })
	}
	err := b.change(ctx, func(book *trial.Book) error {
		mark.Account = b.account // which is known by now
		return book.Begin(mark, standing, func(m trial.Mark) bool { return b.guilty(ctx, m) })
	})
	if err != nil && !trial.Decided(err) {
		// The write may have succeeded with a late answer. Such a mark would
		// make others wait for it, and be blamed after the restart.
		told(rollout.Ended)
	}
	return told, b.remedied(err)
}

// remedied adds the operator's remedy for a signer or an image; of a module a rollout's report
// has it.
func (b *Book) remedied(err error) error {
	s, suspect := errors.AsType[*trial.Suspect](err)
	if !suspect || s.Signer == "" && s.Image == "" {
		return err
	}
	digest := text.Digest(cmp.Or(strings.TrimPrefix(s.Image, "sha256:"), s.Module))
	return fmt.Errorf("%w, or, if it was not at fault: %s", err, report.Promote(b.object.Namespace(), s.Provider, digest))
}

// now is the time in the format of books.
func (b *Book) now() time.Time { return time.Now().UTC().Truncate(time.Second) }

// ReasonNotMarked is for a module that was not loaded because its mark could
// not be written: otherwise it could end the manager unnoticed.
const ReasonNotMarked = report.ModuleNotMarked

// Pardon clears the record of a signer whose module has the digest in a
// promotion's argument, or of an image. What is the cleared subject, "" if
// there is none.
func (b *Book) Pardon(ctx context.Context, argument string) (what trial.Subject, err error) {
	argument = strings.TrimPrefix(argument, "sha256:")
	if len(argument) < rollout.LeastDigits {
		return trial.Subject{}, nil // the argument is no digest
	}
	ctx, cancel := context.WithTimeout(ctx, beginTimeout)
	defer cancel()
	err = b.change(ctx, func(book *trial.Book) error {
		i := slices.IndexFunc(book.Suspects, func(s trial.Suspect) bool {
			return s.Signer != "" && strings.HasPrefix(s.Module, argument) || strings.HasPrefix(s.Image, "sha256:"+argument)
		})
		if what = (trial.Subject{}); i >= 0 {
			what = book.Suspects[i].Subject
			book.Pardon(what)
		}
		return nil
	})
	return what, err
}

// Pulls records images before they are read, as modules are recorded before
// they are loaded. It is a source.Pulls.
type Pulls struct{ book *Book }

// Pulls returns the records of the provider itself.
func (b *Book) Pulls() Pulls { return Pulls{b} }

// pullRetry is the period of checks whether another manager has read an image.
const pullRetry = 2 * time.Second

// Begin implements source.Pulls. It waits while another manager reads the image
// for the first time.
func (p Pulls) Begin(ctx context.Context, image string) (done func(), err error) {
	var told rollout.Trial
	_ = wait.PollUntilContextCancel(ctx, pullRetry, true, func(waiting context.Context) (bool, error) {
		ctx, cancel := context.WithTimeout(waiting, beginTimeout)
		defer cancel()
		begun, failed := p.book.begin(ctx, trial.Subject{Provider: p.book.provider, Image: image}, trial.Shared)
		if failed != nil && err != nil && waiting.Err() != nil {
			return true, nil // the one it waited for says more than the end of the wait
		}
		told, err = begun, failed
		_, busy := errors.AsType[*trial.Busy](err)
		return !busy, nil
	})
	if err != nil {
		return nil, fmt.Errorf("an image is read only once that is recorded, and never if it has ended a manager: %w", err)
	}
	return func() { // the manager has survived it, with any result
		told(rollout.Kept)
		told(rollout.Ended)
	}, nil
}
