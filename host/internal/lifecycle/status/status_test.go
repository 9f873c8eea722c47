package status_test

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/clock"

	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/rollout"
	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/source"
	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/status"
	"github.com/wasm-ccm/wasm-ccm/host/status/v1alpha1"
)

const namespace = "kube-system"

var now = time.Date(2026, 11, 21, 15, 4, 5, 0, time.UTC)

func object(client kubernetes.Interface) *status.Object {
	return status.New(client, namespace, "main", clock.RealClock{})
}

// noise does not compress.
func noise(seed uint64, size int) []byte {
	r := rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8)})
	data := make([]byte, size)
	_, _ = r.Read(data)
	return data
}

func bundle(revision string, module []byte) source.Bundle {
	return source.Bundle{Module: module, Config: []byte("config of " + revision), Signature: []byte("signature of " + revision), Revision: revision, Origin: "ConfigMap kube-system/cloud-provider"}
}

func saved(b source.Bundle) rollout.Saved {
	return rollout.Saved{Module: v1alpha1.Module{Name: "static", Version: "v1", Digest: "d", Revision: b.Revision}, Kept: true}
}

func record(b source.Bundle, generation int64) rollout.Record {
	return rollout.Record{
		Saved:      []rollout.Saved{saved(b)},
		Generation: generation,
		Refused:    []rollout.Refusal{{Revision: rollout.Revision{Bundle: "bad"}, Phase: "Probed", Reason: "ProbeFailed", Message: "no"}},
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// load returns the record, and the newest bundle that it calls saved; nil when it is not.
func load(t *testing.T, o *status.Object) (rollout.Record, *source.Bundle, error) {
	t.Helper()
	r, err := o.Load(t.Context())
	if err != nil || len(r.Saved) == 0 {
		return r, nil, err
	}
	b, err := o.Bundle(t.Context(), r.Saved[0].Revision)
	if errors.Is(err, status.ErrNotSaved) {
		err = nil
	}
	return r, b, err
}

// wantLoad fails unless a new Object has this record and newest bundle.
func wantLoad(t *testing.T, client kubernetes.Interface, wantRecord rollout.Record, want *source.Bundle) {
	t.Helper()
	r, b, err := load(t, object(client))
	must(t, err)
	if diff := cmp.Diff(wantRecord, r); diff != "" {
		t.Errorf("record: %s", diff)
	}
	if !reflect.DeepEqual(want, b) { // cmp takes seconds for a megabyte
		t.Errorf("the bundle is %.300v, want %.300v", b, want)
	}
}

func TestNothingIsKeptYet(t *testing.T) {
	wantLoad(t, fake.NewClientset(), rollout.Record{}, nil)
}

func TestWhatIsKeptIsLoaded(t *testing.T) {
	full := bundle("full", noise(1, 2_000))
	private := bundle("private", []byte("m"))
	private.ConfigPrivate = true
	withoutConfig := private
	withoutConfig.Config = nil
	bare := source.Bundle{Module: []byte("bare"), Revision: "bare"}
	emptyConfig := source.Bundle{Module: []byte("bare"), Config: []byte{}, Revision: "empty"}
	for _, c := range []struct{ kept, want source.Bundle }{{full, full}, {private, withoutConfig}, {bare, bare}, {emptyConfig, emptyConfig}} {
		t.Run(c.kept.Revision, func(t *testing.T) {
			client := fake.NewClientset()
			o := object(client)
			must(t, o.Save(t.Context(), record(c.kept, 3), []source.Bundle{c.kept}))
			wantLoad(t, client, record(c.kept, 3), &c.want)
			// A record alone leaves the bundle, until another one is good.
			paused := record(c.kept, 4)
			paused.Paused = true
			must(t, o.Save(t.Context(), paused, nil))
			wantLoad(t, client, paused, &c.want)
			other := record(source.Bundle{Revision: "other"}, 5)
			must(t, o.Save(t.Context(), other, nil))
			wantLoad(t, client, other, nil)
		})
	}
}

func TestPrivateConfigurationIsNowhere(t *testing.T) {
	client := fake.NewClientset()
	b := source.Bundle{Module: noise(1, 100), Config: noise(2, 5000), ConfigPrivate: true, Revision: "r"}
	must(t, object(client).Save(t.Context(), record(b, 1), []source.Bundle{b}))
	for _, action := range client.Actions() {
		if create, ok := action.(clienttesting.CreateAction); ok {
			if part := create.GetObject().(*corev1.ConfigMap).BinaryData["part"]; len(part) > 1000 {
				t.Errorf("a part of %d bytes", len(part))
			}
		}
	}
}

// A configuration that has moved into a Secret was in several sets before, and is
// not saved again with what is older.
func TestAConfigurationThatBecomesPrivateIsRemoved(t *testing.T) {
	for name, size := range map[string]int{"one part": 100, "several parts": 2_000_000, "too large": 4 * 900 << 10} {
		client := fake.NewClientset()
		o := object(client)
		config := noise(2, 5000)
		var older []source.Bundle
		for i, revision := range []string{"first", "second"} {
			b := source.Bundle{Module: noise(uint64(i), 2_000_000), Config: config, Revision: revision}
			older = append(older, b)
			all := record(b, int64(i))
			for _, b := range older[:i] {
				all.Saved = append(all.Saved, saved(b))
			}
			must(t, o.Save(t.Context(), all, older))
		}
		private := source.Bundle{Module: noise(3, size), Config: config, ConfigPrivate: true, Revision: "private"}
		r := record(private, 3)
		r.Saved = append(r.Saved, saved(older[1]), saved(older[0]))
		err := o.Save(t.Context(), r, append(older, private))
		if tooLarge := errors.Is(err, status.ErrTooLarge); tooLarge != (name == "too large") || err != nil && !tooLarge {
			t.Fatalf("%s: %v", name, err)
		}
		all, err := client.CoreV1().ConfigMaps(namespace).List(t.Context(), metav1.ListOptions{})
		must(t, err)
		for _, cm := range all.Items {
			if bytes.Contains(cm.BinaryData["part"], config[len(config)-1000:]) {
				t.Errorf("%s: %s has it", name, cm.Name)
			}
		}
		if err := o.Save(t.Context(), record(private, 3), nil); err != nil {
			t.Fatal(err)
		}
		if private.Config = nil; name != "too large" {
			wantLoad(t, client, record(private, 3), &private)
		} else {
			wantLoad(t, client, record(private, 3), nil)
		}
	}
}

// What serves keeps its revision when its configuration becomes private.
func TestWhatIsSavedBecomesPrivate(t *testing.T) {
	client := fake.NewClientset()
	o := object(client)
	first, second := bundle("first", noise(1, 2_000)), bundle("second", noise(2, 2_000))
	r := record(second, 2)
	r.Saved = append(r.Saved, saved(first))
	must(t, o.Save(t.Context(), r, []source.Bundle{second, first}))
	first.ConfigPrivate, second.ConfigPrivate = true, true
	must(t, o.Save(t.Context(), r, []source.Bundle{second, first}))
	first.Config, second.Config = nil, nil
	wantBundles(t, client, second, first)
	cm, err := client.CoreV1().ConfigMaps(namespace).Get(t.Context(), o.Name(), metav1.GetOptions{})
	must(t, err)
	if record := cm.Data["record"]; strings.Contains(record, `"config":`) {
		t.Error(record)
	}
}

func TestSetsAreReused(t *testing.T) {
	client := fake.NewClientset()
	for i := range 5 {
		b := bundle(string(rune('a'+i)), noise(uint64(i), 100))
		must(t, object(client).Save(t.Context(), record(b, int64(i)), []source.Bundle{b}))
		wantLoad(t, client, record(b, int64(i)), &b)
	}
	written := map[string]int{}
	for _, action := range client.Actions() {
		if update, ok := action.(clienttesting.UpdateAction); ok && action.GetVerb() == "update" {
			written[update.GetObject().(*corev1.ConfigMap).Name]++
		}
	}
	want := map[string]int{"wasm-ccm-module-main-a0": 5}
	if diff := cmp.Diff(want, written); diff != "" {
		t.Error(diff)
	}
}

// A restart begins with what was saved before it.
func TestWhatIsTooLargeChangesNothingElse(t *testing.T) {
	client := fake.NewClientset()
	small := bundle("small", []byte("m"))
	must(t, object(client).Save(t.Context(), record(small, 1), []source.Bundle{small}))
	large := bundle("large", noise(1, 4*900<<10+1))
	other := bundle("other", []byte("o"))
	r := record(large, 2)
	r.Saved = append(r.Saved, saved(other), saved(small))
	if err := object(client).Save(t.Context(), r, []source.Bundle{large, other}); !errors.Is(err, status.ErrTooLarge) {
		t.Errorf("Save = %v, want ErrTooLarge", err)
	}
	wantLoad(t, client, r, nil)
	wantBundles(t, client, small, other)
}

// A module for which the ConfigMaps have no room is in the manager's directory,
// and comes back from there: after a restart of this manager, not in another one.
func TestWhatIsTooLargeIsStored(t *testing.T) {
	client, dir := fake.NewClientset(), t.TempDir()
	store := func(dir string) *source.Store {
		s, err := source.NewStore(dir, nil)
		must(t, err)
		return s
	}
	large := bundle("large", noise(1, 4*900<<10+1))
	must(t, object(client).With(store(dir)).Save(t.Context(), record(large, 2), []source.Bundle{large}))
	check := func(r rollout.Record, got *source.Bundle, err error) {
		t.Helper()
		if err != nil || got == nil || r.Saved[0].Revision != large.Revision {
			t.Fatalf("Load = %+v, %v, %v", r, got, err)
		}
		must(t, got.View(func(module []byte) error {
			if !bytes.Equal(module, large.Module) || !bytes.Equal(got.Config, large.Config) || !bytes.Equal(got.Signature, large.Signature) {
				t.Error("another bundle comes back")
			}
			return nil
		}))
	}
	r, got, err := load(t, object(client).With(store(dir)))
	check(r, got, err)
	must(t, object(client).With(store(dir)).Save(t.Context(), record(large, 3), []source.Bundle{*got}))
	r, got, err = load(t, object(client).With(store(dir)))
	check(r, got, err)
	for _, action := range client.Actions() {
		if create, ok := action.(clienttesting.CreateAction); ok {
			if part := create.GetObject().(*corev1.ConfigMap).BinaryData["part"]; len(part) > 1000 {
				t.Errorf("a part of %d bytes", len(part))
			}
		}
	}
	digest := large.ModuleDigest()
	for name, elsewhere := range map[string]func() *status.Object{
		"another manager": func() *status.Object { return object(client).With(store(t.TempDir())) },
		"no store":        func() *status.Object { return object(client) },
		"damaged": func() *status.Object {
			must(t, os.WriteFile(filepath.Join(dir, digest+".wasm"), large.Module[1:], 0o600))
			return object(client).With(store(dir))
		},
	} {
		if r, got, err := load(t, elsewhere()); err != nil || got != nil || r.Saved[0].Revision != large.Revision {
			t.Errorf("%s: Load = %+v, %v, %v; want the record alone", name, r, got, err)
		}
	}
}

func TestModuleIsNotShared(t *testing.T) {
	client := fake.NewClientset()
	b := bundle("1", []byte("module"))
	must(t, object(client).Save(t.Context(), record(b, 1), []source.Bundle{b}))
	loaded, err := object(client).Bundle(t.Context(), b.Revision)
	must(t, err)
	_ = append(loaded.Module, "overwritten"...)
	if !bytes.Equal(loaded.Config, b.Config) {
		t.Errorf("Config = %q", loaded.Config)
	}
}

// What a person has paused is known from the annotation, also where the record
// does not say it yet, or says nothing at all.
func TestPauseIsReadFromTheAnnotation(t *testing.T) {
	client := fake.NewClientset()
	b := bundle("1", []byte("m"))
	must(t, object(client).Save(t.Context(), record(b, 1), []source.Bundle{b}))
	change(t, client, "wasm-ccm-provider-main", func(cm *corev1.ConfigMap) {
		cm.Annotations = map[string]string{status.AnnotationPause: ""}
	})
	if r, err := object(client).Load(t.Context()); err != nil || !r.Paused || r.Generation != 1 {
		t.Errorf("%+v, %v", r, err)
	}
	change(t, client, "wasm-ccm-provider-main", func(cm *corev1.ConfigMap) { cm.Data["record"] = "{" })
	if r, err := object(client).Load(t.Context()); !errors.Is(err, status.ErrDamaged) || !r.Paused {
		t.Errorf("of a damaged record: %+v, %v", r, err)
	}
}
