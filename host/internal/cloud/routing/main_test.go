package routing

import (
	"context"
	"flag"
	"os"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/klog/v2"
)

func TestMain(m *testing.M) {
	klog.InitFlags(nil)
	flag.Parse()
	klog.LogToStderr(false)
	klog.SetOutput(nothing{})
	utilruntime.ErrorHandlers = nil // they sleep by a global's time, which breaks in a bubble
	os.Exit(m.Run())
}

type nothing struct{}

func (nothing) Write(p []byte) (int, error) { return len(p), nil }

// fakeCloud is a cloud of function fields; a nil one is an op that must not be
// called.
type fakeCloud struct {
	cloudprovider.Interface
	noInstances, noLoadBalancer bool

	exists   func(*corev1.Node) (bool, error)
	shutdown func(*corev1.Node) (bool, error)
	metadata func(context.Context, *corev1.Node) (*cloudprovider.InstanceMetadata, error)

	get    func(*corev1.Service) (*corev1.LoadBalancerStatus, bool, error)
	ensure func(*corev1.Service) (*corev1.LoadBalancerStatus, error)
	update func(*corev1.Service) error
	remove func(*corev1.Service) error
}

func (f *fakeCloud) InstancesV2() (cloudprovider.InstancesV2, bool) { return f, !f.noInstances }
func (f *fakeCloud) LoadBalancer() (cloudprovider.LoadBalancer, bool) {
	return f, !f.noLoadBalancer
}
func (f *fakeCloud) Instances() (cloudprovider.Instances, bool) { return nil, true }
func (f *fakeCloud) Zones() (cloudprovider.Zones, bool)         { return nil, true }
func (f *fakeCloud) ProviderName() string                       { return "fake" }
func (f *fakeCloud) HasClusterID() bool                         { return true }

func (f *fakeCloud) InstanceExists(_ context.Context, n *corev1.Node) (bool, error) {
	return f.exists(n)
}
func (f *fakeCloud) InstanceShutdown(_ context.Context, n *corev1.Node) (bool, error) {
	return f.shutdown(n)
}
func (f *fakeCloud) InstanceMetadata(ctx context.Context, n *corev1.Node) (*cloudprovider.InstanceMetadata, error) {
	return f.metadata(ctx, n)
}
func (f *fakeCloud) GetLoadBalancer(_ context.Context, _ string, s *corev1.Service) (*corev1.LoadBalancerStatus, bool, error) {
	return f.get(s)
}
func (f *fakeCloud) GetLoadBalancerName(context.Context, string, *corev1.Service) string {
	return "name"
}
func (f *fakeCloud) EnsureLoadBalancer(_ context.Context, _ string, s *corev1.Service, _ []*corev1.Node) (*corev1.LoadBalancerStatus, error) {
	return f.ensure(s)
}
func (f *fakeCloud) UpdateLoadBalancer(_ context.Context, _ string, s *corev1.Service, _ []*corev1.Node) error {
	return f.update(s)
}
func (f *fakeCloud) EnsureLoadBalancerDeleted(_ context.Context, _ string, s *corev1.Service) error {
	return f.remove(s)
}

func mustNew(t *testing.T, rules ...Rules) *Router {
	t.Helper()
	r, err := New(rules)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// two has the providers a, which is the default and may be asked, and b.
func two(t *testing.T) *Router {
	return mustNew(t,
		Rules{Provider: "a", AskNodes: true, DefaultServices: true, VolumeDrivers: []string{"csi.a"}, VolumeSchemes: []string{"vol-a"}},
		Rules{Provider: "b", Schemes: []string{"b1", "b2"}, AskNodes: true, VolumeDrivers: []string{"csi.b"}, VolumeSchemes: []string{"vol-b"}})
}

func node(id, label string) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", UID: "n1"}, Spec: corev1.NodeSpec{ProviderID: id}}
	if label != "" {
		n.Labels = map[string]string{NodeLabel: label}
	}
	return n
}

func service(owner, choice string) *corev1.Service {
	s := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "u", ResourceVersion: "1"},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, Ports: []corev1.ServicePort{{Port: 80}}},
	}
	if owner != "" {
		s.Labels = map[string]string{ServiceOwnerLabel: owner}
	}
	if choice != "" {
		s.Annotations = map[string]string{ServiceAnnotation: choice}
	}
	return s
}
