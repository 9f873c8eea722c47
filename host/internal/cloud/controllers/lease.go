package controllers

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	cloudprovider "k8s.io/cloud-provider"
	cloudproviderapi "k8s.io/cloud-provider/api"

	"github.com/wasm-ccm/wasm-ccm/host/internal/cloud/controllers/persistentvolume"
	"github.com/wasm-ccm/wasm-ccm/host/internal/cloud/opcontext"
)

// lease lets one incarnation of a loop call its provider until it ends. Upstream empties its
// queues after the stop, and makes some calls with a context that never ends; neither may
// reach the provider then.
type lease struct {
	ctx     context.Context // the incarnation's
	cancel  context.CancelCauseFunc
	stopped error // the error of calls after the end

	// later hears the outcome of calls. repeat has the loop look at an object again at once; it
	// is set before the loop starts.
	later  *later
	repeat func(object string)
	// nodes hears of uninitialised Nodes.
	nodes *uninitialised
	// leaves reports whether a Service in upstream's memory has lost its load balancer, or will:
	// an update could create it again.
	leaves func(*corev1.Service) bool
	// unmade reports whether a Service has no address yet.
	unmade func(*corev1.Service) bool
	// delayed is told of an op that is put off too long; it may be nil.
	delayed func(service *corev1.Service, took time.Duration, err error)
	// conditions hears of load balancers.
	conditions *conditions
	// heard is the provider's Heard.
	heard func(Call)

	mu    sync.Mutex // no call begins during end
	calls sync.WaitGroup
	// repeats are the scheduled times of repeats.
	repeats map[string]time.Time
	// awaited get the outcome of the next ensure of a Service.
	awaited map[string]chan error
}

func newLease(parent context.Context, stopped error) *lease {
	ctx, cancel := context.WithCancelCause(parent)
	return &lease{
		ctx: ctx, cancel: cancel, stopped: stopped, later: newLater(), repeat: func(string) {}, leaves: func(*corev1.Service) bool { return false }, unmade: func(*corev1.Service) bool { return false }, heard: func(Call) {}, nodes: newUninitialised(Provider{}),
		repeats: map[string]time.Time{}, awaited: map[string]chan error{},
	}
}

// end cancels the calls in flight, refuses others, and waits until they have returned:
// otherwise a restarted loop would run twice.
func (l *lease) end() {
	l.cancel(l.stopped)
	l.mu.Lock()
	l.mu.Unlock() //nolint:staticcheck // earlier holders of the lock have registered their calls
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

// began is the start of a call, and the number of takeovers by then.
type began struct {
	at     time.Time
	rounds int64
}

func (l *lease) began() began { return began{time.Now(), l.later.rounds.Load()} }

// ended is told the outcome of a call about an object. It returns when the provider wants to
// be asked again, or 0. A failure that may be a replaced generation's skips upstream's
// back-off.
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

// leasedErr makes one call that returns only an error.
func leasedErr(ctx context.Context, l *lease, call func(context.Context) error) error {
	_, err := leased(ctx, l, func(ctx context.Context) (struct{}, error) { return struct{}{}, call(ctx) })
	return err
}

// provider returns p with its calls under the lease. The capabilities are read once: no loop
// is built from two generations.
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

// leasedBalancer waits for the end of each call: the loop has enough workers.
type leasedBalancer struct {
	cloudprovider.LoadBalancer
	lease *lease
}

func (b leasedBalancer) GetLoadBalancerName(ctx context.Context, cluster string, service *corev1.Service) string {
	return b.LoadBalancer.GetLoadBalancerName(ctx, cluster, withClass(service))
}

func (b leasedBalancer) GetLoadBalancer(ctx context.Context, cluster string, service *corev1.Service) (*corev1.LoadBalancerStatus, bool, error) {
	if b.lease.later.waits(opUpdate, service.Namespace+"/"+service.Name) && !cleansUp(service) {
		// Upstream asks this after an update that failed. This update goes on.
		return &corev1.LoadBalancerStatus{}, true, nil
	}
	ctx, leave, err := b.lease.enter(opcontext.WithPatience(ctx))
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

// heard is told the outcome of a call about a Service. During cleanup upstream drops the
// provider's retry delay, and returns after 5 s to 5 minutes; so the lease schedules the
// repeat.
func (b leasedBalancer) heard(began began, op string, service *corev1.Service, err error) {
	key := service.Namespace + "/" + service.Name
	delay := b.lease.ended(began, key, Call{Kind: "Service", Name: key, UID: service.UID, Op: op, Err: err})
	if took := b.lease.later.overdue(op, key); took > 0 && b.lease.delayed != nil {
		b.lease.delayed(service, took, err)
	}
	if delay > 0 && cleansUp(service) {
		b.lease.repeatAfter(key, delay)
	}
}

// cleansUp reports whether a Service must lose its load balancer.
func cleansUp(s *corev1.Service) bool {
	return s.DeletionTimestamp != nil || s.Spec.Type != corev1.ServiceTypeLoadBalancer
}

func (b leasedBalancer) EnsureLoadBalancer(ctx context.Context, cluster string, service *corev1.Service, nodes []*corev1.Node) (*corev1.LoadBalancerStatus, error) {
	return leased(opcontext.WithPatience(ctx), b.lease, func(ctx context.Context) (*corev1.LoadBalancerStatus, error) {
		began := b.lease.began()
		now := b.goesOn(ctx, service)
		status, err := b.LoadBalancer.EnsureLoadBalancer(ctx, cluster, withClass(service), nodes)
		service := now()
		b.heard(began, opEnsure, service, err)
		b.lease.conditions.ensured(ctx, service, status, err)
		b.lease.ensured(service.Namespace+"/"+service.Name, err)
		return status, err
	})
}

func (b leasedBalancer) UpdateLoadBalancer(ctx context.Context, cluster string, service *corev1.Service, nodes []*corev1.Node) error {
	if b.lease.leaves(service) {
		return cloudprovider.ImplementedElsewhere // upstream ignores it
	}
	return leasedErr(opcontext.InPass(ctx), b.lease, func(ctx context.Context) error {
		began := b.lease.began()
		err := b.LoadBalancer.UpdateLoadBalancer(ctx, cluster, withClass(service), nodes)
		switch {
		case err == nil || errors.Is(err, cloudprovider.ImplementedElsewhere):
		case b.lease.leaves(service): // meanwhile
			return cloudprovider.ImplementedElsewhere
		case b.lease.unmade(service):
			// Upstream's pass may come before the first ensure. The ensure follows at once, and reports
			// to the user.
			err = cloudproviderapi.NewRetryError(err.Error(), time.Second)
		}
		b.heard(began, opUpdate, service, err)
		return err
	})
}

func (b leasedBalancer) EnsureLoadBalancerDeleted(ctx context.Context, cluster string, service *corev1.Service) error {
	return leasedErr(opcontext.WithPatience(ctx), b.lease, func(ctx context.Context) error {
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
		return &cloudprovider.InstanceMetadata{}, nil // upstream leaves the Node as it is
	}
	ctx = opcontext.WithPatience(ctx)
	if !isUninitialised(node) { // upstream asks for initialised Nodes in passes, for others from a queue
		ctx = opcontext.InPass(ctx)
	}
	return leased(ctx, i.lease, func(ctx context.Context) (*cloudprovider.InstanceMetadata, error) {
		began := i.lease.began()
		metadata, err := i.instances.InstanceMetadata(ctx, node)
		delay := i.heard(began, node, metadata, err)
		if delay > 0 && (refreshes || isUninitialised(node)) {
			i.lease.repeatAfter(node.Name, delay)
		}
		if metadata == nil && err == nil && !isUninitialised(node) {
			// Not the provider's. For an uninitialised Node upstream accepts nil, for an initialised one
			// it dereferences it: empty metadata has the same effect there.
			metadata = &cloudprovider.InstanceMetadata{}
		}
		return metadata, err
	})
}

// heard is told the answer about a Node, and returns when the provider wants to be asked
// again, or 0. Upstream drops that delay, and returns to an uninitialised Node after up to a
// quarter of an hour.
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
