package upstream

import (
	"context"
	"errors"
	"strings"
	"testing"

	cloudprovider "k8s.io/cloud-provider"

	"github.com/wasm-ccm/wasm-ccm/abi"
)

// strictRoutes makes and removes each route only once.
type strictRoutes struct {
	routes
	deaf bool // to lists
}

func (r *strictRoutes) ListRoutes(context.Context, string) ([]*cloudprovider.Route, error) {
	if r.deaf {
		return nil, errors.New("no list")
	}
	return r.all, nil
}

func (r *strictRoutes) CreateRoute(_ context.Context, _, _ string, route *cloudprovider.Route) error {
	for _, there := range r.all {
		if there.DestinationCIDR == route.DestinationCIDR {
			return errors.New("RouteAlreadyExists")
		}
	}
	r.all = append(r.all, route)
	return nil
}

func (r *strictRoutes) DeleteRoute(context.Context, string, *cloudprovider.Route) error {
	if len(r.all) == 0 {
		return errors.New("InvalidRoute.NotFound")
	}
	r.all = nil
	return nil
}

// Making an existing route and removing a missing one succeed in the ABI;
// upstream's cloud reports errors.
func TestRoutesAgain(t *testing.T) {
	all := &strictRoutes{}
	r := newRig(t, "", func(*Environment) (cloudprovider.Interface, error) { return &cloud{routes: all}, nil })
	create := func(node string) error {
		return r.Call(abi.OpRouteCreate, &abi.RouteCreateRequest{Route: &abi.Route{TargetNode: node, DestinationCidr: "10.244.1.0/24"}}, &abi.Done{})
	}
	remove := func() error {
		return r.Call(abi.OpRouteDelete, &abi.RouteDeleteRequest{Route: &abi.Route{TargetNode: "m1", DestinationCidr: "10.244.1.0/24"}}, &abi.Done{})
	}
	for range 2 {
		if err := create("m1"); err != nil {
			t.Error(err)
		}
	}
	if err := create("m2"); err == nil {
		t.Error("a route to another node is ok")
	}
	all.all[0].Blackhole = true
	if err := create("m1"); err == nil {
		t.Error("a route into nothing is ok")
	}
	for range 2 {
		if err := remove(); err != nil {
			t.Error(err)
		}
	}
	all.deaf = true
	if err := remove(); err == nil || !strings.Contains(err.Error(), "InvalidRoute.NotFound; then its list: no list") {
		t.Errorf("without a list: %v", err)
	}
}
