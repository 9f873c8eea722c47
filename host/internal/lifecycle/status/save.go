package status

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"

	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/source"
)

// Save writes the record, and then each of the bundles that is among Saved and
// not saved yet into a set of ConfigMaps that is not in use. Until then a manager begins with the
// next one that is saved. The error is ErrTooLarge when a bundle
// does not fit; all else is written. Of what is older than one with ConfigPrivate
// no configuration stays, and none is saved: it may be the same, and public.
func (o *Object) Save(ctx context.Context, r Record, bundles []source.Bundle) error {
	o.recording.Lock()
	defer o.recording.Unlock()
	r = r.bounded()
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
	// Invariant S11 (host/SECURITY.md): what was saved before goes, too.
	if err == nil && slices.ContainsFunc(wanted, private) {
		err = o.clearBut(ctx, next)
	}
	return errors.Join(err, failed)
}

func private(b source.Bundle) bool { return b.ConfigPrivate }

// wantedOf are the bundles that a record calls saved, without those whose
// configuration must not be, and the revisions that are older than a private one.
func wantedOf(r Record, bundles []source.Bundle) (wanted []source.Bundle, older []string) {
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

// stays: what is saved is still wanted, as it is. What this manager could not
// read is written anew, where it has it; so is what has become private.
func (o *Object) stays(x *index, r Record, wanted []source.Bundle, older []string) bool {
	o.mu.Lock()
	unread := o.unread[x.Revision]
	o.mu.Unlock()
	switch {
	case !slices.ContainsFunc(r.Saved, func(s Saved) bool { return s.Revision == x.Revision }):
		return false
	case slices.ContainsFunc(wanted, func(b source.Bundle) bool {
		return b.Revision == x.Revision && (unread || b.ConfigPrivate && !x.ConfigPrivate)
	}):
		return false
	}
	return x.Config == nil || !slices.Contains(older, x.Revision)
}

// put saves one bundle, and returns the record that knows it. It is called with
// recording.
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

// mark says whether a saved bundle could not be read.
func (o *Object) mark(revision string, unread bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if delete(o.unread, revision); unread {
		o.unread[revision] = true
	}
}
