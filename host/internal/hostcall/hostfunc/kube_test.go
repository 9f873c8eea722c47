package hostfunc_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/host/internal/hostcall/hostfunc"
)

// fakeKube is a hostfunc.Kube.
type fakeKube struct {
	read  func(*abi.KubeRequest) ([]byte, int, error)
	patch func(*abi.KubeRequest, *corev1.ObjectReference) error
}

func (f fakeKube) Read(_ context.Context, r *abi.KubeRequest) ([]byte, int, error) { return f.read(r) }
func (f fakeKube) Patch(_ context.Context, r *abi.KubeRequest, own *corev1.ObjectReference) error {
	return f.patch(r, own)
}

func TestKubeIsBounded(t *testing.T) {
	cost, patched := 0, 0
	rates := hostfunc.NewRates(hostfunc.Limits{
		KubeCalls: 1, KubeCallsBurst: 3, KubeBytes: 1, KubeBytesBurst: 1000, KubePatches: 1, KubePatchesBurst: 2,
	})
	options := hostfunc.Options{Provider: "p", Logger: logr.Discard(), Rates: rates, Kube: fakeKube{
		read:  func(*abi.KubeRequest) ([]byte, int, error) { return nil, cost, nil },
		patch: func(*abi.KubeRequest, *corev1.ObjectReference) error { patched++; return nil },
	}}
	// In a time that is too short to wait in.
	read := func() error {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		return call(ctx, t, hostfunc.New(options), abi.CapabilityKube, &abi.KubeRequest{Resource: "nodes"}, nil)
	}
	cost = 5000 // more than there ever is: it takes all
	if err := read(); err != nil {
		t.Error(err)
	}
	want(t, read(), abi.CodeThrottled, "too much is read")
	cost = 0
	if err := read(); err != nil {
		t.Error(err)
	}
	want(t, read(), abi.CodeThrottled, "keep what was read")
	patch := &abi.KubeRequest{Resource: "services", Patch: &abi.KubePatch{}}
	for range 2 {
		if err := call(t.Context(), t, hostfunc.New(options), abi.CapabilityKube, patch, nil); err != nil {
			t.Error(err)
		}
	}
	want(t, call(t.Context(), t, hostfunc.New(options), abi.CapabilityKube, patch, nil), abi.CodeThrottled, "too many changes")
	if patched != 2 {
		t.Errorf("%d changes were made", patched)
	}
}

// A provider reads again what it has written. A mark in it, or another answer, would
// tell a right guess of a secret from a wrong one.
func TestPatchesTellNothingOfSecrets(t *testing.T) {
	var got *abi.KubeRequest
	var about *corev1.ObjectReference
	h := hostfunc.New(hostfunc.Options{Provider: "p", Logger: logr.Discard(),
		Scrub: func(s string) string { return strings.ReplaceAll(s, "hunter2", "[scrubbed]") },
		Kube: fakeKube{patch: func(r *abi.KubeRequest, own *corev1.ObjectReference) error {
			got, about = r, own
			return nil
		}}})
	request := &abi.KubeRequest{Patch: &abi.KubePatch{Annotations: map[string]string{"a": "hunter1 hunter2"}, Labels: map[string]string{"c": "hunter2"}}}
	if err := call(onService(t.Context()), t, h, abi.CapabilityKube, request, nil); err != nil {
		t.Fatal(err)
	}
	if p := got.Patch; p == nil || p.Annotations["a"] != "hunter1 hunter2" || p.Labels["c"] != "hunter2" {
		t.Errorf("sent is %v", p)
	}
	if about == nil || about.Kind != "Service" {
		t.Errorf("it is about %v", about)
	}
}
