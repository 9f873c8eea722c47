package brake_test

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	cloudprovider "k8s.io/cloud-provider"
)

// What upstream's controller needs of Kubernetes.

type cloud struct {
	cloudprovider.Interface
	instances cloudprovider.InstancesV2
}

func (c *cloud) Instances() (cloudprovider.Instances, bool)     { return nil, false }
func (c *cloud) InstancesV2() (cloudprovider.InstancesV2, bool) { return c.instances, true }

type informer struct {
	coreinformers.NodeInformer
	lister corelisters.NodeLister
}

func (i informer) Lister() corelisters.NodeLister { return i.lister }

type client struct {
	kubernetes.Interface
	w *world
}

func (c client) CoreV1() corev1client.CoreV1Interface { return core{w: c.w} }

type core struct {
	corev1client.CoreV1Interface
	w *world
}

func (c core) Nodes() corev1client.NodeInterface       { return nodesAPI{w: c.w} }
func (core) Events(string) corev1client.EventInterface { return eventsAPI{} }

type eventsAPI struct{ corev1client.EventInterface }

func (eventsAPI) CreateWithEventNamespace(e *corev1.Event) (*corev1.Event, error) {
	return e, nil
}

func (eventsAPI) PatchWithEventNamespace(e *corev1.Event, _ []byte) (*corev1.Event, error) {
	return e, nil
}

type nodesAPI struct {
	corev1client.NodeInterface
	w *world
}

func (n nodesAPI) Delete(_ context.Context, name string, _ metav1.DeleteOptions) error {
	w := n.w
	w.mu.Lock()
	defer w.mu.Unlock()
	item, ok, _ := w.nodes.GetByKey(name)
	if !ok {
		return nil // two managers at the same time
	}
	m := w.machines[name]
	d := deletion{node: item.(*corev1.Node), after: time.Since(w.start), exists: m.exists, beat: m.renewal()}
	if time.Since(m.back) <= time.Second { // while it was decided
		d.beat = m.before
	}
	for _, other := range w.nodes.List() {
		other := other.(*corev1.Node)
		c := other.Status.Conditions[3]
		is := c.Status == corev1.ConditionTrue || time.Since(c.LastTransitionTime.Time) <= time.Second // while it was decided
		if other.Name == name {
			is = false
		}
		if is {
			d.ready++
		}
		if _, control := other.Labels["node-role.kubernetes.io/control-plane"]; control && is {
			d.control[0]++
		} else if control {
			d.control[1]++
		}
	}
	w.deleted = append(w.deleted, d)
	return w.nodes.Delete(item)
}
