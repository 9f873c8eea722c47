package routing

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
	"k8s.io/utils/lru"

	"github.com/wasm-ccm/wasm-ccm/host/internal/report"
	"github.com/wasm-ccm/wasm-ccm/host/internal/text"
)

// The bounds of the Events: ten at once, then one each second.
const (
	eventPeriod = time.Second
	eventBurst  = 10
)

// eventBytes is slightly below the limit of an Event's message.
const eventBytes = 1000

// noProvider is the Event's reason.
const noProvider = report.NoProvider

// Reporter tells, by an Event on each object without a provider, why it waits, and by a condition of a
// Service; and, on a Service whose class and annotation contradict each other, which one decides: once
// for each reason, for the 4096 latest. Run may be called once.
type Reporter struct {
	router   *Router
	services cache.SharedIndexInformer
	nodes    cache.SharedIndexInformer
	recorder record.EventRecorder
	// condition is the condition of Services without a provider.
	condition Condition
	queue     workqueue.TypedInterface[item]
	limiter   *rate.Limiter
	said      *lru.Cache // of saying
}

// saying is a report about an object.
type saying struct {
	uid  types.UID
	what string
}

// item names an object that may have no provider, without holding it.
type item struct {
	informer cache.SharedIndexInformer
	key      string
}

// NewReporter returns a reporter over informers of all Services and Nodes,
// which the caller starts after this.
func NewReporter(router *Router, services coreinformers.ServiceInformer, nodes coreinformers.NodeInformer, recorder record.EventRecorder, condition Condition) *Reporter {
	return &Reporter{
		router:   router,
		services: services.Informer(),
		nodes:    nodes.Informer(),
		recorder: recorder, condition: condition,
		queue:   workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[item]{Name: "unrouted"}),
		limiter: rate.NewLimiter(rate.Every(eventPeriod), eventBurst),
		said:    lru.New(remembered),
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
	if !p.look(object).any() {
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
	if !p.look(next.get()).any() {
		return true
	}
	if p.limiter.Wait(ctx) != nil {
		return false
	}
	object := next.get() // it may have a provider by now
	todo := p.look(object)
	if advice := todo.advice; todo.unsaid {
		o := object.(metav1.Object)
		p.said.Add(saying{o.GetUID(), advice.what}, nil)
		klog.FromContext(ctx).Info(advice.summary, "object", klog.KRef(o.GetNamespace(), o.GetName()), "advice", advice.what)
		p.recorder.Event(object.(runtime.Object), corev1.EventTypeWarning, advice.reason, advice.what)
	}
	var err error
	switch {
	case todo.lacking:
		err = p.condition.write(ctx, object.(*corev1.Service), todo.what)
	case todo.stale:
		err = p.condition.remove(ctx, object.(*corev1.Service))
	}
	if err != nil {
		klog.FromContext(ctx).Error(err, "Writing the condition of a Service without a provider failed", "service", next.key, "condition", p.condition.Type)
	}
	if err != nil && !apierrors.IsForbidden(err) {
		p.queue.Add(next) // the API server may be away for a moment
	}
	return true
}

// get returns the object as it is now, nil when it is gone.
func (i item) get() any {
	object, _, _ := i.informer.GetStore().GetByKey(i.key) // a store in memory has no errors
	return object
}

// advice is an Event, and its summary for the log; an empty text means none.
type advice struct{ reason, summary, what string }

// todo is the pending work on an object: an Event, and its condition.
type todo struct {
	advice
	unsaid, lacking, stale bool
}

func (t todo) any() bool { return t.unsaid || t.lacking || t.stale }

// look returns the pending work on an object.
func (p *Reporter) look(object any) (next todo) {
	o, ok := object.(metav1.Object)
	if !ok {
		return next
	}
	next.advice = p.router.advise(object)
	next.what = text.Line(next.what, eventBytes) // there may be many providers
	if next.what != "" {
		_, said := p.said.Get(saying{o.GetUID(), next.what})
		next.unsaid = !said
	}
	if service, ok := object.(*corev1.Service); ok {
		next.lacking = next.reason == noProvider && p.condition.lacking(service, next.what)
		next.stale = p.condition.stale(p.router, service)
	}
	return next
}

func (r *Router) advise(object any) advice {
	none := advice{reason: noProvider, summary: "An object has no provider"}
	switch o := object.(type) {
	case *corev1.Service:
		if !r.UnroutedService(o) {
			return advice{classDecides, "A Service's class decides, and not its annotation", r.table().adviseClass(o)}
		}
		none.what = r.table().adviseService(o)
	case *corev1.Node:
		if r.UnroutedNode(o) {
			none.what = r.table().adviseNode(o)
		}
	}
	return none
}
