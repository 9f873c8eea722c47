package source

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

// watches follows ConfigMaps of one namespace, each by its name, since rights
// on named ConfigMaps allow nothing else. One goroutine uses it.
type watches struct {
	ctx       context.Context // that of Run, which owns the watches
	client    kubernetes.Interface
	namespace string
	// changed has an entry when one of them may have changed.
	changed chan struct{}
	byName  map[string]*watch
	running sync.WaitGroup
}

func newWatches(ctx context.Context, client kubernetes.Interface, namespace string) *watches {
	return &watches{ctx: ctx, client: client, namespace: namespace, changed: make(chan struct{}, 1), byName: map[string]*watch{}}
}

// follow starts the watches of these names that there are not yet, and ends
// all others.
func (w *watches) follow(names ...string) {
	for name, old := range w.byName {
		if !slices.Contains(names, name) {
			old.cancel()
			delete(w.byName, name)
		}
	}
	for _, name := range names {
		if w.byName[name] == nil {
			w.byName[name] = w.start(name)
		}
	}
}

// close ends all watches and returns when they have ended.
func (w *watches) close() {
	w.follow()
	w.running.Wait()
}

func (w *watches) signal() {
	select {
	case w.changed <- struct{}{}:
	default: // what the signal asks for is yet to come
	}
}

// known reports whether for each name there is a list, or an error.
func (w *watches) known(names ...string) bool {
	return !slices.ContainsFunc(names, func(name string) bool {
		return !w.byName[name].synced() && w.byName[name].err.Load() == nil
	})
}

// get returns a ConfigMap as it was seen last, or nil when it does not exist.
// Once there was a list, errors are of no interest: the client tries again.
func (w *watches) get(name string) (*corev1.ConfigMap, error) {
	one := w.byName[name]
	if !one.synced() {
		return nil, *one.err.Load()
	}
	object, _, err := one.informer.GetStore().GetByKey(types.NamespacedName{Namespace: w.namespace, Name: name}.String())
	cm, _ := object.(*corev1.ConfigMap)
	return cm, err
}

// watch follows one ConfigMap.
type watch struct {
	informer     cache.SharedIndexInformer
	registration cache.ResourceEventHandlerRegistration
	err          atomic.Pointer[error] // of the last attempt to list
	cancel       context.CancelFunc
}

func (w *watch) synced() bool { return w.registration != nil && w.registration.HasSynced() }

func (w *watches) start(name string) *watch {
	ctx, cancel := context.WithCancel(w.ctx)
	one := &watch{cancel: cancel, informer: coreinformers.NewFilteredConfigMapInformer(w.client, w.namespace, 0, cache.Indexers{}, func(o *metav1.ListOptions) {
		o.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, name).String()
	})}
	failed := func(err error) {
		one.err.Store(&err)
		w.signal()
	}
	// Both fail only on an informer that runs already or has ended.
	var err error
	one.registration, err = one.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { w.signal() },
		UpdateFunc: func(_, _ any) { w.signal() },
		DeleteFunc: func(any) { w.signal() },
	})
	if err == nil {
		err = one.informer.SetWatchErrorHandlerWithContext(func(ctx context.Context, r *cache.Reflector, err error) {
			cache.DefaultWatchErrorHandler(ctx, r, err)
			failed(err)
		})
	}
	if err != nil {
		failed(err)
		return one
	}
	w.running.Go(func() { one.informer.RunWithContext(ctx) })
	w.running.Go(func() {
		select {
		case <-ctx.Done():
		case <-one.registration.HasSyncedChecker().Done():
			w.signal()
		}
	})
	return one
}
