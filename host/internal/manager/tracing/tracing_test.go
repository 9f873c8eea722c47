package tracing_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"go.opentelemetry.io/otel/trace"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/cloud-provider/fake"

	"github.com/wasm-ccm/wasm-ccm/host/config/v1alpha1"
	"github.com/wasm-ccm/wasm-ccm/host/internal/manager/tracing"
)

// An unavailable collector delays nothing.
func TestACollectorThatIsAway(t *testing.T) {
	s := tracing.New("test", "v1")
	off, span := s.Start(t.Context(), "off")
	if tracing.End(span, nil); trace.SpanContextFromContext(off).IsValid() {
		t.Error("a span without a configuration")
	}
	next, err := s.Prepare(t.Context(), &v1alpha1.Tracing{Endpoint: "127.0.0.1:1", SamplingRatePerMillion: 1_000_000})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Use(t.Context(), next); err != nil {
		t.Fatal(err)
	}
	on, span := s.Start(t.Context(), "on")
	if tracing.End(span, errors.New("an error")); !trace.SpanContextFromContext(on).IsSampled() {
		t.Error("no span")
	}
	ended := make(chan error)
	go func() { ended <- s.Close(context.WithoutCancel(t.Context())) }()
	select {
	case err := <-ended:
		if err == nil {
			t.Error("who gets them?")
		}
	case <-time.After(time.Minute):
		t.Fatal("the end waits for the collector")
	}
}

// Cloud keeps the set of a cloud's supported interfaces.
func TestCloudStaysAsItIs(t *testing.T) {
	inner := &fake.Cloud{EnableInstancesV2: true, ExistsByProviderID: true}
	cloud := tracing.New("test", "v1").Cloud("a", inner)
	instances, ok := cloud.InstancesV2()
	if !ok {
		t.Fatal("no instances")
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}
	if exists, err := instances.InstanceExists(t.Context(), node); !exists || err != nil {
		t.Error(exists, err)
	}
	inner.ErrByProviderID = cloudprovider.InstanceNotFound
	if _, err := instances.InstanceExists(t.Context(), node); !errors.Is(err, cloudprovider.InstanceNotFound) {
		t.Error(err)
	}
	inner.EnableInstancesV2 = false
	if _, ok := cloud.InstancesV2(); ok {
		t.Error("instances")
	}
}
