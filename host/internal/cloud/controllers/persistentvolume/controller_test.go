package persistentvolume

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	k8stesting "k8s.io/client-go/testing"
	cloudprovider "k8s.io/cloud-provider"
	cloudproviderapi "k8s.io/cloud-provider/api"
)

const (
	zone   = corev1.LabelTopologyZone
	region = corev1.LabelTopologyRegion
)

type fakeLabeler struct {
	labels   func(pv *corev1.PersistentVolume) (map[string]string, error)
	supports func() bool
	asked    atomic.Int32
}

func (f *fakeLabeler) GetLabelsForVolume(_ context.Context, pv *corev1.PersistentVolume) (map[string]string, error) {
	f.asked.Add(1)
	return f.labels(pv)
}

func (f *fakeLabeler) Supports() bool { return f.supports == nil || f.supports() }

func answers(labels map[string]string) *fakeLabeler {
	return &fakeLabeler{labels: func(*corev1.PersistentVolume) (map[string]string, error) { return labels, nil }}
}

// loop is a running controller and the API that it works on.
type loop struct {
	*Controller
	api *fake.Clientset
	t   *testing.T
}

func newLoop(t *testing.T, labeler Labeler, volumes ...runtime.Object) *loop {
	t.Helper()
	return startLoop(t, labeler, fake.NewClientset(volumes...))
}

// startLoop does it with an API whose reactions are complete: they may not be
// added to while somebody asks.
func startLoop(t *testing.T, labeler Labeler, api *fake.Clientset) *loop {
	t.Helper()
	factory := informers.NewSharedInformerFactory(api, 0)
	c, err := NewController(api, factory.Core().V1().PersistentVolumes(), labeler)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	factory.Start(ctx.Done())
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		c.Run(ctx, 2)
	}()
	t.Cleanup(func() {
		cancel()
		<-stopped
		factory.Shutdown()
	})
	return &loop{Controller: c, api: api, t: t}
}

func (l *loop) eventually(what string, condition func() bool) {
	l.t.Helper()
	err := wait.PollUntilContextTimeout(l.t.Context(), 5*time.Millisecond, 20*time.Second, true,
		func(context.Context) (bool, error) { return condition(), nil })
	if err != nil {
		l.t.Fatalf("%s: %v", what, err)
	}
}

func (l *loop) get(name string) *corev1.PersistentVolume {
	l.t.Helper()
	pv, err := l.api.CoreV1().PersistentVolumes().Get(l.t.Context(), name, metav1.GetOptions{})
	if err != nil {
		l.t.Fatal(err)
	}
	return pv
}

func (l *loop) patches() (n int) {
	for _, action := range l.api.Actions() {
		if action.GetVerb() == "patch" {
			n++
		}
	}
	return n
}

func volume(name string, change ...func(*corev1.PersistentVolume)) *corev1.PersistentVolume {
	pv := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PersistentVolumeSpec{PersistentVolumeSource: corev1.PersistentVolumeSource{
			CSI: &corev1.CSIPersistentVolumeSource{Driver: "csi.example.org", VolumeHandle: name}}},
	}
	for _, f := range change {
		f(pv)
	}
	return pv
}

func labelled(labels map[string]string) func(*corev1.PersistentVolume) {
	return func(pv *corev1.PersistentVolume) { pv.Labels = labels }
}

func requires(requirements ...corev1.NodeSelectorRequirement) *corev1.VolumeNodeAffinity {
	return &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: requirements}}}}
}

func in(key string, values ...string) corev1.NodeSelectorRequirement {
	return corev1.NodeSelectorRequirement{Key: key, Operator: corev1.NodeSelectorOpIn, Values: values}
}

func TestVolumesAreLabelled(t *testing.T) {
	local := requires(in(corev1.LabelHostname, "n1"))
	tests := map[string]struct {
		volume       *corev1.PersistentVolume
		answer       map[string]string
		wantLabels   map[string]string
		wantAffinity *corev1.VolumeNodeAffinity
	}{
		"zone and region": {
			volume("pv"), map[string]string{zone: "z1", region: "r1"},
			map[string]string{zone: "z1", region: "r1"}, requires(in(region, "r1"), in(zone, "z1")),
		},
		"several zones": {
			volume("pv"), map[string]string{zone: "b__a"},
			map[string]string{zone: "b__a"}, requires(in(zone, "a", "b")),
		},
		"other labels are no requirement": {
			volume("pv"), map[string]string{zone: "z1", "example.org/tier": "gold"},
			map[string]string{zone: "z1", "example.org/tier": "gold"}, requires(in(zone, "z1")),
		},
		"a user's labels stay": {
			volume("pv", labelled(map[string]string{region: "mine", "app": "db"})), map[string]string{zone: "z1", region: "r1"},
			map[string]string{zone: "z1", region: "mine", "app": "db"}, requires(in(region, "r1"), in(zone, "z1")),
		},
		"an affinity stays": {
			volume("pv", func(pv *corev1.PersistentVolume) { pv.Spec.NodeAffinity = local }), map[string]string{zone: "z1"},
			map[string]string{zone: "z1"}, local,
		},
		"beta keys": {
			volume("pv"), map[string]string{corev1.LabelFailureDomainBetaZone: "z1"},
			map[string]string{corev1.LabelFailureDomainBetaZone: "z1"}, requires(in(corev1.LabelFailureDomainBetaZone, "z1")),
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			l := newLoop(t, answers(test.answer), test.volume)
			l.eventually("patched", func() bool { return l.patches() == 1 })
			got := l.get("pv")
			if diff := cmp.Diff(test.wantLabels, got.Labels); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(test.wantAffinity, got.Spec.NodeAffinity); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestPatchIsGuarded(t *testing.T) {
	pv := volume("pv", func(pv *corev1.PersistentVolume) { pv.UID, pv.ResourceVersion = "u", "7" })
	got, err := patchFor(pv, map[string]string{"example.org/tier": "gold"})
	if err != nil {
		t.Fatal(err)
	}
	want := `{"metadata":{"uid":"u","resourceVersion":"7","labels":{"example.org/tier":"gold"}}}`
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Error(diff)
	}
}

func TestVolumesThatAreLeftAlone(t *testing.T) {
	tests := map[string]struct {
		volume *corev1.PersistentVolume
		answer map[string]string
	}{
		"zone by a user":      {volume("pv", labelled(map[string]string{zone: "mine"})), map[string]string{zone: "z1"}},
		"beta zone by a user": {volume("pv", labelled(map[string]string{corev1.LabelFailureDomainBetaZone: "mine"})), map[string]string{zone: "z1"}},
		"being deleted": {volume("pv", func(pv *corev1.PersistentVolume) {
			pv.DeletionTimestamp, pv.Finalizers = &metav1.Time{Time: time.Unix(1, 0)}, []string{"example.org/f"}
		}), map[string]string{zone: "z1"}},
		"not the cloud's":          {volume("pv"), nil},
		"everything there already": {volume("pv", labelled(map[string]string{"a": "b"})), map[string]string{"a": "b"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			labeler := answers(test.answer)
			l := newLoop(t, labeler, test.volume)
			l.eventually("synced", l.synced)
			if err := l.sync(t.Context(), "pv"); err != nil {
				t.Fatal(err)
			}
			l.eventually("queue empty", func() bool { return l.queue.Len() == 0 })
			if n := l.patches(); n != 0 {
				t.Errorf("%d patches", n)
			}
			if diff := cmp.Diff(test.volume.Labels, l.get("pv").Labels); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestAnAnswerIsAskedForAgainOnlyAfterAChange(t *testing.T) {
	labeler := answers(nil)
	l := newLoop(t, labeler, volume("pv"))
	l.eventually("asked", func() bool { return labeler.asked.Load() == 1 })

	bound := l.get("pv")
	bound.Status.Phase = corev1.VolumeBound
	bound.Spec.ClaimRef = &corev1.ObjectReference{Name: "claim"}
	update(t, l, bound)
	moved := l.get("pv")
	moved.Annotations = map[string]string{"example.org/moved": "true"}
	update(t, l, moved)

	l.eventually("asked after the change", func() bool { return labeler.asked.Load() >= 2 })
	l.eventually("queue empty", func() bool { return l.queue.Len() == 0 })
	if n := labeler.asked.Load(); n != 2 {
		t.Errorf("asked %d times, want once for the volume and once for its change, not for its binding", n)
	}
	if !changed(bound, moved) || changed(moved, moved.DeepCopy()) {
		t.Error("a resync counts as a change, or a change does not")
	}
}

func update(t *testing.T, l *loop, pv *corev1.PersistentVolume) {
	t.Helper()
	if _, err := l.api.CoreV1().PersistentVolumes().Update(t.Context(), pv, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func TestErrorsAreRetried(t *testing.T) {
	for name, failure := range map[string]error{
		"any":        errors.New("cloud is down"),
		"with delay": cloudproviderapi.NewRetryError("in progress", time.Millisecond),
	} {
		t.Run(name, func(t *testing.T) {
			labeler := &fakeLabeler{}
			labeler.labels = func(*corev1.PersistentVolume) (map[string]string, error) {
				if labeler.asked.Load() == 1 {
					return nil, failure
				}
				return map[string]string{zone: "z1"}, nil
			}
			l := newLoop(t, labeler, volume("pv"))
			l.eventually("labelled", func() bool { return l.get("pv").Labels[zone] == "z1" })
		})
	}
}

func TestConflictIsRetried(t *testing.T) {
	labeler := answers(map[string]string{zone: "z1"})
	client := fake.NewClientset()
	var refused atomic.Bool
	client.PrependReactor("patch", "persistentvolumes", func(k8stesting.Action) (bool, runtime.Object, error) {
		if refused.CompareAndSwap(false, true) {
			return true, nil, errors.New("the object has been modified")
		}
		return false, nil, nil
	})
	l := startLoop(t, labeler, client)
	if _, err := client.CoreV1().PersistentVolumes().Create(t.Context(), volume("pv"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	l.eventually("labelled", func() bool { return l.get("pv").Labels[zone] == "z1" })
	if !refused.Load() {
		t.Error("nothing was refused")
	}
}

func TestNotImplementedIsNotRetried(t *testing.T) {
	labeler := &fakeLabeler{labels: func(*corev1.PersistentVolume) (map[string]string, error) { return nil, cloudprovider.NotImplemented }}
	l := newLoop(t, labeler, volume("pv"))
	l.eventually("asked", func() bool { return labeler.asked.Load() == 1 })
	if err := l.sync(t.Context(), "pv"); err != nil {
		t.Errorf("not implemented is an error that is retried: %v", err)
	}
}

// A provider that is replaced may be without support for a moment.
func TestSupportThatComesBack(t *testing.T) {
	var supported atomic.Bool
	labeler := answers(map[string]string{zone: "z1"})
	labeler.supports = supported.Load
	l := newLoop(t, labeler, volume("pv"))
	l.eventually("put off", func() bool { return l.queue.NumRequeues("pv") > 0 })
	if n := labeler.asked.Load(); n != 0 {
		t.Fatalf("asked %d times without support", n)
	}
	supported.Store(true)
	l.eventually("labelled", func() bool { return l.get("pv").Labels[zone] == "z1" })
}

func TestInvalidZones(t *testing.T) {
	for _, answer := range []map[string]string{{zone: ""}, {zone: "a____b"}, {region: ""}} {
		if patch, err := patchFor(volume("pv"), answer); err == nil {
			t.Errorf("%v gave the patch %s", answer, patch)
		}
	}
}

func TestHealthCheck(t *testing.T) {
	l := newLoop(t, answers(nil))
	if err := l.HealthChecker().Check(nil); err != nil {
		t.Errorf("idle: %v", err)
	}
	l.busy.start("pv", time.Now())
	if err := l.HealthChecker().Check(nil); err != nil {
		t.Errorf("just started: %v", err)
	}
	l.busy.start("pv", time.Now().Add(-stuckAfter))
	if err := l.HealthChecker().Check(nil); err == nil || !strings.Contains(err.Error(), "PersistentVolume pv") {
		t.Errorf("stuck: %v", err)
	}
	l.busy.end("pv")
	if err := l.HealthChecker().Check(nil); err != nil {
		t.Errorf("after it ended: %v", err)
	}
}
