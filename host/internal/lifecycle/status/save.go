package status

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"

	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/rollout"
	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/source"
)

// Save writes the record, and then each unsaved bundle of Saved into an unused set of ConfigMaps.
// Until then a restart begins with the next saved bundle. The error is ErrTooLarge for a bundle
// that does not fit; the rest is written. A bundle with ConfigPrivate removes the configurations
// of all older ones, and prevents their saving: they may be the same configuration, and public.
func (o *Object) Save(ctx context.Context, r rollout.Record, bundles []source.Bundle) error {
	o.recording.Lock()
	defer o.recording.Unlock()
	r = bounded(r)
	wanted, older := wantedOf(r, bundles)
	next, err := o.commit(ctx, func(current stored) (stored, error) {
		goes := func(x *index) bool { return !o.stays(x, r, wanted, older) }
		return stored{Record: r, Bundles: slices.DeleteFunc(slices.Clone(current.Bundles), goes)}, nil
	})
	var failed error
	for _, b := range wanted {
		if err != nil || next.index(b.Revision) != nil {
			continue
		}
		next, err = o.put(ctx, next, b)
		if errors.Is(err, ErrTooLarge) {
			failed, err = errors.Join(failed, err), nil
		}
	}
	if err == nil {
		o.hold(next)
	}
	// Invariant S11 (host/SECURITY.md): earlier saved copies are removed, too.
	if err == nil && slices.ContainsFunc(wanted, private) {
		err = o.clearBut(ctx, next)
	}
	return errors.Join(err, failed)
}

func private(b source.Bundle) bool { return b.ConfigPrivate }

// wantedOf returns the bundles to save, without those whose configuration must not be saved,
// and the revisions older than a private one.
func wantedOf(r rollout.Record, bundles []source.Bundle) (wanted []source.Bundle, older []string) {
	for _, s := range r.Saved {
		hidden := slices.ContainsFunc(wanted, private)
		if hidden {
			older = append(older, s.Revision)
		}
		i := slices.IndexFunc(bundles, func(b source.Bundle) bool { return b.Revision == s.Revision })
		if i >= 0 && (!hidden || bundles[i].ConfigPrivate || bundles[i].Config == nil) {
			wanted = append(wanted, bundles[i])
		}
	}
	return wanted, older
}

// stays: the saved bundle is still wanted, unchanged. A bundle that could not be read is
// written again if this manager has it; so is one that has become private.
func (o *Object) stays(x *index, r rollout.Record, wanted []source.Bundle, older []string) bool {
	o.mu.Lock()
	unread := o.unread[x.Revision]
	o.mu.Unlock()
	switch {
	case !slices.ContainsFunc(r.Saved, func(s rollout.Saved) bool { return s.Revision == x.Revision }):
		return false
	case slices.ContainsFunc(wanted, func(b source.Bundle) bool {
		return b.Revision == x.Revision && (unread || b.ConfigPrivate && !x.ConfigPrivate)
	}):
		return false
	}
	return x.Config == nil || !slices.Contains(older, x.Revision)
}

// put saves one bundle, and returns the record with it. The caller holds recording.
func (o *Object) put(ctx context.Context, now stored, bundle source.Bundle) (stored, error) {
	x, parts, err := o.packed(bundle)
	if err != nil {
		return now, err
	}
	x.Set = sets[slices.IndexFunc(sets[:], func(set string) bool {
		return !slices.ContainsFunc(now.Bundles, func(x *index) bool { return x.Set == set })
	})]
	for i, part := range parts {
		if err := o.writePart(ctx, partName(o.provider, x.Set, i), part); err != nil {
			return now, err
		}
	}
	same := func(a, b *index) bool { return reflect.DeepEqual(a, b) }
	next, err := o.commit(ctx, func(current stored) (stored, error) {
		if !slices.EqualFunc(current.Bundles, now.Bundles, same) {
			return stored{}, fmt.Errorf("ConfigMap %s: another manager has saved a bundle meanwhile; is there a second leader?", o.key(o.Name()))
		}
		return stored{Record: now.Record, Bundles: append(slices.Clone(now.Bundles), x)}, nil
	})
	if err == nil {
		o.mark(x.Revision, false)
	}
	return next, err
}

// mark records whether a saved bundle was unreadable.
func (o *Object) mark(revision string, unread bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if delete(o.unread, revision); unread {
		o.unread[revision] = true
	}
}
