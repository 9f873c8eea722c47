// Package objects has Services, Nodes and PersistentVolumes as other software
// makes them: charts, operators, kubeadm, autoscalers, CSI drivers. They are as kubectl get -o yaml shows them,
// written after the public documentation of that software. Tests take these
// instead of objects with nothing but a name.
//
// It is for tests, and imports nothing of this project.
package objects

import (
	"embed"
	"fmt"
	"path"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

//go:embed services nodes volumes
var files embed.FS

// Services returns every Service, by the name of its file; the caller may
// change them.
func Services(t testing.TB) map[string]*corev1.Service {
	t.Helper()
	return read[corev1.Service](t, "services")
}

// Nodes returns every Node, by the name of its file; the caller may change
// them.
func Nodes(t testing.TB) map[string]*corev1.Node {
	t.Helper()
	return read[corev1.Node](t, "nodes")
}

// Volumes returns every PersistentVolume, by the name of its file; the caller
// may change them.
func Volumes(t testing.TB) map[string]*corev1.PersistentVolume {
	t.Helper()
	return read[corev1.PersistentVolume](t, "volumes")
}

func read[T any](t testing.TB, dir string) map[string]*T {
	t.Helper()
	entries, err := files.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]*T{}
	for _, entry := range entries {
		object, err := decode[T](path.Join(dir, entry.Name()))
		if err != nil {
			t.Fatal(err)
		}
		all[entry.Name()] = object
	}
	return all
}

func decode[T any](name string) (*T, error) {
	data, err := files.ReadFile(name)
	if err != nil {
		return nil, err
	}
	object := new(T)
	if err := yaml.UnmarshalStrict(data, object); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return object, nil
}

// Balanced reports whether a Service is one that the cloud's load balancers
// serve now: it is not being deleted, and of no class.
func Balanced(s *corev1.Service) bool {
	return s.Spec.Type == corev1.ServiceTypeLoadBalancer && s.Spec.LoadBalancerClass == nil && s.DeletionTimestamp == nil
}

// NewService returns the Service as somebody sends it to an API server for the
// first time, to a namespace and a cluster of one IP family: without what an
// API server or a controller has set.
func NewService(s *corev1.Service, namespace string) *corev1.Service {
	n := s.DeepCopy()
	n.ObjectMeta = created(&s.ObjectMeta)
	n.Namespace = namespace
	n.Spec.ClusterIP, n.Spec.ClusterIPs, n.Spec.HealthCheckNodePort = "", nil, 0
	n.Spec.IPFamilies, n.Spec.IPFamilyPolicy = nil, nil
	for i := range n.Spec.Ports {
		n.Spec.Ports[i].NodePort = 0
	}
	n.Status = corev1.ServiceStatus{}
	return n
}

// NewNode returns the Node as its kubelet registers it.
func NewNode(o *corev1.Node) *corev1.Node {
	n := o.DeepCopy()
	n.ObjectMeta = created(&o.ObjectMeta)
	return n
}

// created is what a client may set. Finalizers go: nobody here removes those
// of other controllers.
func created(m *metav1.ObjectMeta) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: m.Name, Labels: m.Labels, Annotations: m.Annotations, OwnerReferences: m.OwnerReferences}
}
