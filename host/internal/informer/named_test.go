package informer

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	kubetesting "k8s.io/client-go/testing"
)

func configMap(value string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "n"}, Data: map[string]string{"k": value}}
}

func run(t *testing.T, n interface {
	Run(context.Context, func(Event))
}) <-chan Event {
	t.Helper()
	events, ended := make(chan Event, 100), make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		defer close(ended)
		n.Run(ctx, func(e Event) { events <- e })
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
	})
	return events
}

func want(t *testing.T, events <-chan Event, want Event) {
	t.Helper()
	select {
	case got := <-events:
		if got != want {
			t.Fatalf("event %d, want %d", got, want)
		}
	case <-time.After(time.Minute):
		t.Fatalf("no event, want %d", want)
	}
}

func TestAnObjectComesAndGoes(t *testing.T) {
	client := fake.NewClientset()
	n := ConfigMap(client, types.NamespacedName{Namespace: "ns", Name: "n"})
	if _, err := n.Get(); !errors.Is(err, ErrPending) {
		t.Errorf("before it was asked for: %v", err)
	}
	events := run(t, n)
	want(t, events, Listed)
	if cm, err := n.Get(); cm != nil || err != nil {
		t.Fatalf("%v, %v", cm, err)
	}
	configMaps := client.CoreV1().ConfigMaps("ns")
	for i, change := range []func() error{
		func() error {
			_, err := configMaps.Create(t.Context(), configMap("0"), metav1.CreateOptions{})
			return err
		},
		func() error {
			_, err := configMaps.Update(t.Context(), configMap("1"), metav1.UpdateOptions{})
			return err
		},
	} {
		if err := change(); err != nil {
			t.Fatal(err)
		}
		want(t, events, Changed)
		if cm, err := n.Get(); err != nil || cm.Data["k"] != string(rune('0'+i)) {
			t.Fatalf("%v, %v", cm, err)
		}
	}
	if err := configMaps.Delete(t.Context(), "n", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	want(t, events, Deleted)
	if cm, err := n.Get(); cm != nil || err != nil {
		t.Fatalf("%v, %v", cm, err)
	}
}

// An existing object is one event, and the requests name only this object.
func TestAnObjectThatIsThere(t *testing.T) {
	client := fake.NewClientset(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "n"}})
	n := Secret(client, types.NamespacedName{Namespace: "ns", Name: "n"})
	want(t, run(t, n), Listed)
	if secret, err := n.Get(); err != nil || secret == nil {
		t.Fatalf("%v, %v", secret, err)
	}
	for _, action := range client.Actions() {
		fields := ""
		switch a := action.(type) {
		case kubetesting.ListAction:
			fields = a.GetListRestrictions().Fields.String()
		case kubetesting.WatchAction:
			fields = a.GetWatchRestrictions().Fields.String()
		}
		if fields != "metadata.name=n" || action.GetNamespace() != "ns" {
			t.Errorf("%s of %q in %q", action.GetVerb(), fields, action.GetNamespace())
		}
	}
}

// A failed list is reported with its error, and retried.
func TestAListThatFails(t *testing.T) {
	client := fake.NewClientset(configMap("0"))
	var allowed atomic.Bool
	client.PrependReactor("list", "configmaps", func(kubetesting.Action) (bool, runtime.Object, error) {
		return !allowed.Load(), nil, apierrors.NewForbidden(corev1.Resource("configmaps"), "n", errors.New("no"))
	})
	n := ConfigMap(client, types.NamespacedName{Namespace: "ns", Name: "n"})
	events := run(t, n)
	want(t, events, Failed)
	if _, err := n.Get(); !apierrors.IsForbidden(err) {
		t.Errorf("%v", err)
	}
	allowed.Store(true)
	for e := range events {
		if e == Listed {
			break
		}
	}
	if cm, err := n.Get(); err != nil || cm.Data["k"] != "0" {
		t.Errorf("%v, %v", cm, err)
	}
}
