package upstream

import (
	"context"
	"fmt"

	cloudprovider "k8s.io/cloud-provider"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/guests/sdk"
)

func (p *provider) routes(op *sdk.Op) (ctx context.Context, routes cloudprovider.Routes, done func(), err error) {
	ctx, done, err = p.begin(op, "")
	if err != nil {
		return nil, nil, nil, err
	}
	routes, ok := p.cloud.Routes()
	if !ok {
		done()
		return nil, nil, nil, notImplemented("Routes")
	}
	return ctx, routes, done, nil
}

// ListRoutes is part of sdk.Routes.
func (p *provider) ListRoutes(op *sdk.Op, clusterName string) ([]*abi.Route, error) {
	ctx, routes, done, err := p.routes(op)
	if err != nil {
		return nil, err
	}
	defer done()
	seen := &witness{}
	p.bridge.witness(seen)
	list, err := routes.ListRoutes(ctx, clusterName)
	if err != nil {
		return nil, p.failure(err)
	}
	p.bridge.witness(nil)
	if p.settings.strict() { // a Node whose route is missing gets the taint "no network"
		if err := p.heard(seen, "routes that are missing"); err != nil {
			return nil, err
		}
	}
	out := make([]*abi.Route, len(list))
	for i, route := range list {
		out[i] = routeTo(route)
	}
	return out, nil
}

// CreateRoute is part of sdk.Routes.
func (p *provider) CreateRoute(op *sdk.Op, request *abi.RouteCreateRequest) error {
	ctx, routes, done, err := p.routes(op)
	if err != nil {
		return err
	}
	defer done()
	route := routeFrom(request.Route)
	err = routes.CreateRoute(ctx, request.ClusterName, request.NameHint, route)
	if err != nil {
		var found listing
		if found, err = look(ctx, routes, request.ClusterName, route, err); found == inList {
			return nil // the ABI has no error for an existing route
		}
	}
	return p.failure(err)
}

// DeleteRoute is part of sdk.Routes.
func (p *provider) DeleteRoute(op *sdk.Op, request *abi.RouteDeleteRequest) error {
	ctx, routes, done, err := p.routes(op)
	if err != nil {
		return err
	}
	defer done()
	route := routeFrom(request.Route)
	err = routes.DeleteRoute(ctx, request.ClusterName, route)
	if err != nil {
		var found listing
		if found, err = look(ctx, routes, request.ClusterName, route, err); found == notInList {
			return nil
		}
	}
	return p.failure(err)
}

// listing is a list's content about one route.
type listing int

const (
	unlistable listing = iota
	inList
	notInList
)

// look finds a route by its destination after a failed op: AWS, for one,
// answers with an error if the route already exists, or is already gone. The
// error is the op's, with that of the list, if it failed.
func look(ctx context.Context, routes cloudprovider.Routes, cluster string, want *cloudprovider.Route, failed error) (listing, error) {
	list, err := routes.ListRoutes(ctx, cluster)
	if err != nil {
		return unlistable, fmt.Errorf("%w; then its list: %s", failed, err.Error())
	}
	for _, route := range list {
		if route.DestinationCIDR == want.DestinationCIDR {
			if route.TargetNode == want.TargetNode && !route.Blackhole {
				return inList, failed
			}
			return unlistable, failed // it exists, and leads elsewhere
		}
	}
	return notInList, failed
}
