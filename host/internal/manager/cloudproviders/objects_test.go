package cloudproviders

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/record"

	"github.com/wasm-ccm/wasm-ccm/host/config/v1alpha1"
	status "github.com/wasm-ccm/wasm-ccm/host/status/v1alpha1"
)

// world is a cluster with objects, and a manager that applies them.
type world struct {
	*Objects
	t      *testing.T
	client *fake.FakeDynamicClient
	events *record.FakeRecorder
	stop   func()

	// storing is held between the read and the write of an object, since an API
	// server loses no update in between.
	storing sync.Mutex

	mu      sync.Mutex
	refused string // the name of a provider whose application fails
	applied []string
	last    *v1alpha1.HostConfiguration
	writes  int
}

func newClient(t *testing.T, objects ...*unstructured.Unstructured) *fake.FakeDynamicClient {
	t.Helper()
	resource := v1alpha1.CloudProviderResource()
	client := fake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), map[schema.GroupVersionResource]string{resource: "CloudProviderList"})
	for _, o := range objects {
		if err := client.Tracker().Create(resource, o, ""); err != nil {
			t.Fatal(err)
		}
	}
	return client
}

// newWorld starts a manager. It runs in a bubble of synctest.
func newWorld(t *testing.T, client *fake.FakeDynamicClient) *world {
	t.Helper()
	w := &world{t: t, client: client}
	client.PrependReactor("patch", "cloudproviders", w.patch)
	w.events = record.NewFakeRecorder(100)
	w.events.IncludeObject = true
	w.Objects = New(Options{Client: client, Apply: w.apply, Events: w.events})
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	w.stop = sync.OnceFunc(func() { cancel(); wg.Wait() })
	t.Cleanup(w.stop)
	wg.Go(func() { w.Watch(ctx) })
	if err := w.Start(ctx, file(t, ofFile)); err != nil {
		t.Fatal(err)
	}
	wg.Go(func() { w.Run(ctx) })
	return w
}

// lead makes the manager write statuses.
func (w *world) lead() *world {
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { w.WriteStatuses(ctx) })
	w.t.Cleanup(func() { cancel(); wg.Wait() })
	return w
}

func (w *world) apply(_ context.Context, c *v1alpha1.HostConfiguration) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := ""
	for _, p := range c.Providers {
		if p.Name == w.refused {
			return errors.New("its signer is not there")
		}
		all += " " + p.Name + p.Source.Directory
	}
	w.applied, w.last = append(w.applied, all[1:]), c
	return nil
}

// patch patches a status as the API server does.
func (w *world) patch(action clienttesting.Action) (bool, runtime.Object, error) {
	patch := action.(clienttesting.PatchAction)
	w.storing.Lock()
	defer w.storing.Unlock()
	stored, err := w.client.Tracker().Get(patch.GetResource(), "", patch.GetName())
	if err != nil {
		return true, nil, err
	}
	next := stored.(*unstructured.Unstructured).DeepCopy()
	var applied map[string]any
	if err := json.Unmarshal(patch.GetPatch(), &applied); err != nil {
		return true, nil, err
	}
	next.Object["status"] = applied["status"]
	w.mu.Lock()
	w.writes++
	w.mu.Unlock()
	return true, next, w.client.Tracker().Update(patch.GetResource(), next, "")
}

// settled waits until there are no more changes, and returns the providers in force.
func (w *world) settled() string {
	time.Sleep(2 * settlePeriod)
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.applied[len(w.applied)-1]
}

func (w *world) put(o *unstructured.Unstructured) {
	w.t.Helper()
	w.storing.Lock()
	defer w.storing.Unlock()
	objects := w.client.Tracker()
	err := objects.Update(v1alpha1.CloudProviderResource(), o, "")
	if apierrors.IsNotFound(err) {
		err = objects.Create(v1alpha1.CloudProviderResource(), o, "")
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) status(name string) (s v1alpha1.CloudProviderStatus) {
	w.t.Helper()
	stored, err := w.client.Tracker().Get(v1alpha1.CloudProviderResource(), "", name)
	if err != nil {
		w.t.Fatal(err)
	}
	if given, ok := stored.(*unstructured.Unstructured).Object["status"].(map[string]any); ok {
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(given, &s); err != nil {
			w.t.Fatal(err)
		}
	}
	return s
}

// wantConditions compares the conditions, as "Ready=True Degraded=False".
func (w *world) wantConditions(name, want string) {
	w.t.Helper()
	var all []string
	for _, c := range w.status(name).Conditions {
		all = append(all, c.Type+"="+string(c.Status))
	}
	if got := strings.Join(all, " "); got != want {
		w.t.Errorf("%s: %s, want %s", name, got, want)
	}
}

func kept(version string) status.Provider {
	return status.Provider{Phase: "Kept", Generation: 1, Offered: &status.Module{Digest: "d"}, Serving: &status.Module{Name: "m", Version: version, Digest: "d"}}
}

func TestObjectsComeAndGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, newClient(t, made(t, "one", 1, 1, spec("one", "/1")), made(t, "bad", 2, 1, spec("one", "/bad")))).lead()
		if got := w.settled(); got != "file/file one/1" || len(w.applied) != 1 {
			t.Fatalf("in force: %q", w.applied)
		}
		w.wantConditions("one", "Ready=Unknown Progressing=True Degraded=False Reconciling=True")
		w.wantConditions("bad", "Ready=False Progressing=False Degraded=True Stalled=True")
		if s := w.status("bad"); s.Phase != "Rejected" || s.Reason != "Invalid" || s.ObservedGeneration != 1 || !strings.HasPrefix(s.Message, "spec.store: Duplicate value") {
			t.Errorf("%+v", s)
		}

		w.Report("one", kept("1.0"))
		w.settled()
		w.wantConditions("one", "Ready=True Progressing=False Degraded=False")
		if s := w.status("one"); s.Serving.Version != "1.0" || s.Generation != 1 {
			t.Errorf("%+v", s)
		}

		// A mistake leaves the last valid form in force, and a newer module is still reported.
		w.put(made(t, "one", 1, 2, "{store: one, source: {directory: /1}, provenanse: {}}"))
		w.settled()
		w.Report("one", kept("1.1"))
		if got := w.settled(); got != "file/file one/1" || len(w.applied) != 1 {
			t.Errorf("in force: %q", w.applied)
		}
		w.wantConditions("one", "Ready=True Progressing=False Degraded=True Stalled=True")
		if s := w.status("one"); s.Message != `unknown field "spec.provenanse"; the previous spec stays in force` || s.Serving.Version != "1.1" || s.ObservedGeneration != 2 {
			t.Errorf("%+v", s)
		}

		w.put(made(t, "one", 1, 3, spec("another", "/new")))
		if got := w.settled(); got != "file/file one/new bad/bad" {
			t.Errorf("in force: %s", got)
		}
		w.wantConditions("one", "Ready=True Progressing=False Degraded=False")

		// A deleted object that waits for a finalizer counts as gone.
		gone := made(t, "one", 1, 3, spec("another", "/new"))
		now := metav1.Now()
		gone.SetDeletionTimestamp(&now)
		gone.SetFinalizers([]string{"example.com/waits"})
		w.put(gone)
		if got := w.settled(); got != "file/file bad/bad" {
			t.Errorf("in force: %s", got)
		}
	})
}

func TestOneThatCannotBeAppliedKeepsNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, newClient(t, made(t, "one", 1, 1, spec("one", "/1")))).lead()
		w.mu.Lock()
		w.refused = "two"
		w.mu.Unlock()
		w.put(made(t, "two", 2, 1, spec("two", "/2")))
		w.put(made(t, "three", 3, 1, spec("three", "/3")))
		w.put(made(t, "one", 1, 2, spec("one", "/new")))
		if got := w.settled(); got != "file/file one/new three/3" {
			t.Errorf("in force: %s", got)
		}
		w.wantConditions("two", "Ready=False Progressing=True Degraded=True Reconciling=True")
		if s := w.status("two"); s.Reason != "NotApplied" || s.Message != "its signer is not there" {
			t.Errorf("%+v", s)
		}
		w.mu.Lock()
		w.refused = ""
		w.mu.Unlock()
		time.Sleep(retryPeriod)
		if got := w.settled(); got != "file/file one/new three/3 two/2" {
			t.Errorf("in force: %s", got)
		}
	})
}

func TestTheFileChangesBesideObjects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, newClient(t, made(t, "one", 1, 1, spec("one", "/1")))).lead()
		next := file(t, "[{name: file, store: file, source: {directory: /next}}]")
		if err := w.SetFile(t.Context(), next); err != nil || w.settled() != "file/next one/1" || w.File() != next {
			t.Errorf("%v, in force: %s", err, w.settled())
		}
		w.mu.Lock()
		w.refused = "other"
		w.mu.Unlock()
		if err := w.SetFile(t.Context(), file(t, "[{name: other, store: file, source: {directory: /other}}]")); err == nil || w.settled() != "file/next one/1" || w.File() != next {
			t.Errorf("%v, in force: %s", err, w.settled())
		}
		if err := w.SetFile(t.Context(), file(t, "[{name: one, store: file, source: {directory: /mine}}]")); err != nil || w.settled() != "one/mine" {
			t.Errorf("%v, in force: %s", err, w.settled())
		}
		w.Report("one", kept("of the file"))
		w.settled()
		if s := w.status("one"); s.Reason != "NameTaken" || s.Serving != nil {
			t.Errorf("%+v", s)
		}
	})
}

// A restart and a standby repeat no write of a status.
func TestStatusesAreWrittenByTheLeaderAndOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := newClient(t, made(t, "one", 1, 1, spec("one", "/1")), made(t, "bad", 2, 1, spec("one", "/bad")))
		standby := newWorld(t, client)
		standby.Report("one", kept("1.0"))
		standby.settled()
		if standby.writes > 0 {
			t.Errorf("a standby has written %d times", standby.writes)
		}
		standby.lead().settled()
		before := standby.status("one")
		if standby.wantConditions("one", "Ready=True Progressing=False Degraded=False"); standby.writes != 2 {
			t.Errorf("%d writes", standby.writes)
		}
		standby.stop()

		time.Sleep(time.Hour)
		next := newWorld(t, client).lead()
		next.settled()
		next.Report("one", kept("1.0"))
		next.settled()
		if next.writes > 0 || !next.status("one").Conditions[0].LastTransitionTime.Equal(&before.Conditions[0].LastTransitionTime) {
			t.Errorf("%d writes after a restart", next.writes)
		}
	})
}

// A manager that cannot list the objects does not start.
func TestObjectsThatCannotBeListed(t *testing.T) {
	resource := v1alpha1.CloudProviderResource()
	for want, refusal := range map[string]error{
		`{apiGroups: ["config.wasm-ccm.dev"], resources: ["cloudproviders"], verbs: ["list", "watch"]}`: apierrors.NewForbidden(resource.GroupResource(), "", errors.New("no")),
		"apply the CustomResourceDefinition cloudproviders.config.wasm-ccm.dev":                         apierrors.NewNotFound(resource.GroupResource(), ""),
	} {
		client, again := newClient(t), make(chan struct{}, 2)
		client.PrependReactor("list", "cloudproviders", func(clienttesting.Action) (bool, runtime.Object, error) {
			select {
			case again <- struct{}{}:
			default:
			}
			return true, nil, refusal
		})
		o := New(Options{Client: client, Apply: func(context.Context, *v1alpha1.HostConfiguration) error {
			t.Error("something is applied")
			return nil
		}})
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() { o.Watch(ctx) })
		wg.Go(func() {
			<-again // the first event may still be pending
			<-again
			cancel()
		})
		if err := o.Start(ctx, file(t, ofFile)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
		wg.Wait()
	}
}
