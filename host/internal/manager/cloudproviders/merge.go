package cloudproviders

import (
	"cmp"
	"errors"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/wasm-ccm/wasm-ccm/host/config/v1alpha1"
	"github.com/wasm-ccm/wasm-ccm/host/internal/config/validation"
)

// Reasons why an object is not in force in its present form.
const (
	reasonInvalid = "Invalid"
	// reasonNameTaken: the file of --config has a provider of this name.
	reasonNameTaken = "NameTaken"
	// reasonNotApplied: the object is valid; the manager tries again.
	reasonNotApplied = "NotApplied"
)

// entry is an object in force, in its last valid form.
type entry struct {
	name       string
	uid        types.UID
	generation int64 // of that form
	provider   *v1alpha1.Provider
}

// verdict is why an object of that generation is not in force in its present
// form; without a reason it is.
type verdict struct {
	generation      int64
	reason, message string
}

// judged has the verdicts on the existing objects, by name.
type judged map[string]verdict

// merge returns the objects in force beside the providers of the file. An
// earlier object stays in its old form, unless it is gone or the file now makes
// the same claim: an object with a mistake changes nothing for any provider. Of
// new objects with the same claim the oldest wins.
func merge(file []v1alpha1.Provider, before []entry, objects []*unstructured.Unstructured) ([]entry, judged) {
	objects = slices.Clone(objects)
	slices.SortFunc(objects, func(a, b *unstructured.Unstructured) int {
		at, bt := a.GetCreationTimestamp(), b.GetCreationTimestamp()
		return cmp.Or(at.Compare(bt.Time), cmp.Compare(a.GetName(), b.GetName()))
	})
	now := among(file, slices.DeleteFunc(slices.Clone(before), func(e entry) bool {
		return !slices.ContainsFunc(objects, func(o *unstructured.Unstructured) bool { return o.GetUID() == e.uid })
	}))
	verdicts := judged{}
	for _, o := range objects {
		next, err := judge(file, now, o)
		v := verdict{generation: o.GetGeneration()}
		switch {
		case err == nil:
			now = next
		case errors.Is(err, errNameTaken):
			v.reason, v.message = reasonNameTaken, err.Error()
		default:
			v.reason, v.message = reasonInvalid, err.Error()
		}
		verdicts[o.GetName()] = v
	}
	return now, verdicts
}

// among returns the entries that are compatible with the providers of a file.
func among(file []v1alpha1.Provider, entries []entry) (now []entry) {
	for _, e := range entries {
		if !has(file, e.name) && len(validation.ValidateAmong(e.provider, others(file, now, e.name))) == 0 {
			now = append(now, e)
		}
	}
	return now
}

var errNameTaken = errors.New("the HostConfiguration has a provider of this name, which is used: remove it there, or give this one another name")

// judge returns the entries with the object in its present form.
func judge(file []v1alpha1.Provider, now []entry, o *unstructured.Unstructured) ([]entry, error) {
	e := entry{name: o.GetName(), uid: o.GetUID(), generation: o.GetGeneration()}
	if has(file, e.name) {
		return nil, errNameTaken
	}
	at := slices.IndexFunc(now, func(other entry) bool { return other.name == e.name })
	if at >= 0 && now[at].uid == e.uid && now[at].generation == e.generation {
		return now, nil
	}
	spec, _, err := unstructured.NestedMap(o.Object, "spec")
	if err != nil {
		return nil, err
	}
	if e.provider, err = v1alpha1.DecodeSpec(e.name, spec); err != nil {
		return nil, err
	}
	// Invariant R14 (host/SECURITY.md): an object is judged as the file is, and
	// one that has a mistake, or claims what another has, changes nothing.
	if err := validation.ValidateAmong(e.provider, others(file, now, e.name)).ToAggregate(); err != nil {
		return nil, err
	}
	return put(now, e), nil
}

// put replaces the entry with the same name, or appends.
func put(entries []entry, e entry) []entry {
	entries = slices.Clone(entries)
	if at := slices.IndexFunc(entries, func(other entry) bool { return other.name == e.name }); at >= 0 {
		if equality.Semantic.DeepEqual(entries[at].provider, e.provider) {
			e.provider = entries[at].provider
		}
		entries[at] = e
		return entries
	}
	return append(entries, e)
}

// others are all providers without the named one.
func others(file []v1alpha1.Provider, entries []entry, name string) []v1alpha1.Provider {
	return slices.DeleteFunc(together(file, entries), func(p v1alpha1.Provider) bool { return p.Name == name })
}

// together are the providers of the file, followed by those of the objects.
func together(file []v1alpha1.Provider, entries []entry) []v1alpha1.Provider {
	all := slices.Clone(file)
	for _, e := range entries {
		all = append(all, *e.provider)
	}
	return all
}

func has(providers []v1alpha1.Provider, name string) bool {
	return slices.ContainsFunc(providers, func(p v1alpha1.Provider) bool { return p.Name == name })
}

// same reports whether two lists from put and among have the same providers.
func same(a, b []entry) bool {
	return slices.EqualFunc(a, b, func(x, y entry) bool { return x.provider == y.provider })
}

// find returns the entry of that name.
func find(entries []entry, name string) (entry, bool) {
	at := slices.IndexFunc(entries, func(e entry) bool { return e.name == name })
	if at < 0 {
		return entry{}, false
	}
	return entries[at], true
}
