package cloudproviders

import (
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/wasm-ccm/wasm-ccm/host/config/v1alpha1"
	"github.com/wasm-ccm/wasm-ccm/host/internal/config/validation"
)

// made returns an object as on the API server, created so many seconds after
// the others. A change has another generation.
func made(t testing.TB, name string, after int, generation int64, spec string) *unstructured.Unstructured {
	t.Helper()
	u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": v1alpha1.APIVersion, "kind": v1alpha1.CloudProviderKind}}
	var fields map[string]any
	if err := yaml.Unmarshal([]byte(spec), &fields); err != nil {
		t.Fatal(err)
	}
	u.Object["spec"] = fields
	u.SetName(name)
	u.SetUID(types.UID(name + fmt.Sprint(after)))
	u.SetGeneration(generation)
	u.SetCreationTimestamp(metav1.NewTime(time.Unix(int64(1e9+after), 0)))
	return u
}

func file(t testing.TB, providers string) *v1alpha1.HostConfiguration {
	t.Helper()
	c, err := validation.Decode([]byte("apiVersion: config.wasm-ccm.dev/v1alpha1\nkind: HostConfiguration\ncloudProviders: {enabled: true}\nproviders: " + providers))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

const ofFile = "[{name: file, store: file, source: {directory: /file}}]"

// inForce lists names and directories of the sources.
func inForce(entries []entry) string {
	var all []string
	for _, e := range entries {
		all = append(all, e.name+e.provider.Source.Directory)
	}
	return strings.Join(all, " ")
}

func spec(store, directory string) string {
	return "{store: " + store + ", source: {directory: " + directory + "}}"
}

func TestMerge(t *testing.T) {
	f := file(t, ofFile).Providers
	one := made(t, "one", 1, 1, spec("one", "/1"))
	two := made(t, "two", 2, 1, spec("two", "/2"))
	first, _ := merge(f, nil, []*unstructured.Unstructured{two, one})
	if got := inForce(first); got != "one/1 two/2" {
		t.Fatalf("in force: %s", got)
	}
	for name, test := range map[string]struct {
		file     string
		objects  []*unstructured.Unstructured
		want     string
		verdicts map[string]string
	}{
		"nothing new":     {ofFile, []*unstructured.Unstructured{one, two}, "one/1 two/2", nil},
		"one is gone":     {ofFile, []*unstructured.Unstructured{two}, "two/2", nil},
		"one has changed": {ofFile, []*unstructured.Unstructured{made(t, "one", 1, 2, spec("one", "/new")), two}, "one/new two/2", nil},
		"one is misspelt": {ofFile, []*unstructured.Unstructured{made(t, "one", 1, 2, "{store: one, source: {directory: /new}, provenanse: {}}"), two}, "one/1 two/2", map[string]string{"one": `Invalid: unknown field "spec.provenanse"`}},
		"one is of another type": {ofFile, []*unstructured.Unstructured{made(t, "one", 1, 2, "{store: one, source: {directory: /new}, ops: {timeout: 3}}"), two}, "one/1 two/2",
			map[string]string{"one": "Invalid: spec.ops.timeout: must be"}},
		"one is invalid":   {ofFile, []*unstructured.Unstructured{made(t, "one", 1, 2, spec("one", "relative")), two}, "one/1 two/2", map[string]string{"one": "Invalid: spec.source.directory: Invalid value"}},
		"one has a name":   {ofFile, []*unstructured.Unstructured{made(t, "one", 1, 2, "{name: two, source: {directory: /new}}"), two}, "one/1 two/2", map[string]string{"one": "Invalid: spec.name: the object's name is the provider's name"}},
		"the older claims": {ofFile, []*unstructured.Unstructured{made(t, "one", 1, 2, spec("two", "/new")), two}, "one/1 two/2", map[string]string{"one": `Invalid: spec.store: Duplicate value: "two": it is that of providers[two].store`}},
		"both change over": {ofFile, []*unstructured.Unstructured{made(t, "one", 1, 2, spec("two", "/1")), made(t, "two", 2, 2, spec("one", "/2"))}, "one/1 two/2",
			map[string]string{"one": "Invalid: spec.store: Duplicate value", "two": "Invalid: spec.store: Duplicate value"}},
		"new, without a store":             {ofFile, []*unstructured.Unstructured{one, two, made(t, "new", 3, 1, "{source: {directory: /new}}")}, "one/1 two/2", map[string]string{"new": "Invalid: spec.store: Required value"}},
		"new, the same name":               {ofFile, []*unstructured.Unstructured{one, two, made(t, "file", 3, 1, spec("new", "/new"))}, "one/1 two/2", map[string]string{"file": "NameTaken: the HostConfiguration has a provider of this name, which is used"}},
		"made anew, and invalid":           {ofFile, []*unstructured.Unstructured{made(t, "one", 9, 1, spec("two", "/new")), two}, "two/2", map[string]string{"one": "Invalid: spec.store: Duplicate value"}},
		"the file comes to have it":        {"[{name: one, store: file, source: {directory: /file}}]", []*unstructured.Unstructured{one, two}, "two/2", map[string]string{"one": "NameTaken"}},
		"the file comes to claim it":       {"[{name: file, store: two, source: {directory: /file}}]", []*unstructured.Unstructured{one, two}, "one/1", map[string]string{"two": "Invalid: spec.store: Duplicate value"}},
		"the file lacks what several need": {"[{name: file, source: {directory: /file}}]", []*unstructured.Unstructured{one}, "", map[string]string{"one": "Invalid: providers[file].store: Required value"}},
	} {
		t.Run(name, func(t *testing.T) {
			now, verdicts := merge(file(t, test.file).Providers, first, test.objects)
			if got := inForce(now); got != test.want {
				t.Errorf("in force: %s, want %s", got, test.want)
			}
			for _, o := range test.objects {
				v, want := verdicts[o.GetName()], test.verdicts[o.GetName()]
				if got := v.reason + ": " + v.message; !strings.HasPrefix(got, want) || want == "" && v.reason != "" || v.generation != o.GetGeneration() {
					t.Errorf("%s: %s, want %s", o.GetName(), got, want)
				}
			}
		})
	}
}

// There are at most 16 providers, and the oldest stay.
func TestMergeIsBounded(t *testing.T) {
	var objects []*unstructured.Unstructured
	for i := range 20 {
		name := fmt.Sprintf("p%02d", i)
		objects = append(objects, made(t, name, i, 1, spec(name, "/"+name)))
	}
	now, verdicts := merge(file(t, ofFile).Providers, nil, objects)
	if len(now) != 15 || now[0].name != "p00" || verdicts["p14"].reason != "" || !strings.Contains(verdicts["p15"].message, "providers: Too many: 17: must have at most 16 items") {
		t.Errorf("%s; %v", inForce(now), verdicts["p15"])
	}
	large := made(t, "large", 0, 1, "{store: large, source: {directory: /large}}")
	large.Object["spec"].(map[string]any)["limits"] = map[string]any{"memory": strings.Repeat("1", v1alpha1.MaxBytes)}
	if _, verdicts := merge(nil, nil, []*unstructured.Unstructured{large}); !strings.Contains(verdicts["large"].message, "at most 1048576 are allowed") {
		t.Errorf("%.200s", verdicts["large"].message)
	}
}
