package controllers

import (
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/informers"
	coregroup "k8s.io/client-go/informers/core"
	coreinformers "k8s.io/client-go/informers/core/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	servicehelper "k8s.io/cloud-provider/service/helpers"
	"k8s.io/klog/v2"
)

// view is the shared informers as one incarnation of a loop sees them: its provider's Nodes,
// Services and PersistentVolumes only, through Core().V1(). It remembers the event handlers,
// so that they can be removed.
type view struct {
	informers.SharedInformerFactory
	lease                    *lease
	nodes, services, volumes func(any) bool // nil: all
	classes                  func(*corev1.Service) bool

	mu       sync.Mutex
	handlers []handler
}

// kind is the kind of an informer's objects.
type kind string

const (
	kindNode    kind = "Node"
	kindService kind = "Service"
	kindVolume  kind = "PersistentVolume"
)

type handler struct {
	cache.ResourceEventHandler
	kind         kind
	informer     cache.SharedIndexInformer
	registration cache.ResourceEventHandlerRegistration
}

func newView(factory informers.SharedInformerFactory, l *lease, p Provider, nodes func(*corev1.Node) bool) *view {
	return &view{
		SharedInformerFactory: factory, lease: l,
		nodes: only(nodes), services: only(unfinished(p.Services)), volumes: only(p.PersistentVolumes), classes: p.Classes,
	}
}

// only turns a filter of one kind into a filter of an informer's deliveries. A deletion
// known by name only passes: loops look the name up, and find nothing.
func only[T any](match func(T) bool) func(any) bool {
	if match == nil {
		return nil
	}
	return func(obj any) bool {
		if deleted, ok := obj.(cache.DeletedFinalStateUnknown); ok {
			obj = deleted.Obj
		}
		typed, ok := obj.(T)
		return !ok || match(typed)
	}
}

// release removes the event handlers. The lease must have ended before: no handler is added
// then.
func (v *view) release() {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, h := range v.handlers {
		if err := h.informer.RemoveEventHandler(h.registration); err != nil {
			klog.FromContext(v.lease.ctx).Error(err, "An event handler of a stopped control loop stays")
		}
	}
	v.handlers = nil
}

// repeat delivers an object as if it were new: a loop with a queue looks at it at once
// instead of after its back-off.
func (v *view) repeat(kind kind, key string) {
	v.mu.Lock()
	handlers := slices.Clone(v.handlers)
	v.mu.Unlock()
	for _, h := range handlers {
		if h.kind != kind || v.lease.ctx.Err() != nil {
			continue
		}
		object, exists, err := h.informer.GetIndexer().GetByKey(key)
		switch {
		case err != nil:
		case exists:
			h.OnAdd(object, false)
		default:
			v.lease.later.gone(key)
		}
	}
}

// leaves reports whether a Service is gone, replaced by a new one of its name, or must lose
// its load balancer.
func (v *view) leaves(s *corev1.Service) bool {
	now, err := v.Core().V1().Services().Lister().Services(s.Namespace).Get(s.Name)
	return apierrors.IsNotFound(err) || err == nil && (now.UID != s.UID || cleansUp(now))
}

// unmade reports whether a Service has no address yet, which upstream's copy does not show.
func (v *view) unmade(s *corev1.Service) bool {
	now, err := v.Core().V1().Services().Lister().Services(s.Namespace).Get(s.Name)
	return err == nil && len(now.Status.LoadBalancer.Ingress) == 0
}

// node returns a Node that the loop sees, or nil.
func (v *view) node(name string) *corev1.Node {
	n, err := v.Core().V1().Nodes().Lister().Get(name)
	if err != nil {
		return nil
	}
	return n
}

// repeatAll delivers all objects as if they were new.
func (v *view) repeatAll(kind kind) {
	v.mu.Lock()
	handlers := slices.Clone(v.handlers)
	v.mu.Unlock()
	for _, h := range handlers {
		if h.kind != kind {
			continue
		}
		for _, object := range h.informer.GetStore().List() {
			h.OnAdd(object, false)
		}
	}
}

// unfinished leaves out Services in deletion that wait only for others. Upstream would start
// again with such a Service, also after a restart: it may not add its finalizer, and warns
// of that for ever.
func unfinished(services func(*corev1.Service) bool) func(*corev1.Service) bool {
	return func(s *corev1.Service) bool {
		return (services == nil || services(s)) && (s.DeletionTimestamp == nil || servicehelper.HasLBFinalizer(s))
	}
}

// Core implements informers.SharedInformerFactory.
func (v *view) Core() coregroup.Interface { return viewGroup{v} }

type viewGroup struct{ *view }

func (g viewGroup) V1() coreinformers.Interface {
	return viewVersion{g.SharedInformerFactory.Core().V1(), g.view}
}

type viewVersion struct {
	coreinformers.Interface
	view *view
}

func (v viewVersion) Nodes() coreinformers.TypedNodeInformer {
	return nodeInformer{v.view.filtered(kindNode, v.Interface.Nodes().Informer(), v.view.nodes)}
}

func (v viewVersion) Services() coreinformers.TypedServiceInformer {
	informer := v.view.filtered(kindService, v.Interface.Services().Informer(), v.view.services)
	informer.shown = showServices(v.view.classes)
	return serviceInformer{informer}
}

func (v viewVersion) PersistentVolumes() coreinformers.TypedPersistentVolumeInformer {
	return volumeInformer{v.view.filtered(kindVolume, v.Interface.PersistentVolumes().Informer(), v.view.volumes)}
}

func (v *view) filtered(kind kind, informer cache.SharedIndexInformer, match func(any) bool) filteredInformer {
	return filteredInformer{informer, kind, match, nil, v}
}

type nodeInformer struct{ filteredInformer }

func (n nodeInformer) Informer() cache.SharedIndexInformer { return n.filteredInformer }
func (n nodeInformer) Lister() corelisters.NodeLister {
	return corelisters.NewNodeLister(n.GetIndexer())
}
func (n nodeInformer) TypedInformer() coreinformers.NodeIndexInformer {
	return cache.NewTypedSharedIndexInformer[*corev1.Node](n.filteredInformer)
}

type serviceInformer struct{ filteredInformer }

func (s serviceInformer) Informer() cache.SharedIndexInformer { return s.filteredInformer }
func (s serviceInformer) Lister() corelisters.ServiceLister {
	return corelisters.NewServiceLister(s.GetIndexer())
}
func (s serviceInformer) TypedInformer() coreinformers.ServiceIndexInformer {
	return cache.NewTypedSharedIndexInformer[*corev1.Service](s.filteredInformer)
}

type volumeInformer struct{ filteredInformer }

func (p volumeInformer) Informer() cache.SharedIndexInformer { return p.filteredInformer }
func (p volumeInformer) Lister() corelisters.PersistentVolumeLister {
	return corelisters.NewPersistentVolumeLister(p.GetIndexer())
}
func (p volumeInformer) TypedInformer() coreinformers.PersistentVolumeIndexInformer {
	return cache.NewTypedSharedIndexInformer[*corev1.PersistentVolume](p.filteredInformer)
}

// filteredInformer is a shared informer of matching objects.
type filteredInformer struct {
	cache.SharedIndexInformer
	kind  kind
	match func(any) bool
	shown func(any) any // how the loop sees an object; nil: unchanged
	view  *view
}

func (i filteredInformer) AddEventHandler(h cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	return i.AddEventHandlerWithOptions(h, cache.HandlerOptions{})
}

func (i filteredInformer) AddEventHandlerWithResyncPeriod(h cache.ResourceEventHandler, resync time.Duration) (cache.ResourceEventHandlerRegistration, error) {
	return i.AddEventHandlerWithOptions(h, cache.HandlerOptions{ResyncPeriod: &resync})
}

func (i filteredInformer) AddEventHandlerWithOptions(h cache.ResourceEventHandler, options cache.HandlerOptions) (cache.ResourceEventHandlerRegistration, error) {
	i.view.mu.Lock()
	defer i.view.mu.Unlock()
	if i.view.lease.ctx.Err() != nil {
		return nil, i.view.lease.stopped
	}
	if i.shown != nil {
		h = shownTo(h, i.shown)
	}
	// Invariant P1 (host/SECURITY.md): a loop gets its provider's objects and no others.
	if i.match != nil {
		h = cache.FilteringResourceEventHandler{FilterFunc: i.match, Handler: h}
	}
	registration, err := i.SharedIndexInformer.AddEventHandlerWithOptions(h, options)
	if err == nil {
		i.view.handlers = append(i.view.handlers, handler{h, i.kind, i.SharedIndexInformer, registration})
	}
	return registration, err
}

func (i filteredInformer) GetStore() cache.Store { return i.GetIndexer() }

func (i filteredInformer) GetIndexer() cache.Indexer {
	return filteredIndexer{i.SharedIndexInformer.GetIndexer(), i.match, i.shown, i.view.lease}
}

// filteredIndexer holds matching objects. After the end of the lease a lookup of one object
// is an error, so that a stopped loop drops the rest of its queue before it writes anything.
type filteredIndexer struct {
	cache.Indexer
	match func(any) bool
	shown func(any) any
	lease *lease
}

func (x filteredIndexer) filter(objects []any) []any {
	if x.match == nil && x.shown == nil {
		return objects
	}
	mine := make([]any, 0, len(objects))
	for _, obj := range objects {
		if x.match == nil || x.match(obj) {
			mine = append(mine, x.show(obj))
		}
	}
	return mine
}

func (x filteredIndexer) show(obj any) any {
	if x.shown == nil {
		return obj
	}
	return x.shown(obj)
}

func (x filteredIndexer) List() []any { return x.filter(x.Indexer.List()) }

func (x filteredIndexer) Index(name string, obj any) ([]any, error) {
	objects, err := x.Indexer.Index(name, obj)
	return x.filter(objects), err
}

func (x filteredIndexer) ByIndex(name, value string) ([]any, error) {
	objects, err := x.Indexer.ByIndex(name, value)
	return x.filter(objects), err
}

func (x filteredIndexer) ListKeys() []string { return x.matching(x.Indexer.ListKeys()) }

func (x filteredIndexer) IndexKeys(name, value string) ([]string, error) {
	keys, err := x.Indexer.IndexKeys(name, value)
	return x.matching(keys), err
}

func (x filteredIndexer) matching(keys []string) []string {
	return slices.DeleteFunc(slices.Clone(keys), func(key string) bool {
		_, ok, err := x.GetByKey(key)
		return !ok || err != nil
	})
}

func (x filteredIndexer) Get(obj any) (item any, exists bool, err error) {
	return x.one(x.Indexer.Get(obj))
}

func (x filteredIndexer) GetByKey(key string) (item any, exists bool, err error) {
	return x.one(x.Indexer.GetByKey(key))
}

func (x filteredIndexer) one(item any, exists bool, err error) (any, bool, error) {
	if x.lease.ctx.Err() != nil {
		return nil, false, x.lease.stopped
	}
	if err != nil || !exists || x.match != nil && !x.match(item) {
		return nil, false, err
	}
	return x.show(item), true, nil
}
