package status_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/rollout"
	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/source"
	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/status"
	"github.com/wasm-ccm/wasm-ccm/host/status/v1alpha1"
)

// change edits a ConfigMap as somebody with kubectl would.
func change(t *testing.T, client *fake.Clientset, name string, edit func(*corev1.ConfigMap)) {
	t.Helper()
	cm, err := client.CoreV1().ConfigMaps(namespace).Get(t.Context(), name, metav1.GetOptions{})
	must(t, err)
	edit(cm)
	_, err = client.CoreV1().ConfigMaps(namespace).Update(t.Context(), cm, metav1.UpdateOptions{})
	must(t, err)
}

func TestDamageIsNamedAndMended(t *testing.T) {
	const part, main = "wasm-ccm-module-main-a0", "wasm-ccm-provider-main"
	recordWith := func(edit func(map[string]any)) func(*corev1.ConfigMap) {
		return func(cm *corev1.ConfigMap) {
			var r map[string]any
			if err := json.Unmarshal([]byte(cm.Data["record"]), &r); err != nil {
				panic(err)
			}
			edit(r["bundles"].([]any)[0].(map[string]any))
			text, err := json.Marshal(r)
			if err != nil {
				panic(err)
			}
			cm.Data["record"] = string(text)
		}
	}
	for name, c := range map[string]struct {
		object string
		edit   func(*corev1.ConfigMap)
		text   string
	}{
		"flipped bit":     {part, func(cm *corev1.ConfigMap) { cm.BinaryData["part"][9] ^= 1 }, "kube-system/" + part},
		"emptied part":    {part, func(cm *corev1.ConfigMap) { cm.BinaryData = nil }, "kube-system/" + part},
		"no JSON":         {main, func(cm *corev1.ConfigMap) { cm.Data["record"] = "mine" }, "kube-system/" + main},
		"huge record":     {main, func(cm *corev1.ConfigMap) { cm.Data["record"] = strings.Repeat(" ", 600<<10) }, "more than"},
		"other set":       {main, recordWith(func(b map[string]any) { b["set"] = "../d" }), "set"},
		"set not written": {main, recordWith(func(b map[string]any) { b["set"] = "b" }), "does not exist"},
		"no parts":        {main, recordWith(func(b map[string]any) { b["parts"] = []string{} }), "parts"},
		"other revision":  {main, recordWith(func(b map[string]any) { b["revision"] = "2" }), "not among the saved ones"},
		"longer module":   {main, recordWith(func(b map[string]any) { b["module"].(map[string]any)["bytes"] = 101 }), "should have"},
		"huge module":     {main, recordWith(func(b map[string]any) { b["module"].(map[string]any)["bytes"] = 1 << 40 }), "bytes"},
		"negative module": {main, recordWith(func(b map[string]any) { b["module"].(map[string]any)["bytes"] = -1 }), "bytes"},
		"module's digest": {main, recordWith(func(b map[string]any) { b["module"].(map[string]any)["digest"] = "x" }), "digest"},
	} {
		t.Run(name, func(t *testing.T) {
			client := fake.NewClientset()
			b := bundle("1", noise(1, 100))
			must(t, object(client).Save(t.Context(), record(b, 1), []source.Bundle{b}))
			change(t, client, c.object, c.edit)
			o := object(client)
			r, loaded, err := load(t, o)
			if !errors.Is(err, status.ErrDamaged) || !strings.Contains(err.Error(), c.text) || loaded != nil {
				t.Errorf("Load = %+v, %v, %v; want a damage with %q", r, loaded, err, c.text)
			}
			next := bundle("2", noise(2, 100))
			r = record(next, 2)
			r.Saved = append(r.Saved, saved(b))
			must(t, o.Save(t.Context(), r, []source.Bundle{b, next}))
			wantLoad(t, client, r, &next)
			wantBundles(t, client, b) // the same one, which was damaged
		})
	}
}

func TestDeletedRecordStillHasItsBundle(t *testing.T) {
	client := fake.NewClientset()
	b := bundle("1", []byte("m"))
	o := object(client)
	must(t, o.Save(t.Context(), record(b, 1), []source.Bundle{b}))
	must(t, client.CoreV1().ConfigMaps(namespace).Delete(t.Context(), o.Name(), metav1.DeleteOptions{}))
	must(t, o.Save(t.Context(), record(b, 2), nil))
	wantLoad(t, client, record(b, 2), &b)
}

func TestRecordIsBounded(t *testing.T) {
	client := fake.NewClientset()
	var r rollout.Record
	for i := range 100 {
		r.Refused = append(r.Refused, rollout.Refusal{Revision: rollout.Revision{Bundle: fmt.Sprint(i)}, Message: strings.Repeat("é<\x1b", 1000)})
	}
	must(t, object(client).Save(t.Context(), r, nil))
	got, err := object(client).Load(t.Context())
	must(t, err)
	if len(got.Refused) != 32 || got.Refused[31].Revision.Bundle != "99" || got.Refused[0].Revision.Bundle != "68" || len(got.Refused[31].Message) > 1024 || strings.Contains(got.Refused[0].Message, "\x1b") {
		t.Errorf("%d refusals, the first one %+v", len(got.Refused), got.Refused[0])
	}
}

// TestTheLongestRecordIsRead: whatever texts others make, what is written can be
// read again.
func TestTheLongestRecordIsRead(t *testing.T) {
	client := fake.NewClientset()
	long := strings.Repeat(`<"`, 2000)
	v := v1alpha1.Module{Name: long, Version: long, Digest: long, ConfigDigest: long, Revision: long, ImageDigest: long, Engine: long}
	r := rollout.Record{Saved: []rollout.Saved{{Module: v}, {Module: v}, {Module: v}}}
	for range 100 {
		r.Refused = append(r.Refused, rollout.Refusal{Revision: rollout.Revision{Module: long, Bundle: long, Terms: long}, Scope: rollout.Scope(long), Phase: rollout.Phase(long), Reason: long, Message: long})
		r.History = append(r.History, rollout.Served{Module: v, Why: long, By: long, Calls: -1, Failures: math.MaxInt, Questions: math.MaxInt})
	}
	r.History[0].By = "admin\x1b[2J"
	must(t, object(client).Save(t.Context(), r, nil))
	got, err := object(client).Load(t.Context())
	must(t, err)
	if len(got.Refused) != 32 || len(got.History) != 32 {
		t.Fatalf("%d refusals and %d generations, want 32 of each", len(got.Refused), len(got.History))
	}
	if first, last := got.History[0], got.History[31]; first.By != "admin?[2J" || first.Calls != 0 || len(last.Why) > 1024 || len(last.By) > 256 || len(last.Name) > 256 {
		t.Errorf("the generations are not bounded: %+v, %+v", first, last)
	}
}

func TestWhatServedIsKept(t *testing.T) {
	client := fake.NewClientset()
	b := bundle("1", []byte("m"))
	r := record(b, 2)
	r.History = []rollout.Served{
		{Module: r.Saved[0].Module, Generation: 2, Offered: now, From: now, Kept: now, Calls: 214, Questions: 12, By: "jane"},
		{Module: v1alpha1.Module{Digest: "e"}, Generation: 1, From: now, Until: now, Failures: 1, Why: "Replaced"},
	}
	must(t, object(client).Save(t.Context(), r, []source.Bundle{b}))
	wantLoad(t, client, r, &b)
}

func TestMissingRightsAreNamed(t *testing.T) {
	b := bundle("1", []byte("m"))
	for verb, want := range map[string]string{
		"get":    `resourceNames: ["wasm-ccm-provider-main"], verbs: ["get"]}`,
		"update": `resourceNames: ["wasm-ccm-module-main-a0"], verbs: ["update"]}`,
		"create": `resources: ["configmaps"], verbs: ["create"]}`,
		"patch":  `resourceNames: ["wasm-ccm-provider-main"], verbs: ["patch"]} and {apiGroups: [""], resources: ["configmaps"], verbs: ["create"]}`,
	} {
		client := fake.NewClientset()
		client.PrependReactor(verb, "configmaps", func(clienttesting.Action) (bool, runtime.Object, error) {
			return true, nil, apierrors.NewForbidden(corev1.Resource("configmaps"), "n", errors.New("no"))
		})
		if err := object(client).Save(t.Context(), record(b, 1), []source.Bundle{b}); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", verb, err, want)
		}
	}
}

// applied counts the writes of the status, and has a say in them.
type applied struct {
	mu     sync.Mutex
	err    error
	writes []string
	done   chan struct{}
}

func (a *applied) react(action clienttesting.Action) (bool, runtime.Object, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.writes = append(a.writes, string(action.(clienttesting.PatchAction).GetPatch()))
	a.done <- struct{}{}
	return a.err != nil, nil, a.err
}

func (a *applied) fail(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.err = err
}

func (a *applied) wait(t *testing.T) {
	t.Helper()
	select {
	case <-a.done:
	case <-time.After(30 * time.Second):
		t.Fatal("nothing was written")
	}
}

func (a *applied) want(t *testing.T, messages ...string) {
	t.Helper()
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.writes) != len(messages) {
		t.Fatalf("%d writes, want %d: %q", len(a.writes), len(messages), a.writes)
	}
	for i, m := range messages {
		if !strings.Contains(a.writes[i], "message: "+m) {
			t.Errorf("write %d is %s, want %s", i, a.writes[i], m)
		}
	}
}

// runFaked runs an Object on a clock that stands still.
func runFaked(t *testing.T) (*status.Object, *applied, *clocktesting.FakeClock) {
	t.Helper()
	client := fake.NewClientset()
	a := &applied{done: make(chan struct{}, 100)}
	client.PrependReactor("patch", "configmaps", a.react)
	clock := clocktesting.NewFakeClock(now)
	o := status.New(client, namespace, "main", clock)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		o.Run(ctx, func(c status.Command) { t.Errorf("command %+v", c) })
	}()
	t.Cleanup(func() { cancel(); <-ended })
	return o, a, clock
}

// waits until Run sleeps until something is due.
func waits(t *testing.T, clock *clocktesting.FakeClock) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); !clock.HasWaiters(); {
		if time.Now().After(end) {
			t.Fatal("nobody waits")
		}
	}
}

func TestStatusesAreCoalesced(t *testing.T) {
	o, a, clock := runFaked(t)
	o.Publish(status.Status{Provider: v1alpha1.Provider{Message: "first"}})
	a.wait(t)
	for i := range 1000 {
		o.Publish(status.Status{Provider: v1alpha1.Provider{Message: fmt.Sprint("m", i)}})
	}
	o.Publish(status.Status{Provider: v1alpha1.Provider{Message: "newest"}})
	waits(t, clock)
	clock.Step(199 * time.Millisecond)
	a.want(t, "first")
	clock.Step(time.Millisecond)
	a.wait(t)
	a.want(t, "first", "newest")
}

func TestStatusesAreTriedAgain(t *testing.T) {
	o, a, clock := runFaked(t)
	a.fail(errors.New("the API server is away"))
	o.Publish(status.Status{Provider: v1alpha1.Provider{Message: "old"}})
	a.wait(t)
	waits(t, clock)
	o.Publish(status.Status{Provider: v1alpha1.Provider{Message: "new"}})
	clock.Step(400 * time.Millisecond)
	a.want(t, "old")
	clock.Step(200 * time.Millisecond)
	a.wait(t)
	waits(t, clock)
	a.fail(nil)
	clock.Step(600 * time.Millisecond)
	a.want(t, "old", "new") // the delay doubles
	clock.Step(600 * time.Millisecond)
	a.wait(t)
	a.want(t, "old", "new", "new")
}

func TestPublishNeverBlocks(t *testing.T) {
	o := object(fake.NewClientset())
	for range 1000 { // nobody runs
		o.Publish(status.Status{Provider: v1alpha1.Provider{Message: "m"}})
	}
}

// A write that hangs keeps the next one of this manager waiting, which says so when its
// time is over, and writes nothing.
func TestAWriteThatHangsIsNamed(t *testing.T) {
	client := fake.NewClientset()
	hangs, goes := make(chan struct{}), make(chan struct{})
	client.PrependReactor("create", "configmaps", func(clienttesting.Action) (bool, runtime.Object, error) {
		close(hangs)
		<-goes
		return false, nil, nil
	})
	o := object(client)
	var first error
	var wg sync.WaitGroup
	wg.Go(func() {
		first = o.ChangeTrials(t.Context(), func(string) (string, error) { return "first", nil })
	})
	<-hangs
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	err := o.ChangeBrake(ctx, func(string) (string, error) { return "second", nil })
	if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "kube-system/wasm-ccm-provider-main") {
		t.Errorf("error %v", err)
	}
	close(goes)
	wg.Wait()
	must(t, first)
	must(t, o.ChangeBrake(t.Context(), func(text string) (string, error) { return text + "third", nil }))
	cm, err := client.CoreV1().ConfigMaps(namespace).Get(t.Context(), o.Name(), metav1.GetOptions{})
	must(t, err)
	if cm.Data["trials"] != "first" || cm.Data["deletionBrake"] != "third" {
		t.Errorf("%v", cm.Data)
	}
}
