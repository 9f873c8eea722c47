package provider

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/klog/v2"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/host/internal/cloud/addresses"
	"github.com/wasm-ccm/wasm-ccm/host/internal/cloud/convert"
	"github.com/wasm-ccm/wasm-ccm/host/internal/cloud/opcontext"
)

// routes implements cloudprovider.Routes.
type routes struct {
	invoker  opcontext.Invoker
	steering *steering
}

// ListRoutes returns an empty list only if the guest said that the list is complete:
// upstream creates every missing route. Routes with destinations that no Node's route may
// have are dropped; upstream would leave them alone.
func (r *routes) ListRoutes(ctx context.Context, cluster string) ([]*cloudprovider.Route, error) {
	const op = abi.OpRouteList
	var answer abi.RouteListResponse
	if err := invoke(ctx, r.invoker.Invoke, op, "", &abi.RouteListRequest{ClusterName: cluster}, &answer); err != nil {
		return nil, err
	}
	if !answer.Done {
		return nil, invalidAnswer(op, "", errors.New("the answer does not say done"))
	}
	list, foreign, err := convert.CloudRoutes(answer.Routes, r.steering.policy())
	if err != nil {
		return nil, invalidAnswer(op, "", err)
	}
	if len(foreign) > 0 {
		klog.FromContext(ctx).V(4).Info("Listed routes are left out", "routes", len(foreign), "first", foreign[0].Error())
	}
	return list, nil
}

// CreateRoute creates a route; its name is only a hint. The destination comes from the
// Node's pod CIDR: whoever can create Nodes must not attract others' traffic by it.
func (r *routes) CreateRoute(ctx context.Context, cluster, nameHint string, route *cloudprovider.Route) error {
	if err := r.check(route); err != nil {
		return fmt.Errorf("%s: %w", about(abi.OpRouteCreate, routeSubject(route)), err)
	}
	var answer abi.Done
	request := &abi.RouteCreateRequest{ClusterName: cluster, NameHint: nameHint, Route: convert.Route(route)}
	if err := r.invoke(ctx, abi.OpRouteCreate, route, request, &answer); err != nil {
		return err
	}
	return done(abi.OpRouteCreate, routeSubject(route), &answer)
}

// DeleteRoute deletes a route that ListRoutes returned.
func (r *routes) DeleteRoute(ctx context.Context, cluster string, route *cloudprovider.Route) error {
	var answer abi.Done
	request := &abi.RouteDeleteRequest{ClusterName: cluster, Route: convert.Route(route)}
	if err := r.invoke(ctx, abi.OpRouteDelete, route, request, &answer); err != nil {
		return err
	}
	return done(abi.OpRouteDelete, routeSubject(route), &answer)
}

func (r *routes) check(route *cloudprovider.Route) error {
	destination, err := addresses.ParseCIDR(route.DestinationCIDR)
	if err != nil {
		return err
	}
	// Invariant A4 (host/SECURITY.md): checked before the guest is asked to create the route.
	return r.steering.policy().Destination(destination)
}

func (r *routes) invoke(ctx context.Context, op abi.Op, route *cloudprovider.Route, request, answer abi.Message) error {
	about := opcontext.Op{Serial: "Route " + routeSubject(route)}
	if node := string(route.TargetNode); node != "" {
		about.Object = &corev1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: node}
	}
	ctx = opcontext.NewContext(ctx, about)
	return invoke(ctx, r.invoker.Invoke, op, routeSubject(route), request, answer)
}

func routeSubject(route *cloudprovider.Route) string {
	if route.TargetNode == "" {
		return route.DestinationCIDR
	}
	return route.DestinationCIDR + " of " + string(route.TargetNode)
}
