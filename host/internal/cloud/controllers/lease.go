package controllers

import (
	"context"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/wasm-ccm/wasm-ccm/host/internal/cloud/controllers/persistentvolume"
)

// lease lets one incarnation of a loop call its provider until it ends. Upstream
// empties its queues after it was told to stop, and makes some calls with a
// context that never ends; neither may reach the provider then.
type lease struct {
	ctx     context.Context // of the incarnation
	cancel  context.CancelCauseFunc
	stopped error // what a call gets after the end

	// later hears how calls end. repeat has the loop look at an object again at
	// once; it is set before the loop starts.
	later  *later
	repeat func(object string)
	// nodes hears of those that are to be initialised.
	nodes *uninitialised
	// delayed is told of what is put off for too long, or nil.
	delayed func(service *corev1.Service, took time.Duration, err error)
	// conditions hears of load balancers.
	conditions *conditions
	// heard is the provider's Heard.
	heard func(Call)

	mu    sync.Mutex // no call begins while end looks
	calls sync.WaitGroup
	// repeats are when an object will be looked at again.
	repeats map[string]time.Time
	// answer gets what the next ensure of what is awaited ends with; nil: nothing is.
	awaited string
	answer  chan error
}

func newLease(parent context.Context, stopped error) *lease {
	ctx, cancel := context.WithCancelCause(parent)
	return &lease{
		ctx: ctx, cancel: cancel, stopped: stopped, later: newLater(), repeat: func(string) {}, heard: func(Call) {}, nodes: newUninitialised(Provider{}),
		repeats: map[string]time.Time{},
	}
}

// end cancels the calls in flight, refuses others, and waits until they have
// returned: a loop that is started again would else run twice.
func (l *lease) end() {
	l.cancel(l.stopped)
	l.mu.Lock()
	l.mu.Unlock() //nolint:staticcheck // whoever had the lock has counted its call
	l.calls.Wait()
}

// enter begins a call. Its context ends with the caller's and with the lease.
func (l *lease) enter(ctx context.Context) (called context.Context, leave func(), err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ctx.Err() != nil {
		return nil, nil, l.stopped
	}
	l.calls.Add(1)
	called, cancel := context.WithCancelCause(ctx)
	forget := context.AfterFunc(l.ctx, func() { cancel(l.stopped) })
	return called, func() {
		forget()
		cancel(nil)
		l.calls.Done()
	}, nil
}

// repeatAfter has the loop look at an object again after a while.
func (l *lease) repeatAfter(object string, delay time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	at := time.Now().Add(delay)
	if due, waits := l.repeats[object]; waits && due.Before(at) {
		return
	}
	l.repeats[object] = at
	time.AfterFunc(delay, func() {
		l.mu.Lock()
		ended := l.ctx.Err() != nil || !l.repeats[object].Equal(at)
		if !ended {
			delete(l.repeats, object)
		}
		l.mu.Unlock()
		if !ended {
			l.repeat(object)
		}
	})
}

// began is when a call began, and how many generations had come to serve.
type began struct {
	at     time.Time
	rounds int64
}

func (l *lease) began() began { return began{time.Now(), l.later.rounds.Load()} }

// ended is told how a call about an object ended. It returns when the provider wants to
// be asked again, or 0. Of a failure that may be of a generation that serves no more
// upstream's back-off is not waited for.
func (l *lease) ended(b began, object string, c Call) time.Duration {
	c.Began = b.at
	l.heard(c)
	delay := l.later.heard(c.Op, object, c.Err)
	if c.Err != nil && b.rounds != l.later.rounds.Load() {
		l.repeatAfter(object, 0)
	}
	return delay
}

// leased makes one call.
func leased[T any](ctx context.Context, l *lease, call func(context.Context) (T, error)) (answer T, err error) {
	ctx, leave, err := l.enter(ctx)
	if err != nil {
		return answer, err
	}
	defer leave()
	return call(ctx)
}

// leasedErr makes one call that answers nothing.
func leasedErr(ctx context.Context, l *lease, call func(context.Context) error) error {
	_, err := leased(ctx, l, func(ctx context.Context) (struct{}, error) { return struct{}{}, call(ctx) })
	return err
}

// provider returns p with its calls under the lease. What it can do is looked
// at now: a loop is not made for half of a provider that is just replaced.
func (l *lease) provider(p Provider) Provider {
	cloud := &leasedCloud{Interface: p.Cloud}
	if balancer, ok := p.Cloud.LoadBalancer(); ok {
		cloud.balancer = leasedBalancer{balancer, l}
	}
	if instances, ok := p.Cloud.InstancesV2(); ok {
		cloud.instances = leasedInstances{instances, l}
	}
	if routes, ok := p.Cloud.Routes(); ok {
		cloud.routes = leasedRoutes{routes, l}
	}
	p.Cloud = cloud
	if p.Volumes != nil {
		p.Volumes = leasedVolumes{p.Volumes, l}
	}
	return p
}

type leasedCloud struct {
	cloudprovider.Interface
	balancer  cloudprovider.LoadBalancer
	instances cloudprovider.InstancesV2
	routes    cloudprovider.Routes
}

func (c *leasedCloud) LoadBalancer() (cloudprovider.LoadBalancer, bool) {
	return c.balancer, c.balancer != nil
}

func (c *leasedCloud) InstancesV2() (cloudprovider.InstancesV2, bool) {
	return c.instances, c.instances != nil
}

func (c *leasedCloud) Routes() (cloudprovider.Routes, bool) { return c.routes, c.routes != nil }

// Instances is not supported: its calls would not be under the lease.
func (c *leasedCloud) Instances() (cloudprovider.Instances, bool) { return nil, false }

// Zones is not supported, as Instances.
func (c *leasedCloud) Zones() (cloudprovider.Zones, bool) { return nil, false }

type leasedBalancer struct {
	cloudprovider.LoadBalancer
	lease *lease
}

func (b leasedBalancer) GetLoadBalancerName(ctx context.Context, cluster string, service *corev1.Service) string {
	return b.LoadBalancer.GetLoadBalancerName(ctx, cluster, withClass(service))
}

func (b leasedBalancer) GetLoadBalancer(ctx context.Context, cluster string, service *corev1.Service) (*corev1.LoadBalancerStatus, bool, error) {
	ctx, leave, err := b.lease.enter(ctx)
	if err != nil {
		return nil, false, err
	}
	defer leave()
	began := b.lease.began()
	status, exists, err := b.LoadBalancer.GetLoadBalancer(ctx, cluster, withClass(service))
	b.heard(began, opGet, service, err)
	if err == nil && !exists {
		b.lease.conditions.deleted(service)
	}
	return status, exists, err
}

// heard is told how a call about a Service ended. When upstream cleans up, it
// drops what the provider says of when to ask again, and comes back after 5 s
// to 5 minutes; so that is done here.
func (b leasedBalancer) heard(began began, op string, service *corev1.Service, err error) {
	key := service.Namespace + "/" + service.Name
	delay := b.lease.ended(began, key, Call{Kind: "Service", Name: key, UID: service.UID, Op: op, Err: err})
	if took := b.lease.later.overdue(op, key); took > 0 && b.lease.delayed != nil {
		b.lease.delayed(service, took, err)
	}
	cleansUp := service.DeletionTimestamp != nil || service.Spec.Type != corev1.ServiceTypeLoadBalancer
	if delay > 0 && cleansUp {
		b.lease.repeatAfter(key, delay)
	}
}

func (b leasedBalancer) EnsureLoadBalancer(ctx context.Context, cluster string, service *corev1.Service, nodes []*corev1.Node) (*corev1.LoadBalancerStatus, error) {
	return leased(ctx, b.lease, func(ctx context.Context) (*corev1.LoadBalancerStatus, error) {
		began := b.lease.began()
		status, err := b.LoadBalancer.EnsureLoadBalancer(ctx, cluster, withClass(service), nodes)
		b.heard(began, opEnsure, service, err)
		b.lease.conditions.ensured(ctx, service, status, err)
		b.lease.ensured(service.Namespace+"/"+service.Name, err)
		return status, err
	})
}

func (b leasedBalancer) UpdateLoadBalancer(ctx context.Context, cluster string, service *corev1.Service, nodes []*corev1.Node) error {
	return leasedErr(ctx, b.lease, func(ctx context.Context) error {
		began := b.lease.began()
		err := b.LoadBalancer.UpdateLoadBalancer(ctx, cluster, withClass(service), nodes)
		b.heard(began, "update", service, err)
		return err
	})
}

func (b leasedBalancer) EnsureLoadBalancerDeleted(ctx context.Context, cluster string, service *corev1.Service) error {
	return leasedErr(ctx, b.lease, func(ctx context.Context) error {
		began := b.lease.began()
		err := b.LoadBalancer.EnsureLoadBalancerDeleted(ctx, cluster, withClass(service))
		b.heard(began, "delete", service, err)
		if err == nil {
			b.lease.conditions.deleted(service)
		}
		return err
	})
}

type leasedInstances struct {
	instances cloudprovider.InstancesV2
	lease     *lease
}

func (i leasedInstances) InstanceExists(ctx context.Context, node *corev1.Node) (bool, error) {
	return leased(ctx, i.lease, func(ctx context.Context) (bool, error) { return i.instances.InstanceExists(ctx, node) })
}

func (i leasedInstances) InstanceShutdown(ctx context.Context, node *corev1.Node) (bool, error) {
	return leased(ctx, i.lease, func(ctx context.Context) (bool, error) { return i.instances.InstanceShutdown(ctx, node) })
}

func (i leasedInstances) InstanceMetadata(ctx context.Context, node *corev1.Node) (*cloudprovider.InstanceMetadata, error) {
	names, refreshes := refreshOnly(ctx)
	if refreshes && !slices.Contains(names, node.Name) {
		return &cloudprovider.InstanceMetadata{}, nil // upstream leaves it as it is
	}
	return leased(ctx, i.lease, func(ctx context.Context) (*cloudprovider.InstanceMetadata, error) {
		began := i.lease.began()
		metadata, err := i.instances.InstanceMetadata(ctx, node)
		delay := i.heard(began, node, metadata, err)
		if delay > 0 && (refreshes || isUninitialised(node)) {
			i.lease.repeatAfter(node.Name, delay)
		}
		if metadata == nil && err == nil && !isUninitialised(node) {
			// Not the provider's. Upstream lets an uninitialised Node be for a nil,
			// and reads through the nil for one that is initialised: nothing to say
			// of its addresses has the same effect there.
			metadata = &cloudprovider.InstanceMetadata{}
		}
		return metadata, err
	})
}

// heard is told what was said of a Node, and returns when the provider wants to be
// asked again, or 0. Upstream drops that, and comes back to a Node that it is to
// initialise after up to a quarter of an hour.
func (i leasedInstances) heard(began began, node *corev1.Node, metadata *cloudprovider.InstanceMetadata, err error) time.Duration {
	err = i.lease.nodes.heard(node, metadata, err)
	return i.lease.ended(began, node.Name, Call{Kind: "Node", Name: node.Name, UID: node.UID, Op: "metadata", Err: err})
}

type leasedRoutes struct {
	routes cloudprovider.Routes
	lease  *lease
}

func (r leasedRoutes) ListRoutes(ctx context.Context, cluster string) ([]*cloudprovider.Route, error) {
	return leased(ctx, r.lease, func(ctx context.Context) ([]*cloudprovider.Route, error) {
		began := time.Now()
		list, err := r.routes.ListRoutes(ctx, cluster)
		r.lease.heard(Call{Kind: "Route", Op: "list", Began: began, Err: err})
		return list, err
	})
}

func (r leasedRoutes) CreateRoute(ctx context.Context, cluster, hint string, route *cloudprovider.Route) error {
	return leasedErr(ctx, r.lease, func(ctx context.Context) error {
		began := time.Now()
		err := r.routes.CreateRoute(ctx, cluster, hint, route)
		r.lease.later.heard("route", string(route.TargetNode)+" "+route.DestinationCIDR, err)
		r.lease.heard(Call{Kind: "Route", Name: string(route.TargetNode), Op: "create", Began: began, Err: err})
		return err
	})
}

func (r leasedRoutes) DeleteRoute(ctx context.Context, cluster string, route *cloudprovider.Route) error {
	return leasedErr(ctx, r.lease, func(ctx context.Context) error { return r.routes.DeleteRoute(ctx, cluster, route) })
}

type leasedVolumes struct {
	persistentvolume.Labeler
	lease *lease
}

func (v leasedVolumes) GetLabelsForVolume(ctx context.Context, pv *corev1.PersistentVolume) (map[string]string, error) {
	return leased(ctx, v.lease, func(ctx context.Context) (map[string]string, error) {
		began := v.lease.began()
		labels, err := v.Labeler.GetLabelsForVolume(ctx, pv)
		v.lease.ended(began, pv.Name, Call{Kind: "PersistentVolume", Name: pv.Name, UID: pv.UID, Op: "labels", Err: err})
		return labels, err
	})
}
