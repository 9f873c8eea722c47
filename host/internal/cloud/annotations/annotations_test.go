package annotations

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata/fake"
	"k8s.io/client-go/tools/record"
)

func testKeys() *Keys {
	return NewKeys("wasm-ccm.dev",
		Key{Kind: "Service", Name: "wasm-ccm.dev/provider"},
		Key{Kind: "Service", Label: true, Name: "wasm-ccm.dev/load-balancer-provider"},
		Key{Kind: "Node", Label: true, Name: "wasm-ccm.dev/provider"},
		Key{Kind: "Service", Name: "static.wasm-ccm.dev/pool"},
		Key{Kind: "Service", Name: "static.wasm-ccm.dev/addresses"},
	)
}

func TestUnread(t *testing.T) {
	for _, test := range []struct {
		kind, annotation, label string
		want                    string // "" is nothing
	}{
		// As people and programs write them.
		{kind: "Service", annotation: "wasm-ccm.dev/provider"},
		{kind: "Service", label: "wasm-ccm.dev/load-balancer-provider"},
		{kind: "Node", label: "wasm-ccm.dev/provider"},
		{kind: "Service", annotation: "static.wasm-ccm.dev/pool"},
		{kind: "Service", annotation: "kubectl.kubernetes.io/last-applied-configuration"},
		{kind: "Service", annotation: "service.beta.kubernetes.io/aws-load-balancer-type"},
		{kind: "Service", annotation: "meta.helm.sh/release-name", label: "app.kubernetes.io/managed-by"},
		{kind: "Service", label: "app"},
		{kind: "Service", annotation: "loadbalancer.openstack.org/floating-network-id"},
		{kind: "Service", annotation: "mycloud.wasm-ccm.dev/size"}, // a provider's own
		{kind: "Node", annotation: "cluster.x-k8s.io/machine", label: "node.kubernetes.io/instance-type"},
		// Misspelt.
		{kind: "Service", annotation: "wasm-ccm.dev/provder", want: `unknown annotation "wasm-ccm.dev/provder" of a Service, the nearest known one is the annotation wasm-ccm.dev/provider of a Service`},
		{kind: "Service", annotation: "wasm-cm.dev/provider", want: "annotation wasm-ccm.dev/provider of a Service"},
		{kind: "Service", annotation: "static.wasm-ccm.dev/pools", want: "annotation static.wasm-ccm.dev/pool of a Service"},
		{kind: "Service", annotation: "statics.wasm-ccm.dev/pool", want: "annotation static.wasm-ccm.dev/pool of a Service"},
		{kind: "Service", annotation: "static.wasm-ccm.dev/address-pool", want: "nearest"},
		{kind: "Service", annotation: "wasm-ccm.dev/something-else", want: "unknown"},
		{kind: "Node", label: "wasm-ccm.dev/Provider", want: "label wasm-ccm.dev/provider of a Node"},
		// At the wrong place.
		{kind: "Service", label: "wasm-ccm.dev/provider", want: "unknown label wasm-ccm.dev/provider of a Service: it must be the annotation wasm-ccm.dev/provider of a Service"},
		{kind: "Node", annotation: "wasm-ccm.dev/provider", want: "it must be the label wasm-ccm.dev/provider of a Node"},
	} {
		var annotations, labels map[string]string
		if test.annotation != "" {
			annotations = map[string]string{test.annotation: "x"}
		}
		if test.label != "" {
			labels = map[string]string{test.label: "x"}
		}
		got := strings.Join(testKeys().unread(test.kind, annotations, labels), "; ")
		if (got == "") != (test.want == "") || !strings.Contains(got, test.want) {
			t.Errorf("%+v: %q", test, got)
		}
	}
}

func TestUnreadIsBounded(t *testing.T) {
	many := map[string]string{}
	for i := range 5000 {
		many[fmt.Sprintf("wasm-ccm.dev/%s%d", strings.Repeat("x", 50), i)] = ""
	}
	if texts := testKeys().unread("Service", many, many); len(texts) > maxUnread {
		t.Errorf("%d texts", len(texts))
	}
}

// An Event on each object, once for each mistake, and few in a time.
func TestReporter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		scheme := fake.NewTestScheme()
		if err := metav1.AddMetaToScheme(scheme); err != nil {
			t.Fatal(err)
		}
		var objects []runtime.Object
		for i := range 20 {
			objects = append(objects, partial("Service", fmt.Sprintf("web-%d", i), "wasm-ccm.dev/provder"))
		}
		objects = append(objects, partial("Service", "right", "wasm-ccm.dev/provider"))
		client := fake.NewSimpleMetadataClient(scheme, objects...)
		recorder := record.NewFakeRecorder(100)
		reporter := NewReporter(testKeys(), client, recorder)
		done := make(chan error)
		go func() { done <- reporter.Run(t.Context()) }()
		t.Cleanup(func() {
			if err := <-done; err != nil {
				t.Error(err)
			}
		})
		time.Sleep(time.Second) // the bubble's clock
		if n := len(recorder.Events); n != eventBurst {
			t.Errorf("%d Events at once, want %d", n, eventBurst)
		}
		time.Sleep(time.Hour)
		if n := len(recorder.Events); n != 20 {
			t.Errorf("%d Events in all, want 20", n)
		}
		if text := <-recorder.Events; !strings.HasPrefix(text, "Warning "+Unread+" unknown annotation") {
			t.Error(text)
		}
	})
}

func partial(kind, name, annotation string) *metav1.PartialObjectMetadata {
	return &metav1.PartialObjectMetadata{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: kind},
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", UID: types.UID(name), Annotations: map[string]string{annotation: ""}},
	}
}
