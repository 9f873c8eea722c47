package rollout

import (
	"context"
	"slices"
	"time"

	"github.com/wasm-ccm/wasm-ccm/host/plugin"
	"github.com/wasm-ccm/wasm-ccm/host/source"
)

// loaded is a generation with what it was made of, which is needed to keep it.
type loaded struct {
	*plugin.Generation
	revision string
	bundle   source.Bundle
	trial    Trial
	served   time.Time // when it was swapped in last
}

// roles says what the generations that are loaded are loaded for. One may have
// several roles; one without is given up by collect.
type roles struct {
	candidate, serving, good, previous *loaded
	all                                []*loaded
}

func (r *roles) add(l *loaded) { r.all = append(r.all, l) }

func (r *roles) collect(ctx context.Context) {
	r.all = slices.DeleteFunc(r.all, func(l *loaded) bool {
		if l == r.candidate || l == r.serving || l == r.good || l == r.previous {
			return false
		}
		l.Release(ctx)
		return true
	})
}

// version describes a generation, nil where there is none.
func (l *loaded) version() *Version {
	if l == nil {
		return nil
	}
	d := l.Digests()
	return &Version{Name: l.Name(), Version: l.Version(), Digest: d.Module, ConfigDigest: d.Config, Revision: l.revision}
}
