// Package cloudproviders turns the CloudProvider objects of a cluster into
// providers, beside those of the file of --config, and writes their statuses.
//
// An object is parsed as strictly as the file. One with a mistake is left out,
// or stays in force in its last valid form, and its status reports the mistake.
package cloudproviders

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"

	"github.com/wasm-ccm/wasm-ccm/host/config/v1alpha1"
	"github.com/wasm-ccm/wasm-ccm/host/internal/text"
	status "github.com/wasm-ccm/wasm-ccm/host/status/v1alpha1"
)

// Options of Objects.
type Options struct {
	// Client has the verbs list and watch on cloudproviders, and patch on
	// cloudproviders/status.
	Client dynamic.Interface
	// Apply puts a valid configuration into force. After an error nothing of it
	// is in force. Calls are serialised.
	Apply func(context.Context, *v1alpha1.HostConfiguration) error
	// Gone is called for a deleted object that was not in force; may be nil.
	Gone func(provider string)
	// Events receives the Events on the objects, from the writer of the statuses.
	Events record.EventRecorder
}

// Objects are the CloudProviders of a cluster. It is safe for concurrent use.
type Objects struct {
	options  Options
	informer cache.SharedIndexInformer
	// changed has a token when the configuration may have changed.
	changed chan struct{}
	// queue has the names of objects with a possibly changed status.
	queue workqueue.TypedRateLimitingInterface[string]

	applying sync.Mutex // held while a configuration is made and applied; guards
	file     *v1alpha1.HostConfiguration
	now      []entry // in force beside the file
	begun    bool    // a configuration was applied
	// missing are objects that have served, and have had a mistake since this
	// manager started; apart is the value applied because of them.
	missing map[types.UID]struct{}
	apart   bool

	mu     sync.Mutex
	failed error            // of the last list or watch
	states map[string]state // of the existing objects
	known  map[string]status.Provider

	// written are the statuses that the watch may not show yet; only
	// WriteStatuses uses them.
	written map[string]written
}

// state is the state to report about an object.
type state struct {
	verdict
	// inForce is the generation in force since then; 0: none.
	inForce int64
	since   time.Time
}

// listTimeout bounds the first list. It is shorter than the liveness probe's
// limit, so that the manager can still report why it does not start.
const listTimeout = 15 * time.Second

// retryPeriod is the delay between attempts to apply a valid configuration.
const retryPeriod = 10 * time.Second

// New returns objects without a watch.
func New(o Options) *Objects {
	all := dynamicinformer.NewFilteredDynamicInformer(o.Client, v1alpha1.CloudProviderResource(), "", 0, cache.Indexers{}, nil)
	return &Objects{
		options: o, informer: all.Informer(), changed: make(chan struct{}, 1),
		queue:  workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[string]()),
		states: map[string]state{}, known: map[string]status.Provider{}, written: map[string]written{}, missing: map[types.UID]struct{}{},
	}
}

// Watch watches the objects until the context ends. It is called once.
func (o *Objects) Watch(ctx context.Context) {
	defer o.queue.ShutDown()
	err := o.informer.SetWatchErrorHandlerWithContext(func(ctx context.Context, r *cache.Reflector, err error) {
		o.fail(err)
		cache.DefaultWatchErrorHandler(ctx, r, explain(err))
	})
	o.fail(errors.Join(err, o.informer.SetTransform(withoutOwners)))
	_, err = o.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { o.signal() },
		UpdateFunc: func(any, any) { o.signal() },
		DeleteFunc: func(any) { o.signal() },
	})
	o.fail(err)
	o.informer.RunWithContext(ctx)
}

// withoutOwners removes the managed fields, which are as long as the rest.
func withoutOwners(item any) (any, error) {
	if u, ok := item.(*unstructured.Unstructured); ok {
		u.SetManagedFields(nil)
	}
	return item, nil
}

func (o *Objects) fail(err error) {
	if err == nil {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.failed = err
}

func (o *Objects) signal() {
	select {
	case o.changed <- struct{}{}:
	default: // an earlier signal is still pending
	}
}

// Start applies the file with the existing, watched objects. It fails if they
// are not known in time: a manager that does not know its providers would treat
// them as deleted. It also fails if the file cannot be applied.
func (o *Objects) Start(ctx context.Context, file *v1alpha1.HostConfiguration) error {
	listing, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	if !cache.WaitForCacheSync(listing.Done(), o.informer.HasSynced) {
		o.mu.Lock()
		defer o.mu.Unlock()
		return fmt.Errorf("cloudProviders.enabled of the HostConfiguration: the CloudProviders cannot be listed: %w", explain(cmp.Or(o.failed, context.Cause(listing))))
	}
	o.applying.Lock()
	defer o.applying.Unlock()
	o.file = file
	err := o.apply(ctx)
	if o.begun {
		o.signal() // for another attempt at objects that failed
		return nil
	}
	return err
}

// explain adds what the cluster lacks.
func explain(err error) error {
	resource := v1alpha1.CloudProviderResource()
	switch {
	case apierrors.IsForbidden(err):
		return fmt.Errorf("%w; %s", err, text.AddRules("",
			text.Rule{Group: resource.Group, Resource: resource.Resource, Verbs: []string{"list", "watch"}},
			text.Rule{Group: resource.Group, Resource: resource.Resource + "/status", Verbs: []string{"patch"}}))
	case apierrors.IsNotFound(err):
		return fmt.Errorf("%w; the cluster does not know the kind: apply the CustomResourceDefinition %s, or set cloudProviders.enabled to false", err, resource.GroupResource())
	}
	return err
}

// SetFile applies another file with the objects. An error leaves everything
// unchanged.
func (o *Objects) SetFile(ctx context.Context, file *v1alpha1.HostConfiguration) error {
	o.applying.Lock()
	defer o.applying.Unlock()
	now := among(file.Providers, o.now)
	if err := o.options.Apply(ctx, merged(file, now, o.apart)); err != nil {
		return err
	}
	o.file, o.now = file, now
	o.signal() // it may affect other objects
	return nil
}

// File returns the last applied file.
func (o *Objects) File() *v1alpha1.HostConfiguration {
	o.applying.Lock()
	defer o.applying.Unlock()
	return o.file
}

// merged is the file with the objects. Apart, a single provider gets its share
// as among others, and not all objects.
func merged(file *v1alpha1.HostConfiguration, now []entry, apart bool) *v1alpha1.HostConfiguration {
	c := *file
	c.Providers = together(file.Providers, now)
	if apart && len(c.Providers) == 1 {
		p := &c.Providers[0]
		p.Routing.Nodes.Schemes, p.Routing.Volumes.Schemes = p.NodeSchemes(), p.VolumeSchemes()
	}
	return &c
}

// Run applies the objects as they change, until the context ends. Start has
// succeeded before.
func (o *Objects) Run(ctx context.Context) {
	var again <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case <-o.changed:
		case <-again:
		}
		again = nil
		o.applying.Lock()
		err := o.apply(ctx)
		o.applying.Unlock()
		if err != nil && ctx.Err() == nil {
			klog.FromContext(ctx).Error(err, "Not all CloudProviders are in force as written; this is tried again")
			again = time.After(retryPeriod)
		}
	}
}

// apply puts the file and the objects into force.
func (o *Objects) apply(ctx context.Context) (err error) {
	objects := o.list()
	next, verdicts := merge(o.file.Providers, o.now, objects)
	o.miss(objects, next, verdicts)
	if err = o.try(ctx, next); err != nil {
		err = o.applyEach(ctx, next, verdicts)
	}
	o.note(klog.FromContext(ctx), verdicts)
	return err
}

// applyEach applies objects one by one, so that a failing one does not stop the others.
func (o *Objects) applyEach(ctx context.Context, next []entry, verdicts judged) (failed error) {
	var stay []entry
	for _, e := range o.now {
		if _, ok := find(next, e.name); ok {
			stay = append(stay, e)
		}
	}
	if err := o.try(ctx, stay); err != nil {
		return err
	}
	for _, e := range next {
		if err := o.try(ctx, put(o.now, e)); err != nil {
			verdicts[e.name] = verdict{e.generation, reasonNotApplied, err.Error()}
			failed = errors.Join(failed, fmt.Errorf("CloudProvider %s: %w", e.name, err))
		}
	}
	return failed
}

func (o *Objects) try(ctx context.Context, next []entry) error {
	apart := len(o.missing) > 0
	if !o.begun || o.apart != apart || !same(o.now, next) {
		if err := o.options.Apply(ctx, merged(o.file, next, apart)); err != nil {
			return err
		}
	}
	o.now, o.begun, o.apart = next, true, apart
	return nil
}

// miss records the objects that another manager has served, and this one cannot, since it
// started with a mistake in them: other providers must not get their objects.
func (o *Objects) miss(objects []*unstructured.Unstructured, next []entry, verdicts judged) {
	there := map[types.UID]struct{}{}
	for _, object := range objects {
		uid := object.GetUID()
		if slices.ContainsFunc(next, func(e entry) bool { return e.uid == uid }) {
			continue
		}
		_, before := o.missing[uid]
		_, s := o.seen(object.GetName())
		if before || !o.begun && s.Serving != nil && verdicts[object.GetName()].reason == reasonInvalid {
			there[uid] = struct{}{}
		}
	}
	o.missing = there
}

// list returns the objects without a deletion timestamp.
func (o *Objects) list() (all []*unstructured.Unstructured) {
	for _, item := range o.informer.GetStore().List() {
		if u, ok := item.(*unstructured.Unstructured); ok && u.GetDeletionTimestamp() == nil {
			all = append(all, u)
		}
	}
	return all
}

// note updates the states for the statuses.
func (o *Objects) note(logger klog.Logger, verdicts judged) {
	o.mu.Lock()
	defer o.mu.Unlock()
	before := o.states
	o.states = map[string]state{}
	for name, v := range verdicts {
		e, _ := find(o.now, name)
		next := state{verdict: v, inForce: e.generation, since: time.Now()}
		if last := before[name]; last.inForce == next.inForce {
			next.since = last.since
		}
		if v.reason != "" && v != before[name].verdict {
			logger.Error(errors.New(text.Line(v.message, maxMessage)), "A CloudProvider is not in force as written", "cloudProvider", name, "reason", v.reason)
		}
		o.states[name] = next
		o.queue.Add(name)
	}
	for name, last := range before {
		if _, there := verdicts[name]; !there && last.inForce == 0 && o.options.Gone != nil {
			o.options.Gone(name)
		}
	}
	for name := range o.known {
		if _, ok := find(o.now, name); !ok {
			delete(o.known, name)
		}
	}
}

// Has reports whether there is an object with that name, in force or not.
func (o *Objects) Has(name string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	_, there := o.states[name]
	return there
}

// Report receives a provider's status. It does not block.
func (o *Objects) Report(provider string, s status.Provider) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.known[provider] = s
	o.queue.Add(provider)
}
