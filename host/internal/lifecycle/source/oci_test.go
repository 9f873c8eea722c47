package source_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/utils/clock"

	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/registry"
	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/source"
	"github.com/wasm-ccm/wasm-ccm/host/test/devregistry"
)

// waits is a clock whose waits end when the test says so; it hands over how
// long each was to be.
type waits struct {
	clock.RealClock
	asked chan time.Duration
	end   chan time.Time
}

func (w waits) After(d time.Duration) <-chan time.Time {
	w.asked <- d
	return w.end
}

// looked is what a source has told.
type looked struct {
	bundle  source.Bundle
	err     error
	reached *error // of Reached, and not of the handler
}

// watcher runs a source of an image.
type watcher struct {
	waits
	told chan looked
}

func watchImage(t *testing.T, o source.OCIOptions) *watcher {
	t.Helper()
	w := &watcher{waits: waits{asked: make(chan time.Duration, 100), end: make(chan time.Time)}, told: make(chan looked, 100)}
	o.Clock = w.waits
	o.Reached = func(err error) { w.told <- looked{reached: &err} }
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		source.NewOCI(o).Run(ctx, func(b source.Bundle, err error) { w.told <- looked{bundle: b, err: err} })
	})
	t.Cleanup(func() { cancel(); wg.Wait() })
	return w
}

// look ends the wait, and returns how long the next is to be.
func (w *watcher) look(t *testing.T) time.Duration {
	t.Helper()
	w.end <- time.Now()
	return w.asleep(t)
}

func (w *watcher) asleep(t *testing.T) time.Duration {
	t.Helper()
	select {
	case d := <-w.asked:
		return d
	case <-time.After(time.Minute):
		t.Fatal("the source does not wait")
		return 0
	}
}

func (w *watcher) next(t *testing.T) looked {
	t.Helper()
	select {
	case l := <-w.told:
		return l
	case <-time.After(time.Minute):
		t.Fatal("the source tells nothing")
		return looked{}
	}
}

// reachable wants that to be told of the registry.
func (w *watcher) reachable(t *testing.T, words string) {
	t.Helper()
	l := w.next(t)
	if l.reached == nil || (*l.reached == nil) != (words == "") || words != "" && !strings.Contains((*l.reached).Error(), words) {
		t.Fatalf("told %+v, want Reached of %q", l, words)
	}
}

// module wants that to be offered.
func (w *watcher) module(t *testing.T, want string) source.Bundle {
	t.Helper()
	l := w.next(t)
	if l.reached != nil || l.err != nil || string(l.bundle.Module) != want {
		t.Fatalf("told %+v, want the module %q", l, want)
	}
	return l.bundle
}

func (w *watcher) nothing(t *testing.T) {
	t.Helper()
	select {
	case l := <-w.told:
		t.Fatalf("told %+v, want nothing", l)
	default:
	}
}

// registryWith starts a registry with an image.
func registryWith(t *testing.T, o devregistry.Options, module string, with registry.Options) (*devregistry.Registry, registry.Reference, string) {
	t.Helper()
	o.Dir = t.TempDir()
	r, err := devregistry.Start(o)
	must(t, err)
	t.Cleanup(func() { must(t, r.Stop()) })
	ref, err := registry.ParseReference(r.Address + "/p:v1")
	must(t, err)
	return r, ref, pushImage(t, ref, module, with)
}

func pushImage(t *testing.T, ref registry.Reference, module string, with registry.Options) string {
	t.Helper()
	index, err := registry.Pack(registry.Content{Module: []byte(module), Files: map[string][]byte{"config.yaml": []byte("a: b\n")}, Platforms: []string{"linux/amd64"}})
	must(t, err)
	digest, err := registry.Push(t.Context(), ref, index, with)
	must(t, err)
	return digest
}

func between(t *testing.T, d, low, high time.Duration) {
	t.Helper()
	if d < low || d > high {
		t.Errorf("it waits %s, want %s to %s", d, low, high)
	}
}

func TestATagIsAskedForAtEachInterval(t *testing.T) {
	_, ref, digest := registryWith(t, devregistry.Options{}, "first", registry.Options{})
	w := watchImage(t, source.OCIOptions{Reference: ref, Interval: time.Minute})
	w.reachable(t, "")
	first := w.module(t, "first")
	if first.Image != digest || string(first.Config) != "a: b\n" || first.Origin != "image "+ref.String() || first.Signature != nil {
		t.Errorf("bundle %+v, want the image %s", first, digest)
	}
	between(t, w.asleep(t), 48*time.Second, 54*time.Second)
	w.look(t)
	w.nothing(t)
	second := pushImage(t, ref, "second", registry.Options{})
	w.look(t)
	if b := w.module(t, "second"); b.Image != second || b.Revision == first.Revision {
		t.Errorf("bundle %+v, want the image %s", b, second)
	}
	must(t, registry.PushSignature(t.Context(), ref, second, registry.Signature{Payload: []byte("{}"), Base64: "eA=="}, registry.Options{}))
	w.look(t)
	if b := w.module(t, "second"); b.Image != second || b.Signature == nil {
		t.Errorf("bundle %+v, want one with the signature that has come", b)
	}
}

func TestARegistryThatIsAwayChangesNothing(t *testing.T) {
	r, ref, _ := registryWith(t, devregistry.Options{}, "first", registry.Options{})
	w := watchImage(t, source.OCIOptions{Reference: ref, Interval: 20 * time.Second})
	w.reachable(t, "")
	w.module(t, "first")
	w.asleep(t)
	must(t, r.Stop())
	for _, most := range []time.Duration{2, 4, 8, 16, 20, 20, 20} {
		between(t, w.look(t), most*time.Second*8/10, most*time.Second*9/10)
	}
	w.reachable(t, "cannot be asked")
	w.nothing(t)
	must(t, r.Resume())
	between(t, w.look(t), 16*time.Second, 18*time.Second)
	w.reachable(t, "")
	w.nothing(t)
}

func TestARegistryThatWasNeverThere(t *testing.T) {
	r, ref, _ := registryWith(t, devregistry.Options{}, "first", registry.Options{})
	must(t, r.Stop())
	w := watchImage(t, source.OCIOptions{Reference: ref, Interval: time.Minute})
	w.reachable(t, "cannot be asked")
	l := w.next(t)
	var e *source.Error
	if !errors.As(l.err, &e) || !e.Passing || e.Reason != registry.ReasonUnavailable || l.bundle.Origin != "image "+ref.String() {
		t.Fatalf("told %+v, want an error that passes", l)
	}
	w.asleep(t)
	w.look(t)
	w.nothing(t)
	must(t, r.Resume())
	w.look(t)
	w.reachable(t, "")
	w.module(t, "first")
}

func TestADigestIsAskedForOnce(t *testing.T) {
	_, ref, digest := registryWith(t, devregistry.Options{}, "first", registry.Options{})
	byDigest, err := registry.ParseReference(ref.Context().String() + "@" + digest)
	must(t, err)
	for name, o := range map[string]source.OCIOptions{"digest": {Reference: byDigest}, "IfNotPresent": {Reference: ref, Once: true}} {
		t.Run(name, func(t *testing.T) {
			w := watchImage(t, o)
			w.reachable(t, "")
			w.module(t, "first")
			select {
			case d := <-w.asked:
				t.Errorf("it looks again after %s", d)
			case w.end <- time.Now():
				t.Error("it waits for another look")
			case <-time.After(50 * time.Millisecond):
			}
		})
	}
}

// An image without a module is told of, and the next one is taken.
func TestImagesAreReadAsDirectoriesAre(t *testing.T) {
	_, ref, _ := registryWith(t, devregistry.Options{}, "", registry.Options{})
	w := watchImage(t, source.OCIOptions{Reference: ref})
	w.reachable(t, "")
	l := w.next(t)
	var e *source.Error
	if !errors.As(l.err, &e) || e.Passing || e.Reason != source.ReasonModuleEmpty || !strings.Contains(e.Error(), "image "+ref.String()+": provider.wasm is empty") {
		t.Fatalf("told %+v", l)
	}
	between(t, w.asleep(t), 240*time.Second, 270*time.Second)
	w.look(t)
	w.nothing(t)
	pushImage(t, ref, "good", registry.Options{})
	w.look(t)
	w.module(t, "good")
}

// robot is the account of a registry.
type robot struct{}

func (robot) Resolve(authn.Resource) (authn.Authenticator, error) {
	return &authn.Basic{Username: "robot", Password: "right"}, nil
}

func TestAPullSecretIsFollowed(t *testing.T) {
	r, err := devregistry.Start(devregistry.Options{User: "robot", Password: "right", Dir: t.TempDir()})
	must(t, err)
	t.Cleanup(func() { must(t, r.Stop()) })
	ref, err := registry.ParseReference(r.Address + "/p:v1")
	must(t, err)
	pushImage(t, ref, "first", registry.Options{Keys: robot{}})
	client := fake.NewClientset()
	name := types.NamespacedName{Namespace: "ns", Name: "pull"}
	w := watchImage(t, source.OCIOptions{Reference: ref, PullSecret: source.NewPullSecret(client, name)})
	w.reachable(t, "the pullSecret ns/pull does not exist: create it")
	w.next(t) // the handler
	w.asleep(t)
	secrets := client.CoreV1().Secrets("ns")
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "pull"}, Type: corev1.SecretTypeOpaque}
	for _, step := range []struct {
		kind corev1.SecretType
		json string
		want string
	}{
		{corev1.SecretTypeOpaque, "", `is of the type "Opaque", not kubernetes.io/dockerconfigjson`},
		{corev1.SecretTypeDockerConfigJson, `{"auths":{"a":{"auth":"hush!"}}}`, ".dockerconfigjson is not valid"},
		{corev1.SecretTypeDockerConfigJson, `{"auths":{"other.example.com":{"username":"robot","password":"hush!"}}}`, "has no entry for " + ref.Context().String()},
		{corev1.SecretTypeDockerConfigJson, `{"auths":{"` + r.Address + `":{"username":"robot","password":"hush!"}}}`, "does not take the credentials of the pullSecret ns/pull"},
		{corev1.SecretTypeDockerConfigJson, `{"credsStore":"evil","auths":{"` + r.Address + `":{"username":"robot","password":"right"}}}`, ""},
	} {
		secret = secret.DeepCopy()
		secret.Type, secret.Data = step.kind, map[string][]byte{corev1.DockerConfigJsonKey: []byte(step.json)}
		_, err := secrets.Update(t.Context(), secret, metav1.UpdateOptions{})
		if apierrors.IsNotFound(err) {
			_, err = secrets.Create(t.Context(), secret, metav1.CreateOptions{})
		}
		must(t, err)
		w.reachableOrOffered(t, step.want)
		w.asleep(t)
	}
	w.module(t, "first")
}

// reachableOrOffered leaves out what the handler is told before anything was
// offered.
func (w *watcher) reachableOrOffered(t *testing.T, words string) {
	t.Helper()
	for {
		l := w.next(t)
		if l.reached == nil {
			continue
		}
		if (*l.reached == nil) != (words == "") || words != "" && !strings.Contains((*l.reached).Error(), words) {
			t.Fatalf("told %v, want %q", *l.reached, words)
		}
		if *l.reached != nil && strings.Contains((*l.reached).Error(), "hush") {
			t.Fatalf("the error has the password: %v", *l.reached)
		}
		return
	}
}
