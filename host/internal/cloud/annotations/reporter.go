package annotations

import (
	"context"
	"fmt"
	"strings"
	"time"

	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/lru"

	"github.com/wasm-ccm/wasm-ccm/host/internal/report"
	"github.com/wasm-ccm/wasm-ccm/host/internal/text"
)

// Unread is the reason of the Event.
const Unread = report.AnnotationNotRead

// The bounds of the Events: a burst of ten, then one in ten seconds; each text once per
// object, for the latest 4096 objects. As many objects wait; more are dropped.
const (
	eventPeriod = 10 * time.Second
	eventBurst  = 10
	remembered  = 4096
	eventBytes  = 1000
)

// Reporter reports unregistered keys of Services and Nodes. Run may be called once.
type Reporter struct {
	keys     *Keys
	client   metadata.Interface
	recorder record.EventRecorder
	queue    workqueue.TypedInterface[object]
	limiter  *rate.Limiter
	said     *lru.Cache
}

// object is the part of an object that an Event needs.
type object struct {
	kind, namespace, name string
	uid                   types.UID
	text                  string
}

// NewReporter returns a reporter. It watches the metadata of Services and Nodes
// by the client.
func NewReporter(keys *Keys, client metadata.Interface, recorder record.EventRecorder) *Reporter {
	return &Reporter{
		keys: keys, client: client, recorder: recorder,
		queue:   workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[object]{Name: "annotations"}),
		limiter: rate.NewLimiter(rate.Every(eventPeriod), eventBurst),
		said:    lru.New(remembered),
	}
}

// Run reports until the context is done. It returns an error when it cannot
// watch.
func (r *Reporter) Run(ctx context.Context) error {
	defer r.queue.ShutDown()
	factory := metadatainformer.NewSharedInformerFactory(r.client, 0)
	for resource, kind := range map[string]string{"services": "Service", "nodes": "Node"} {
		informer := factory.ForResource(corev1.SchemeGroupVersion.WithResource(resource)).Informer()
		if err := informer.SetTransform(strip); err != nil {
			return fmt.Errorf("watching the annotations of %s: %w", resource, err)
		}
		_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc:    func(o any) { r.look(kind, o) },
			UpdateFunc: func(_, o any) { r.look(kind, o) },
		})
		if err != nil {
			return fmt.Errorf("watching the annotations of %s: %w", resource, err)
		}
	}
	factory.Start(ctx.Done())
	defer factory.Shutdown()
	defer context.AfterFunc(ctx, r.queue.ShutDown)()
	for r.next(ctx) {
	}
	return nil
}

// strip drops all fields but those examined, to save memory.
func strip(o any) (any, error) {
	full, ok := o.(*metav1.PartialObjectMetadata)
	if !ok {
		return o, nil
	}
	return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		Name: full.Name, Namespace: full.Namespace, UID: full.UID, ResourceVersion: full.ResourceVersion,
		Annotations: full.Annotations, Labels: full.Labels,
	}}, nil
}

// look queues the report about an object, if its keys need one.
func (r *Reporter) look(kind string, o any) {
	meta, ok := o.(*metav1.PartialObjectMetadata)
	if !ok {
		return
	}
	// Invariant R11 (host/SECURITY.md): the queue, the keys examined and the keys reported are
	// bounded.
	if texts := r.keys.unread(kind, meta.Annotations, meta.Labels); len(texts) > 0 && r.queue.Len() < remembered {
		r.queue.Add(object{kind, meta.Namespace, meta.Name, meta.UID, strings.Join(texts, "; ")})
	}
}

func (r *Reporter) next(ctx context.Context) bool {
	o, shutdown := r.queue.Get()
	if shutdown || ctx.Err() != nil {
		return false
	}
	defer r.queue.Done(o)
	if _, said := r.said.Get(o); said {
		return true
	}
	if r.limiter.Wait(ctx) != nil {
		return false
	}
	r.said.Add(o, nil)
	r.recorder.Event(&corev1.ObjectReference{APIVersion: "v1", Kind: o.kind, Namespace: o.namespace, Name: o.name, UID: o.uid},
		corev1.EventTypeWarning, Unread, text.Line(o.text, eventBytes))
	return true
}
