// Package informer watches single objects by name: rights on named objects
// allow no other watch, and only watched objects are kept in memory.
package informer

import (
	"context"
	"errors"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

// Event is the reason of a handler's call; Get returns the current state.
type Event int

// The events.
const (
	Listed  Event = iota // the first list: the object exists, or does not
	Changed              // later: it was changed, created or deleted
	Deleted
	Failed // a list or watch has failed, and is repeated
)

// ErrPending is Get's error before the first answer.
var ErrPending = errors.New("it was not listed yet")

// Named watches one object. It is safe for concurrent use.
type Named[T runtime.Object] struct {
	name     types.NamespacedName
	informer cache.SharedIndexInformer
	err      atomic.Pointer[error] // of the last attempt
}

// ConfigMap returns the watch of a ConfigMap. The client needs the verbs list
// and watch on it.
func ConfigMap(client kubernetes.Interface, name types.NamespacedName) *Named[*corev1.ConfigMap] {
	return &Named[*corev1.ConfigMap]{name: name,
		informer: coreinformers.NewFilteredConfigMapInformer(client, name.Namespace, 0, cache.Indexers{}, only(name))}
}

// Secret returns the watch of a Secret. The client needs the verbs list and
// watch on it.
func Secret(client kubernetes.Interface, name types.NamespacedName) *Named[*corev1.Secret] {
	return &Named[*corev1.Secret]{name: name,
		informer: coreinformers.NewFilteredSecretInformer(client, name.Namespace, 0, cache.Indexers{}, only(name))}
}

func only(name types.NamespacedName) func(*metav1.ListOptions) {
	selector := fields.OneTermEqualSelector(metav1.ObjectNameField, name.Name).String()
	return func(o *metav1.ListOptions) { o.FieldSelector = selector }
}

// Run watches until the context ends, and returns when its goroutines have
// ended. It may be called once. Several goroutines may call the handler.
func (n *Named[T]) Run(ctx context.Context, handle func(Event)) {
	fail := func(err error) {
		n.err.Store(&err)
		handle(Failed)
	}
	registration, err := n.register(handle, fail)
	if err != nil { // only for an informer that runs or has ended
		fail(err)
		return
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		n.informer.RunWithContext(ctx)
	}()
	select {
	case <-ctx.Done():
	case <-registration.HasSyncedChecker().Done():
		handle(Listed)
	}
	<-ended
}

func (n *Named[T]) register(handle func(Event), fail func(error)) (cache.ResourceEventHandlerRegistration, error) {
	err := n.informer.SetWatchErrorHandlerWithContext(func(ctx context.Context, r *cache.Reflector, err error) {
		cache.DefaultWatchErrorHandler(ctx, r, err)
		fail(err)
	})
	if err != nil {
		return nil, err
	}
	return n.informer.AddEventHandler(cache.ResourceEventHandlerDetailedFuncs{
		AddFunc: func(_ any, isInInitialList bool) {
			if !isInInitialList { // Listed covers the initial list
				handle(Changed)
			}
		},
		UpdateFunc: func(_, _ any) { handle(Changed) },
		DeleteFunc: func(any) { handle(Deleted) },
	})
}

// Get returns the last seen object, nil when it does not exist. The caller must
// not change it. The error is that of a missing first list; after a first list
// the client retries failures, and Get returns the last seen object.
func (n *Named[T]) Get() (object T, err error) {
	if !n.informer.HasSynced() {
		if failed := n.err.Load(); failed != nil {
			return object, *failed
		}
		return object, ErrPending
	}
	seen, _, err := n.informer.GetStore().GetByKey(n.name.String())
	object, _ = seen.(T)
	return object, err
}
