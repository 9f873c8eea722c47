package routing

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
	"k8s.io/utils/lru"

	"github.com/wasm-ccm/wasm-ccm/host/internal/text"
)

// The bounds of the Events: ten at once, then one each second.
const (
	eventPeriod = time.Second
	eventBurst  = 10
)

// eventBytes is a little less than what an Event's message may have.
const eventBytes = 1000

// noProvider is the Event's reason.
const noProvider = "NoProvider"

// Reporter tells by an Event on each object of no provider what it waits for:
// once for each reason, for the 4096 latest of them. Run may be called once.
type Reporter struct {
	router   *Router
	services cache.SharedIndexInformer
	nodes    cache.SharedIndexInformer
	recorder record.EventRecorder
	queue    workqueue.TypedInterface[item]
	limiter  *rate.Limiter
	said     *lru.Cache // of saying
}

// saying is what was said of an object.
type saying struct {
	uid  types.UID
	what string
}

// item is an object that may be nobody's; it holds none of it.
type item struct {
	informer cache.SharedIndexInformer
	key      string
}

// NewReporter returns a reporter over informers of all Services and Nodes,
// which the caller starts after this.
func NewReporter(router *Router, services coreinformers.ServiceInformer, nodes coreinformers.NodeInformer, recorder record.EventRecorder) *Reporter {
	return &Reporter{
		router:   router,
		services: services.Informer(),
		nodes:    nodes.Informer(),
		recorder: recorder,
		queue:    workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[item]{Name: "unrouted"}),
		limiter:  rate.NewLimiter(rate.Every(eventPeriod), eventBurst),
		said:     lru.New(remembered),
	}
}

// Run reports until the context is done. It returns an error when it cannot
// watch.
func (p *Reporter) Run(ctx context.Context) error {
	defer p.queue.ShutDown()
	for _, informer := range []cache.SharedIndexInformer{p.services, p.nodes} {
		registration, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc:    func(object any) { p.enqueue(informer, object) },
			UpdateFunc: func(_, object any) { p.enqueue(informer, object) },
		})
		if err != nil {
			return fmt.Errorf("watching for objects of no provider: %w", err)
		}
		defer func() { _ = informer.RemoveEventHandler(registration) }() // fails only when the informer has ended
	}
	defer context.AfterFunc(ctx, p.queue.ShutDown)()
	for p.next(ctx) {
	}
	return nil
}

func (p *Reporter) enqueue(informer cache.SharedIndexInformer, object any) {
	if p.unsaid(object) == "" {
		return
	}
	if key, err := cache.MetaNamespaceKeyFunc(object); err == nil {
		p.queue.Add(item{informer, key})
	}
}

func (p *Reporter) next(ctx context.Context) bool {
	next, shutdown := p.queue.Get()
	if shutdown || ctx.Err() != nil {
		return false
	}
	defer p.queue.Done(next)
	if _, advice := p.look(next); advice == "" {
		return true
	}
	if p.limiter.Wait(ctx) != nil {
		return false
	}
	object, advice := p.look(next) // it may have a provider by now
	if advice != "" {
		o := object.(metav1.Object)
		p.said.Add(saying{o.GetUID(), advice}, nil)
		klog.FromContext(ctx).Info("An object has no provider", "object", klog.KRef(o.GetNamespace(), o.GetName()), "advice", advice)
		p.recorder.Event(object, corev1.EventTypeWarning, noProvider, advice)
	}
	return true
}

// look returns the object as it is now, and what is to be said of it, or "".
func (p *Reporter) look(next item) (runtime.Object, string) {
	object, exists, err := next.informer.GetStore().GetByKey(next.key)
	if err != nil || !exists {
		return nil, ""
	}
	return object.(runtime.Object), p.unsaid(object)
}

// unsaid returns what is to be said of an object, or "".
func (p *Reporter) unsaid(object any) string {
	advice := ""
	switch o := object.(type) {
	case *corev1.Service:
		if p.router.UnroutedService(o) {
			advice = p.router.adviseService(o)
		}
	case *corev1.Node:
		if p.router.UnroutedNode(o) {
			advice = p.router.adviseNode(o)
		}
	}
	advice = text.Line(advice, eventBytes) // there may be many providers
	if advice == "" {
		return ""
	}
	if _, said := p.said.Get(saying{object.(metav1.Object).GetUID(), advice}); said {
		return ""
	}
	return advice
}
