// Package through puts this project's adapter, with its background, before a provider
// that is compiled in: between upstream's controllers and upstream's fake, while
// upstream's tests of the controllers run (../controllers_test.go). Only the guest is
// missing in the chain: its place has the provider, which gets the objects as they were.
package through

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	corev1 "k8s.io/api/core/v1"
	cloudprovider "k8s.io/cloud-provider"
	cloudproviderapi "k8s.io/cloud-provider/api"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/host/internal/cloud/async"
	"github.com/wasm-ccm/wasm-ccm/host/internal/cloud/convert"
	"github.com/wasm-ccm/wasm-ccm/host/internal/cloud/opcontext"
	"github.com/wasm-ccm/wasm-ccm/host/internal/cloud/provider"
)

// Own is what the provider has by itself.
type Own struct {
	Name      string
	Balancer  cloudprovider.LoadBalancer
	Instances cloudprovider.InstancesV2
	Routes    cloudprovider.Routes
	// Takes is added to each op.
	Takes time.Duration
}

// New returns the provider behind the chain.
func New(own Own) *Through { return &Through{provider.New(async.New(invoker{own}, async.Options{}))} }

// Through is the provider behind the chain.
type Through struct{ chain *provider.Provider }

// Balancer asks through the chain.
func (t *Through) Balancer() cloudprovider.LoadBalancer {
	chain, _ := t.chain.LoadBalancer()
	return balancer{chain}
}

// Instances asks through the chain.
func (t *Through) Instances() cloudprovider.InstancesV2 {
	chain, _ := t.chain.InstancesV2()
	return instances{chain}
}

// Routes asks through the chain.
func (t *Through) Routes() cloudprovider.Routes {
	chain, _ := t.chain.Routes()
	return routes{chain}
}

// about carries an object as it is past the chain.
type about struct{}

func with(ctx context.Context, object any) context.Context {
	return context.WithValue(ctx, about{}, object)
}

type balancer struct{ cloudprovider.LoadBalancer }

func (b balancer) GetLoadBalancer(ctx context.Context, cluster string, s *corev1.Service) (*corev1.LoadBalancerStatus, bool, error) {
	return b.LoadBalancer.GetLoadBalancer(with(ctx, s), cluster, s)
}

func (b balancer) EnsureLoadBalancer(ctx context.Context, cluster string, s *corev1.Service, nodes []*corev1.Node) (*corev1.LoadBalancerStatus, error) {
	return b.LoadBalancer.EnsureLoadBalancer(with(ctx, s), cluster, s, nodes)
}

func (b balancer) UpdateLoadBalancer(ctx context.Context, cluster string, s *corev1.Service, nodes []*corev1.Node) error {
	return b.LoadBalancer.UpdateLoadBalancer(with(ctx, s), cluster, s, nodes)
}

func (b balancer) EnsureLoadBalancerDeleted(ctx context.Context, cluster string, s *corev1.Service) error {
	return b.LoadBalancer.EnsureLoadBalancerDeleted(with(ctx, s), cluster, s)
}

func (b balancer) GetLoadBalancerName(ctx context.Context, cluster string, s *corev1.Service) string {
	return b.LoadBalancer.GetLoadBalancerName(with(ctx, s), cluster, s)
}

type instances struct{ cloudprovider.InstancesV2 }

func (i instances) InstanceExists(ctx context.Context, n *corev1.Node) (bool, error) {
	return i.InstancesV2.InstanceExists(with(ctx, n), n)
}

func (i instances) InstanceShutdown(ctx context.Context, n *corev1.Node) (bool, error) {
	return i.InstancesV2.InstanceShutdown(with(ctx, n), n)
}

func (i instances) InstanceMetadata(ctx context.Context, n *corev1.Node) (*cloudprovider.InstanceMetadata, error) {
	return i.InstancesV2.InstanceMetadata(with(ctx, n), n)
}

type routes struct{ cloudprovider.Routes }

func (r routes) CreateRoute(ctx context.Context, cluster, hint string, route *cloudprovider.Route) error {
	return r.Routes.CreateRoute(with(ctx, route), cluster, hint, route)
}

func (r routes) DeleteRoute(ctx context.Context, cluster string, route *cloudprovider.Route) error {
	return r.Routes.DeleteRoute(with(ctx, route), cluster, route)
}

// invoker has the place of the guest.
type invoker struct{ own Own }

// Supports implements opcontext.Invoker.
func (invoker) Supports(op abi.Op) bool {
	return op != abi.OpListInstances && op.Group() != abi.GroupVolumes
}

// ProviderName implements opcontext.Invoker.
func (i invoker) ProviderName() string { return i.own.Name }

// HasClusterID implements opcontext.Invoker.
func (invoker) HasClusterID() bool { return true }

// InvokeFresh implements opcontext.Invoker.
func (i invoker) InvokeFresh(ctx context.Context, op abi.Op, req, resp abi.Message) error {
	return i.Invoke(ctx, op, req, resp)
}

// Invoke implements opcontext.Invoker.
func (i invoker) Invoke(ctx context.Context, op abi.Op, req, resp abi.Message) error {
	select {
	case <-time.After(i.own.Takes):
	case <-ctx.Done():
		return ctx.Err()
	}
	switch object := ctx.Value(about{}).(type) {
	case *corev1.Service:
		return code(i.balance(ctx, op, req.(*abi.LoadBalancerRequest).ClusterName, object, resp))
	case *corev1.Node:
		return code(i.instance(ctx, object, resp))
	}
	return code(i.route(ctx, req, resp))
}

func (i invoker) balance(ctx context.Context, op abi.Op, cluster string, s *corev1.Service, resp abi.Message) (err error) {
	nodes := opcontext.FromContext(ctx).Nodes
	var status *corev1.LoadBalancerStatus
	switch r := resp.(type) {
	case *abi.LoadBalancerNameResponse:
		r.Name = i.own.Balancer.GetLoadBalancerName(ctx, cluster, s)
	case *abi.LoadBalancerGetResponse:
		var exists bool
		status, exists, err = i.own.Balancer.GetLoadBalancer(ctx, cluster, s)
		r.Existence, r.Status = existence(exists), valid(status)
	case *abi.LoadBalancerEnsureResponse:
		status, err = i.own.Balancer.EnsureLoadBalancer(ctx, cluster, s, nodes)
		r.Status = valid(status)
	case *abi.Done:
		r.Done = true
		if op == abi.OpLoadBalancerUpdate {
			return i.own.Balancer.UpdateLoadBalancer(ctx, cluster, s, nodes)
		}
		return i.own.Balancer.EnsureLoadBalancerDeleted(ctx, cluster, s)
	}
	return err
}

// valid has an address where upstream's fake has none that any cloud has: "<nil>".
func valid(status *corev1.LoadBalancerStatus) *abi.LoadBalancerStatus {
	if status == nil {
		return nil
	}
	status = status.DeepCopy()
	for i := range status.Ingress {
		if _, err := netip.ParseAddr(status.Ingress[i].IP); err != nil {
			status.Ingress[i].IP = "192.0.2.1"
		}
	}
	return convert.LoadBalancerStatus(status)
}

func existence(exists bool) abi.Existence {
	if exists {
		return abi.Existence_EXISTENCE_EXISTS
	}
	return abi.Existence_EXISTENCE_DOES_NOT_EXIST
}

func (i invoker) instance(ctx context.Context, n *corev1.Node, resp abi.Message) error {
	switch r := resp.(type) {
	case *abi.InstanceExistsResponse:
		exists, err := i.own.Instances.InstanceExists(ctx, n)
		r.Existence = existence(exists)
		return err
	case *abi.InstanceShutdownResponse:
		shutdown, err := i.own.Instances.InstanceShutdown(ctx, n)
		if r.State = abi.PowerState_POWER_STATE_ON; shutdown {
			r.State = abi.PowerState_POWER_STATE_SHUTDOWN
		}
		return err
	case *abi.InstanceMetadataResponse:
		m, err := i.own.Instances.InstanceMetadata(ctx, n)
		if err != nil || m == nil {
			r.NotMine = true
			return err
		}
		addresses := convert.Node(&corev1.Node{Status: corev1.NodeStatus{Addresses: m.NodeAddresses}}).Addresses
		r.Metadata = &abi.InstanceMetadata{
			ProviderId: m.ProviderID, InstanceType: m.InstanceType, Addresses: addresses, Zone: m.Zone, Region: m.Region, AdditionalLabels: m.AdditionalLabels,
		}
		return nil
	}
	return fmt.Errorf("a %T", resp)
}

func (i invoker) route(ctx context.Context, req, resp abi.Message) error {
	route, _ := ctx.Value(about{}).(*cloudprovider.Route)
	switch r := req.(type) {
	case *abi.RouteListRequest:
		list, err := i.own.Routes.ListRoutes(ctx, r.ClusterName)
		answer := resp.(*abi.RouteListResponse)
		for _, one := range list {
			answer.Routes = append(answer.Routes, convert.Route(one))
		}
		answer.Done = true
		return err
	case *abi.RouteCreateRequest:
		resp.(*abi.Done).Done = true
		return i.own.Routes.CreateRoute(ctx, r.ClusterName, r.NameHint, route)
	case *abi.RouteDeleteRequest:
		resp.(*abi.Done).Done = true
		return i.own.Routes.DeleteRoute(ctx, r.ClusterName, route)
	}
	return fmt.Errorf("a %T", req)
}

// code is the error as a guest would answer it.
func code(err error) error {
	var retry *cloudproviderapi.RetryError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &retry):
		return &abi.Error{Code: abi.CodeRetryAfter, RetryAfter: retry.RetryAfter(), Message: err.Error()}
	case errors.Is(err, cloudprovider.InstanceNotFound):
		return &abi.Error{Code: abi.CodeInstanceNotFound, Message: err.Error()}
	case errors.Is(err, cloudprovider.ImplementedElsewhere):
		return &abi.Error{Code: abi.CodeImplementedElsewhere, Message: err.Error()}
	case errors.Is(err, cloudprovider.NotImplemented):
		return &abi.Error{Code: abi.CodeNotImplemented, Message: err.Error()}
	}
	return &abi.Error{Code: abi.CodeUnavailable, Message: err.Error()}
}
