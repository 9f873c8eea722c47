package kubecache

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

// The readable resources, by their names in requests.
const (
	Nodes          = "nodes"
	Services       = "services"
	EndpointSlices = "endpointslices"
	ConfigMaps     = "configmaps"
	Secrets        = "secrets"
)

// target is the subject of one watch. An empty namespace or name means all.
type target struct{ resource, namespace, name string }

// String is for the log and errors.
func (t target) String() string {
	text := t.resource
	if t.name != "" {
		text += " " + t.name
	}
	if t.namespace != "" {
		text += " in the namespace " + t.namespace
	}
	return text
}

// example is an empty object of the target's type.
func (t target) example() object {
	switch t.resource {
	case Nodes:
		return &corev1.Node{}
	case Services:
		return &corev1.Service{}
	case EndpointSlices:
		return &discoveryv1.EndpointSlice{}
	case ConfigMaps:
		return &corev1.ConfigMap{}
	}
	return &corev1.Secret{}
}

// watcher returns the ListerWatcher of a target.
func (t target) watcher(client kubernetes.Interface, tried func(error)) cache.ListerWatcher {
	core := client.CoreV1()
	w := watcher{client: client, name: t.name, tried: tried}
	switch t.resource {
	case Nodes:
		return listWatch(w, core.Nodes())
	case Services:
		return listWatch(w, core.Services(t.namespace))
	case EndpointSlices:
		return listWatch(w, client.DiscoveryV1().EndpointSlices(t.namespace))
	case ConfigMaps:
		return listWatch(w, core.ConfigMaps(t.namespace))
	}
	return listWatch(w, core.Secrets(t.namespace))
}

// watcher is how a target is watched; tried is told the outcome of each request.
type watcher struct {
	client kubernetes.Interface
	name   string
	tried  func(error)
}

// typed is the common part of client-go's typed clients.
type typed[L runtime.Object] interface {
	List(ctx context.Context, options metav1.ListOptions) (L, error)
	Watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error)
}

func listWatch[L runtime.Object](w watcher, client typed[L]) cache.ListerWatcher {
	return cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			list, err := client.List(ctx, w.only(options))
			w.tried(err)
			return list, err
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			events, err := client.Watch(ctx, w.only(options))
			w.tried(err)
			return events, err
		},
	}, w.client)
}

// only selects by the name, as rights on named objects require.
func (w watcher) only(options metav1.ListOptions) metav1.ListOptions {
	if w.name != "" {
		options.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, w.name).String()
	}
	return options
}

// object is a Kubernetes object that encodes itself.
type object interface {
	runtime.Object
	metav1.Object
	Size() int
	MarshalToSizedBuffer(data []byte) (int, error)
}

// lastApplied repeats the object as kubectl has applied it.
const lastApplied = corev1.LastAppliedConfigAnnotation

// trim removes fields that providers do not need, and fields that change alone. The caller
// owns the object.
func trim(o object) {
	o.SetManagedFields(nil)
	if annotations := o.GetAnnotations(); annotations[lastApplied] != "" {
		delete(annotations, lastApplied)
	}
	if node, ok := o.(*corev1.Node); ok {
		node.Status.Images = nil
		for i := range node.Status.Conditions { // the Lease has the heartbeat
			node.Status.Conditions[i].LastHeartbeatTime = metav1.Time{}
		}
	}
}
