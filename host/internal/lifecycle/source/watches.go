package source

import (
	"context"
	"errors"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/wasm-ccm/wasm-ccm/host/internal/informer"
)

// watches follows ConfigMaps of one namespace, each by its name, since rights on named
// ConfigMaps allow nothing else. One goroutine uses it.
type watches struct {
	ctx       context.Context // of Run, which owns the watches
	client    kubernetes.Interface
	namespace string
	// changed has an entry if one of them may have changed.
	changed chan struct{}
	byName  map[string]watch
	running sync.WaitGroup
}

func newWatches(ctx context.Context, client kubernetes.Interface, namespace string) *watches {
	return &watches{ctx: ctx, client: client, namespace: namespace, changed: make(chan struct{}, 1), byName: map[string]watch{}}
}

// follow starts the missing watches of these names, and ends all others.
func (w *watches) follow(names ...string) {
	for name, old := range w.byName {
		if !slices.Contains(names, name) {
			old.cancel()
			delete(w.byName, name)
		}
	}
	for _, name := range names {
		if _, ok := w.byName[name]; !ok {
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
	default: // a signal is pending
	}
}

// known reports whether each name has a list or an error.
func (w *watches) known(names ...string) bool {
	return !slices.ContainsFunc(names, func(name string) bool {
		_, err := w.get(name)
		return errors.Is(err, informer.ErrPending)
	})
}

// get returns a ConfigMap as last seen, or nil if it does not exist.
func (w *watches) get(name string) (*corev1.ConfigMap, error) { return w.byName[name].Get() }

// watch follows one ConfigMap.
type watch struct {
	*informer.Named[*corev1.ConfigMap]
	cancel context.CancelFunc
}

func (w *watches) start(name string) watch {
	ctx, cancel := context.WithCancel(w.ctx)
	one := watch{informer.ConfigMap(w.client, types.NamespacedName{Namespace: w.namespace, Name: name}), cancel}
	w.running.Go(func() { one.Run(ctx, func(informer.Event) { w.signal() }) })
	return one
}
