package status_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/rollout"
	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/source"
	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/status"
	"github.com/wasm-ccm/wasm-ccm/host/status/v1alpha1"
	"github.com/wasm-ccm/wasm-ccm/host/test/devcluster"
)

// TestAgainstAPIServer needs etcd and kube-apiserver in $KUBEBUILDER_ASSETS
// (make test sets it): the fake clientset compares no resourceVersions.
func TestAgainstAPIServer(t *testing.T) {
	if testing.Short() {
		t.Skip("make test-all runs it")
	}
	cluster, err := devcluster.Start(devcluster.Options{Dir: t.TempDir()})
	must(t, err)
	t.Cleanup(func() {
		if err := cluster.Stop(); err != nil {
			t.Error(err)
		}
	})
	config := cluster.Config()
	config.QPS = -1
	for name, test := range map[string]func(*testing.T, *rest.Config, string){
		"killed at every write":           testKilled,
		"the largest bundle fits":         testLargest,
		"one line of kubectl":             testLabels,
		"commands":                        testCommands,
		"a command that is seen late":     testLateCommand,
		"deleted objects are made again":  testDeleted,
		"deleted while it is written":     testDeletedMeanwhile,
		"annotations and records survive": testCrowd,
		"missing rights are named":        testForbidden,
		"trials of several managers":      testTrials,
		"a manager's own writes":          testOwnWrites,
		"a second leader":                 testSecondLeader,
	} {
		t.Run(name, func(t *testing.T) {
			provider := strings.NewReplacer(" ", "-", "'", "").Replace(name)
			test(t, config, provider)
		})
	}
}

func open(config *rest.Config, provider string) *status.Object {
	return status.New(kubernetes.NewForConfigOrDie(config), namespace, provider, clock.RealClock{})
}

func mustLoad(t *testing.T, config *rest.Config, provider string) (rollout.Record, *source.Bundle) {
	t.Helper()
	r, b, err := load(t, open(config, provider))
	must(t, err)
	return r, b
}

var errKilled = errors.New("killed")

// killed fails every write from the nth on (from 0). With late the nth one is
// carried out, only its answer does not arrive.
type killed struct {
	http.RoundTripper
	late bool

	mu   sync.Mutex
	left int
}

func (k *killed) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method == http.MethodGet {
		return k.RoundTripper.RoundTrip(r)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.left--
	if k.left >= 0 {
		return k.RoundTripper.RoundTrip(r)
	}
	if k.late && k.left == -1 {
		if response, err := k.RoundTripper.RoundTrip(r); err == nil {
			_ = response.Body.Close()
		}
	}
	return nil, errKilled
}

// testKilled ends a save at every write. What was saved before stays, and the new
// one is there when the save says so, or as a whole, or not at all.
func testKilled(t *testing.T, config *rest.Config, provider string) {
	bundles := []source.Bundle{bundle("0", noise(1, 1_000_000)), bundle("1", noise(2, 2_500_000)), bundle("2", noise(3, 1_500_000))}
	must(t, open(config, provider).Save(t.Context(), record(bundles[0], 0), bundles[:1]))
	good := 0
	for _, late := range []bool{false, true} {
		done := false
		for n := 0; !done; n++ {
			next := (good + 1) % len(bundles)
			dying := rest.CopyConfig(config)
			dying.Wrap(func(rt http.RoundTripper) http.RoundTripper { return &killed{RoundTripper: rt, late: late, left: n} })
			wanted := record(bundles[next], int64(next))
			wanted.Saved = append(wanted.Saved, saved(bundles[good]))
			done = open(dying, provider).Save(t.Context(), wanted, bundles[next:next+1]) == nil
			r, b := mustLoad(t, config, provider)
			if r.Generation != int64(next) && r.Generation != int64(good) || b != nil && b.Revision != r.Saved[0].Revision || done && b == nil {
				t.Fatalf("late %v, write %d: record %+v, bundle %.100v", late, n, r, b)
			}
			if before, err := open(config, provider).Bundle(t.Context(), bundles[good].Revision); err != nil || !reflect.DeepEqual(*before, bundles[good]) {
				t.Fatalf("late %v, write %d: what was saved before: %v", late, n, err)
			}
			if b != nil && b.Revision == bundles[next].Revision {
				if !reflect.DeepEqual(*b, bundles[next]) {
					t.Fatalf("late %v, write %d: another bundle", late, n)
				}
				good = next
			}
			if n > 20 {
				t.Fatal("it never ends")
			}
		}
	}
}

// testSecondLeader has another manager save something between the parts and the
// record of the first one. It is told of, and not hidden; the next try has both.
func testSecondLeader(t *testing.T, config *rest.Config, provider string) {
	first, second := bundle("1", noise(1, 100)), bundle("2", noise(2, 100))
	var once sync.Once
	racing := rest.CopyConfig(config)
	racing.Wrap(func(rt http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			if r.Method == http.MethodPost {
				response, err := rt.RoundTrip(r)
				once.Do(func() {
					if err := open(config, provider).Save(t.Context(), record(second, 2), []source.Bundle{second}); err != nil {
						t.Error(err)
					}
				})
				return response, err
			}
			return rt.RoundTrip(r)
		})
	})
	o := open(racing, provider)
	if err := o.Save(t.Context(), record(first, 1), []source.Bundle{first}); err == nil || !strings.Contains(err.Error(), "second leader") {
		t.Errorf("Save = %v", err)
	}
	r, _ := mustLoad(t, config, provider)
	if r.Generation != 2 || r.Saved[0].Revision != "2" {
		t.Errorf("the record of the second leader is hidden: %+v", r)
	}
	must(t, o.Save(t.Context(), recordOf(3, first, second), []source.Bundle{first, second}))
	for _, b := range []source.Bundle{first, second} {
		if got, err := open(config, provider).Bundle(t.Context(), b.Revision); err == nil && !reflect.DeepEqual(*got, b) {
			t.Errorf("another bundle %s", b.Revision)
		}
	}
}

func testLargest(t *testing.T, config *rest.Config, provider string) {
	b := bundle("largest", noise(1, 4*900<<10-200))
	start := time.Now()
	must(t, open(config, provider).Save(t.Context(), record(b, 1), []source.Bundle{b}))
	kept := time.Since(start)
	_, got := mustLoad(t, config, provider)
	t.Logf("%d bytes: kept in %v, loaded in %v", len(b.Module), kept, time.Since(start)-kept)
	if got == nil || !reflect.DeepEqual(*got, b) {
		t.Error("another bundle was loaded")
	}
}

// running is an Object that runs, and the commands that it handed over.
type running struct {
	*status.Object
	commands chan status.Command
	client   kubernetes.Interface
}

func start(t *testing.T, config *rest.Config, provider string) *running {
	t.Helper()
	r := &running{Object: open(config, provider), commands: make(chan status.Command, 100), client: kubernetes.NewForConfigOrDie(config)}
	if _, err := r.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.Run(ctx, func(c status.Command) { r.commands <- c })
	}()
	t.Cleanup(func() { cancel(); <-done })
	return r
}

func (r *running) annotate(t *testing.T, patch string) {
	t.Helper()
	_, err := r.client.CoreV1().ConfigMaps(namespace).Patch(t.Context(), r.Name(), types.MergePatchType,
		[]byte(`{"metadata":{"annotations":`+patch+`}}`), metav1.PatchOptions{FieldManager: "kubectl-annotate"})
	must(t, err)
}

func (r *running) wantCommand(t *testing.T, kind status.CommandKind, argument, by string) {
	t.Helper()
	select {
	case c := <-r.commands:
		if c.Kind != kind || c.Argument != argument || !strings.HasPrefix(c.By, by) || by == "" && c.By != "" {
			t.Errorf("command %+v, want %s %q by %q", c, kind, argument, by)
		}
	case <-time.After(30 * time.Second):
		t.Fatalf("no command, want %s", kind)
	}
}

// wait returns the ConfigMap once it is as wanted.
func (r *running) wait(t *testing.T, what string, ok func(*corev1.ConfigMap) bool) *corev1.ConfigMap {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	var cm *corev1.ConfigMap
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		var err error
		if cm, err = r.client.CoreV1().ConfigMaps(namespace).Get(ctx, r.Name(), metav1.GetOptions{}); err == nil && ok(cm) {
			return cm
		}
		select {
		case <-ctx.Done():
			t.Fatalf("waiting for %s: %v, %v", what, cm, err)
		case <-tick.C:
		}
	}
}

func phaseIs(phase string) func(*corev1.ConfigMap) bool {
	return func(cm *corev1.ConfigMap) bool { return cm.Labels[status.LabelPhase] == phase }
}

func testLabels(t *testing.T, config *rest.Config, provider string) {
	r := start(t, config, provider)
	r.Publish(status.Status{Provider: v1alpha1.Provider{
		Phase: "Shadowed", Reason: "ShadowDiffers", Message: strings.Repeat("é", 2000), Since: metav1.NewTime(now.Add(time.Millisecond)), Generation: 7,
		Serving: &v1alpha1.Module{Name: "static", Version: "v1.2.3+dirty ☃", Digest: strings.Repeat("0123456789abcdef", 4)},
		Offered: &v1alpha1.Module{Digest: strings.Repeat("fedcba9876543210", 4)},
	}})
	cm := r.wait(t, "the status", phaseIs("Shadowed"))
	want := map[string]string{
		"wasm-ccm.dev/provider": provider, "wasm-ccm.dev/phase": "Shadowed", "wasm-ccm.dev/reason": "ShadowDiffers", "wasm-ccm.dev/generation": "7",
		"wasm-ccm.dev/version": "v1.2.3-dirty", "wasm-ccm.dev/serving": "0123456789ab", "wasm-ccm.dev/offered": "fedcba987654", "wasm-ccm.dev/since": "20261121T150405Z",
		"app.kubernetes.io/managed-by": "wasm-ccm",
	}
	if diff := cmp.Diff(want, cm.Labels); diff != "" {
		t.Error(diff)
	}
	if text := cm.Data["status"]; !strings.Contains(text, "phase: Shadowed\n") || !strings.Contains(text, "since: \"2026-11-21T15:04:05Z\"") || len(text) > 2000 {
		t.Errorf("status:\n%s", text)
	}
	// What is empty again loses its label.
	r.Publish(status.Status{Provider: v1alpha1.Provider{Phase: "Kept", Generation: 8}})
	cm = r.wait(t, "the next status", phaseIs("Kept"))
	if _, there := cm.Labels[status.LabelReason]; there || cm.Labels[status.LabelGeneration] != "8" {
		t.Errorf("labels %v", cm.Labels)
	}
}

func testCommands(t *testing.T, config *rest.Config, provider string) {
	r := start(t, config, provider)
	r.Publish(status.Status{Provider: v1alpha1.Provider{Phase: "Kept"}})
	r.wait(t, "the status", phaseIs("Kept"))
	r.annotate(t, `{"wasm-ccm.dev/rolback":"true"}`) // it stays, and is told of once
	r.wantCommand(t, status.Unread, "wasm-ccm.dev/rolback", "kubectl-annotate at 20")
	r.annotate(t, `{"wasm-ccm.dev/pause":""}`)
	r.wantCommand(t, status.Pause, "", "kubectl-annotate at 20")
	r.annotate(t, `{"wasm-ccm.dev/promote":"0123","note":"mine"}`)
	r.wantCommand(t, status.Promote, "0123", "kubectl-annotate at 20")
	r.annotate(t, `{"wasm-ccm.dev/pause":null}`)
	r.wantCommand(t, status.Resume, "", "")
	r.annotate(t, `{"wasm-ccm.dev/rollback":"true","wasm-ccm.dev/promote":"true"}`)
	r.wantCommand(t, status.Promote, "true", "kubectl-annotate at 20")
	r.wantCommand(t, status.Rollback, "true", "kubectl-annotate at 20")
	cm := r.wait(t, "the removal", func(cm *corev1.ConfigMap) bool { return cm.Annotations[status.AnnotationRollback] == "" })
	if cm.Annotations["note"] != "mine" || cm.Annotations[status.AnnotationPromote] != "" {
		t.Errorf("annotations %v", cm.Annotations)
	}
	for i := range 20 { // each is handled once, however fast they come
		value := fmt.Sprint(i)
		r.Publish(status.Status{Provider: v1alpha1.Provider{Phase: "Kept", Message: value}})
		r.annotate(t, `{"wasm-ccm.dev/promote":"`+value+`"}`)
		r.wantCommand(t, status.Promote, value, "kubectl-annotate at 20")
	}
	select {
	case c := <-r.commands:
		t.Errorf("one more command: %+v", c)
	default:
	}
}

// testLateCommand sets another command while the first one is being removed.
func testLateCommand(t *testing.T, config *rest.Config, provider string) {
	must(t, open(config, provider).Save(t.Context(), rollout.Record{Paused: true}, nil))
	person := &running{Object: open(config, provider), client: kubernetes.NewForConfigOrDie(config)}
	person.annotate(t, `{"wasm-ccm.dev/promote":"first"}`)
	var once sync.Once
	racing := rest.CopyConfig(config)
	racing.Wrap(func(rt http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			if r.Method == http.MethodPatch && r.Header.Get("Content-Type") == string(types.MergePatchType) {
				once.Do(func() { person.annotate(t, `{"wasm-ccm.dev/promote":"second"}`) })
			}
			return rt.RoundTrip(r)
		})
	})
	r := start(t, racing, provider)
	r.wantCommand(t, status.Resume, "", "") // the pause of the record is gone
	r.wantCommand(t, status.Promote, "second", "kubectl-annotate at 20")
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func testDeleted(t *testing.T, config *rest.Config, provider string) {
	b := bundle("1", []byte("module"))
	must(t, open(config, provider).Save(t.Context(), record(b, 1), []source.Bundle{b}))
	r := start(t, config, provider)
	r.Publish(status.Status{Provider: v1alpha1.Provider{Phase: "Kept"}})
	r.wait(t, "the status", phaseIs("Kept"))
	for range 3 {
		before := r.wait(t, "the record", func(cm *corev1.ConfigMap) bool { return cm.Data["record"] != "" })
		must(t, r.client.CoreV1().ConfigMaps(namespace).Delete(t.Context(), r.Name(), metav1.DeleteOptions{}))
		r.wait(t, "the new object", func(cm *corev1.ConfigMap) bool {
			return cm.UID != before.UID && cm.Data["record"] != "" && cm.Data["status"] != ""
		})
		if got, loaded := mustLoad(t, config, provider); !cmp.Equal(got, record(b, 1)) || loaded == nil || !reflect.DeepEqual(*loaded, b) {
			t.Errorf("record %+v, bundle %v", got, loaded)
		}
	}
}

// testDeletedMeanwhile deletes the object between the read and the write of a
// record.
func testDeletedMeanwhile(t *testing.T, config *rest.Config, provider string) {
	b := bundle("1", []byte("module"))
	client := kubernetes.NewForConfigOrDie(config)
	var armed atomic.Bool
	racing := rest.CopyConfig(config)
	racing.Wrap(func(rt http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			if r.Method == http.MethodPatch && armed.CompareAndSwap(true, false) {
				must(t, client.CoreV1().ConfigMaps(namespace).Delete(t.Context(), status.Name(provider), metav1.DeleteOptions{}))
			}
			return rt.RoundTrip(r)
		})
	})
	o := open(racing, provider)
	must(t, o.Save(t.Context(), record(b, 1), []source.Bundle{b}))
	armed.Store(true)
	must(t, o.Save(t.Context(), record(b, 2), nil))
	if got, loaded := mustLoad(t, config, provider); got.Generation != 2 || loaded == nil || armed.Load() {
		t.Errorf("record %+v, bundle %v", got, loaded)
	}
}

// testCrowd has the status, the record and annotations written at once.
func testCrowd(t *testing.T, config *rest.Config, provider string) {
	r := start(t, config, provider)
	r.Publish(status.Status{Provider: v1alpha1.Provider{Phase: "Begin"}})
	r.wait(t, "the status", phaseIs("Begin"))
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := range 30 {
			r.Publish(status.Status{Provider: v1alpha1.Provider{Phase: "Busy", Message: fmt.Sprint(i)}})
			r.annotate(t, fmt.Sprintf(`{"note-%d":"x"}`, i))
		}
	})
	for i := range 30 {
		if err := r.Save(t.Context(), rollout.Record{Generation: int64(i)}, nil); err != nil {
			t.Error(err)
		}
	}
	wg.Wait()
	cm := r.wait(t, "the last status", func(cm *corev1.ConfigMap) bool { return strings.Contains(cm.Data["status"], `message: "29"`) })
	if got, _ := mustLoad(t, config, provider); got.Generation != 29 || len(cm.Annotations) != 31 {
		t.Errorf("record %+v, %d annotations", got, len(cm.Annotations))
	}
}

func testForbidden(t *testing.T, config *rest.Config, provider string) {
	nobody := rest.CopyConfig(config)
	nobody.Impersonate = rest.ImpersonationConfig{UserName: "nobody"}
	_, err := open(nobody, provider).Load(t.Context())
	if err == nil || !strings.Contains(err.Error(), `resourceNames: ["wasm-ccm-provider-missing-rights-are-named"], verbs: ["get"]`) {
		t.Errorf("Load = %v, want an error with the rule", err)
	}
}
