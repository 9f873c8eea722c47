package rollout

import (
	"context"
	"maps"
	"strings"

	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/source"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/engine"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/plugin"
)

// Revision names a generation by all that makes it. The zero Revision is that
// of none.
type Revision struct {
	// Module is the lowercase hex SHA-256 of the module.
	Module string
	// Bundle is the source's name of the module with its configuration.
	Bundle string
	// Terms are what the Loader adds: what the administrator allows.
	Terms string
}

func (r Revision) none() bool { return r == Revision{} }

// revisionSeparator stands between bundle and terms, for people. A bundle's
// name has none.
const revisionSeparator = "+"

// engineSeparator stands in terms before the engine, where another one than
// engine.Default runs the module.
const engineSeparator = "@"

// Terms are what a Loader's Revision returns: what the administrator allows, and
// the engine that runs the module.
func Terms(allowed, engineName string) string {
	if engineName == engine.Default {
		return allowed
	}
	return allowed + engineSeparator + engineName
}

// Engine is the name of the engine that runs it.
func (r Revision) Engine() string {
	if _, name, ok := strings.Cut(r.Terms, engineSeparator); ok {
		return name
	}
	return engine.Default
}

// String is what people see of it, and records keep.
func (r Revision) String() string {
	if r.Terms == "" {
		return r.Bundle
	}
	return r.Bundle + revisionSeparator + r.Terms
}

// ParseRevision is the opposite of String, with the module that String leaves
// out.
func ParseRevision(module, text string) Revision {
	bundle, terms, _ := strings.Cut(text, revisionSeparator)
	return Revision{Module: module, Bundle: bundle, Terms: terms}
}

// loaded is a generation with what it was made of, which is needed to keep it.
type loaded struct {
	*plugin.Generation
	revision Revision
	bundle   source.Bundle
	trial    Trial
	counted  plugin.Tally // what the history has of its calls
}

// loads are the generations that are loaded, one of each revision. What they
// are loaded for is for State to say, and for nobody else.
type loads map[Revision]*loaded

// add takes a generation over. One that is there already stays.
func (all loads) add(ctx context.Context, l *loaded) {
	if all[l.revision] != nil {
		l.Release(ctx)
		return
	}
	all[l.revision] = l
}

// collect gives up what State has no use for, and the candidate without, "" for
// none, unless it is something else as well.
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

// inSlot is what serves until another one is put there.
func (r *Rollout) inSlot() *loaded {
	now := r.options.Slot.Serving()
	for _, l := range r.loads {
		if l.Generation == now {
			return l
		}
	}
	return nil
}

// version describes a generation, nil where there is none.
func (l *loaded) version() *Version {
	if l == nil {
		return nil
	}
	return &Version{Name: l.Name(), Version: l.Version(), Digest: l.Digests().Module, ConfigDigest: configDigest(l.bundle), Revision: l.revision.String(), Image: l.bundle.Image, Engine: l.revision.Engine()}
}
