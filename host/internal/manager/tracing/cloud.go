package tracing

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
	corev1 "k8s.io/api/core/v1"
	cloudprovider "k8s.io/cloud-provider"
)

// Cloud returns a provider's cloud whose calls begin traces, since upstream's loops begin none.
func (s *Spans) Cloud(provider string, cloud cloudprovider.Interface) cloudprovider.Interface {
	return traced{cloud, caller{s, provider}}
}

type traced struct {
	cloudprovider.Interface
	caller
}

// caller makes the spans of one provider's calls.
type caller struct {
	spans    *Spans
	provider string
}

func (c caller) begin(ctx context.Context, method, object string) (context.Context, trace.Span) {
	ctx, span := c.spans.Start(ctx, method)
	if span.IsRecording() {
		span.SetAttributes(attribute.String(AttributeProvider, c.provider))
		if object != "" {
			span.SetAttributes(attribute.String(AttributeObject, object))
		}
	}
	return ctx, span
}

func service(s *corev1.Service) string { return "Service " + s.Namespace + "/" + s.Name }

func (t traced) LoadBalancer() (cloudprovider.LoadBalancer, bool) {
	inner, ok := t.Interface.LoadBalancer()
	if !ok || inner == nil {
		return inner, ok
	}
	return balancers{inner, t.caller}, true
}

type balancers struct {
	cloudprovider.LoadBalancer
	caller
}

func (b balancers) GetLoadBalancer(ctx context.Context, cluster string, s *corev1.Service) (_ *corev1.LoadBalancerStatus, _ bool, err error) {
	ctx, span := b.begin(ctx, "GetLoadBalancer", service(s))
	defer func() { End(span, err) }()
	return b.LoadBalancer.GetLoadBalancer(ctx, cluster, s)
}

func (b balancers) EnsureLoadBalancer(ctx context.Context, cluster string, s *corev1.Service, nodes []*corev1.Node) (_ *corev1.LoadBalancerStatus, err error) {
	ctx, span := b.begin(ctx, "EnsureLoadBalancer", service(s))
	defer func() { End(span, err) }()
	return b.LoadBalancer.EnsureLoadBalancer(ctx, cluster, s, nodes)
}

func (b balancers) UpdateLoadBalancer(ctx context.Context, cluster string, s *corev1.Service, nodes []*corev1.Node) (err error) {
	ctx, span := b.begin(ctx, "UpdateLoadBalancer", service(s))
	defer func() { End(span, err) }()
	return b.LoadBalancer.UpdateLoadBalancer(ctx, cluster, s, nodes)
}

func (b balancers) EnsureLoadBalancerDeleted(ctx context.Context, cluster string, s *corev1.Service) (err error) {
	ctx, span := b.begin(ctx, "EnsureLoadBalancerDeleted", service(s))
	defer func() { End(span, err) }()
	return b.LoadBalancer.EnsureLoadBalancerDeleted(ctx, cluster, s)
}

func (t traced) InstancesV2() (cloudprovider.InstancesV2, bool) {
	inner, ok := t.Interface.InstancesV2()
	if !ok || inner == nil {
		return inner, ok
	}
	return instances{inner, t.caller}, true
}

type instances struct {
	inner cloudprovider.InstancesV2
	caller
}

func (i instances) InstanceExists(ctx context.Context, n *corev1.Node) (_ bool, err error) {
	ctx, span := i.begin(ctx, "InstanceExists", "Node "+n.Name)
	defer func() { End(span, err) }()
	return i.inner.InstanceExists(ctx, n)
}

func (i instances) InstanceShutdown(ctx context.Context, n *corev1.Node) (_ bool, err error) {
	ctx, span := i.begin(ctx, "InstanceShutdown", "Node "+n.Name)
	defer func() { End(span, err) }()
	return i.inner.InstanceShutdown(ctx, n)
}

func (i instances) InstanceMetadata(ctx context.Context, n *corev1.Node) (_ *cloudprovider.InstanceMetadata, err error) {
	ctx, span := i.begin(ctx, "InstanceMetadata", "Node "+n.Name)
	defer func() { End(span, err) }()
	return i.inner.InstanceMetadata(ctx, n)
}

func (t traced) Routes() (cloudprovider.Routes, bool) {
	inner, ok := t.Interface.Routes()
	if !ok || inner == nil {
		return inner, ok
	}
	return routes{inner, t.caller}, true
}

type routes struct {
	inner cloudprovider.Routes
	caller
}

func (r routes) ListRoutes(ctx context.Context, cluster string) (_ []*cloudprovider.Route, err error) {
	ctx, span := r.begin(ctx, "ListRoutes", "")
	defer func() { End(span, err) }()
	return r.inner.ListRoutes(ctx, cluster)
}

func (r routes) CreateRoute(ctx context.Context, cluster, hint string, route *cloudprovider.Route) (err error) {
	ctx, span := r.begin(ctx, "CreateRoute", "Node "+string(route.TargetNode))
	defer func() { End(span, err) }()
	return r.inner.CreateRoute(ctx, cluster, hint, route)
}

func (r routes) DeleteRoute(ctx context.Context, cluster string, route *cloudprovider.Route) (err error) {
	ctx, span := r.begin(ctx, "DeleteRoute", "Node "+string(route.TargetNode))
	defer func() { End(span, err) }()
	return r.inner.DeleteRoute(ctx, cluster, route)
}
