package hostile_test

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/host/internal/cloud/provider"
)

const cluster = "hostile"

// run runs one op as Kubernetes' controllers would. Gone is true where they
// would delete, taint or forget something.
func run(ctx context.Context, p *provider.Provider, op abi.Op) (gone bool, err error) {
	switch {
	case op < abi.OpLoadBalancerGet:
		return runInstances(ctx, p, op)
	case op < abi.OpRouteList:
		return runLoadBalancer(ctx, p, op)
	case op < abi.OpVolumeLabels:
		return runRoutes(ctx, p, op)
	}
	pv := &corev1.PersistentVolume{}
	pv.Name = "pv-1"
	pv.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: "test", VolumeHandle: "v1"}
	_, err = p.GetLabelsForVolume(ctx, pv)
	return false, err
}

func runInstances(ctx context.Context, p *provider.Provider, op abi.Op) (gone bool, err error) {
	instances, ok := p.InstancesV2()
	switch {
	case !ok:
		return false, errors.New("the provider has no instances")
	case op == abi.OpInstanceExists:
		exists, err := instances.InstanceExists(ctx, node())
		return err == nil && !exists, err
	case op == abi.OpInstanceShutdown:
		return instances.InstanceShutdown(ctx, node())
	}
	_, err = instances.InstanceMetadata(ctx, node())
	return errors.Is(err, cloudprovider.InstanceNotFound), err
}

func runLoadBalancer(ctx context.Context, p *provider.Provider, op abi.Op) (gone bool, err error) {
	lb, ok := p.LoadBalancer()
	if !ok {
		return false, errors.New("the provider has no load balancers")
	}
	switch op {
	case abi.OpLoadBalancerGet:
		_, exists, err := lb.GetLoadBalancer(ctx, cluster, aService())
		return err == nil && !exists, err
	case abi.OpLoadBalancerEnsure:
		_, err = lb.EnsureLoadBalancer(ctx, cluster, aService(), []*corev1.Node{node()})
	case abi.OpLoadBalancerUpdate:
		err = lb.UpdateLoadBalancer(ctx, cluster, aService(), []*corev1.Node{node()})
	case abi.OpLoadBalancerDelete:
		err = lb.EnsureLoadBalancerDeleted(ctx, cluster, aService())
		return err == nil, err
	default:
		err = fmt.Errorf("%s is not run here", op)
	}
	return false, err
}

func runRoutes(ctx context.Context, p *provider.Provider, op abi.Op) (gone bool, err error) {
	routes, ok := p.Routes()
	if !ok {
		return false, errors.New("the provider has no routes")
	}
	route := &cloudprovider.Route{Name: "r", TargetNode: "node-1", DestinationCIDR: "10.0.0.0/24"}
	switch op {
	case abi.OpRouteList:
		list, err := routes.ListRoutes(ctx, cluster)
		return err == nil && len(list) == 0, err
	case abi.OpRouteCreate:
		return false, routes.CreateRoute(ctx, cluster, "r", route)
	}
	err = routes.DeleteRoute(ctx, cluster, route)
	return err == nil, err
}
