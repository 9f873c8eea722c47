package rollout

import (
	"context"
	"maps"
	"strings"

	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/source"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/engine"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/plugin"
	"github.com/wasm-ccm/wasm-ccm/host/status/v1alpha1"
)

// Revision identifies a generation by all its inputs. The zero Revision means none.
type Revision struct {
	// Module is the lowercase hex SHA-256 of the module.
	Module string
	// Bundle is the source's name for the module with its configuration.
	Bundle string
	// Terms are the Loader's inputs: the administrator's grants.
	Terms string
}

func (r Revision) none() bool { return r == Revision{} }

// revisionSeparator separates bundle and terms, for people. It never occurs in a bundle's
// name.
const revisionSeparator = "+"

// engineSeparator precedes the engine in terms, unless it is engine.Default.
const engineSeparator = "@"

// Terms combines a Loader's Revision: the administrator's grants, and the module's engine.
func Terms(allowed, engineName string) string {
	if engineName == engine.Default {
		return allowed
	}
	return allowed + engineSeparator + engineName
}

// Engine is the name of the generation's engine.
func (r Revision) Engine() string {
	if _, name, ok := strings.Cut(r.Terms, engineSeparator); ok {
		return name
	}
	return engine.Default
}

// String is the form for people and records.
func (r Revision) String() string {
	if r.Terms == "" {
		return r.Bundle
	}
	return r.Bundle + revisionSeparator + r.Terms
}

// ParseRevision reverses String; the module, which String omits, is given.
func ParseRevision(module, text string) Revision {
	bundle, terms, _ := strings.Cut(text, revisionSeparator)
	return Revision{Module: module, Bundle: bundle, Terms: terms}
}

// loaded is a generation with the inputs needed to save it.
type loaded struct {
	*plugin.Generation
	revision Revision
	bundle   source.Bundle
	trial    Trial
	counted  plugin.Tally // its calls already in the history
}

// loads are the loaded generations, one for each revision. Only State knows their roles.
type loads map[Revision]*loaded

// add takes a generation over. An existing one of its revision stays.
func (all loads) add(ctx context.Context, l *loaded) {
	if all[l.revision] != nil {
		l.Release(ctx)
		return
	}
	all[l.revision] = l
}

// collect releases generations that State no longer uses, and the candidate without ("" for
// none), unless it has another role as well.
func (r *Rollout) collect(ctx context.Context, without Revision) {
	s := &r.state
	maps.DeleteFunc(r.loads, func(revision Revision, l *loaded) bool {
		switch revision {
		case s.Serving, s.Good, s.Previous:
			return false
		case s.Candidate:
			if revision != without {
				return false
			}
		}
		l.Release(ctx)
		return true
	})
}

func (r *Rollout) candidate() *loaded { return r.loads[r.state.Candidate] }
func (r *Rollout) serving() *loaded   { return r.loads[r.state.Serving] }
func (r *Rollout) good() *loaded      { return r.loads[r.state.Good] }

// inSlot is the serving generation.
func (r *Rollout) inSlot() *loaded {
	now := r.options.Slot.Serving()
	for _, l := range r.loads {
		if l.Generation == now {
			return l
		}
	}
	return nil
}

// version describes a generation; nil for none.
func (l *loaded) version() *v1alpha1.Module {
	if l == nil {
		return nil
	}
	return &v1alpha1.Module{Name: l.Name(), Version: l.Version(), Digest: l.Digests().Module, ConfigDigest: configDigest(l.bundle), Revision: l.revision.String(), ImageDigest: l.bundle.Image, Engine: l.revision.Engine()}
}
