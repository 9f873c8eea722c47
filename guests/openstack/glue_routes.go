package main

import (
	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/guests/openstack/routes"
	"github.com/wasm-ccm/wasm-ccm/guests/sdk"
)

func (p *provider) routes(op *sdk.Op) *routes.Routes { return routes.New(p.client(op), p.config) }

// ListRoutes is part of sdk.Routes. The router belongs to the cluster, so routes
// do not contain its name.
func (p *provider) ListRoutes(op *sdk.Op, _ string) ([]*abi.Route, error) { return p.routes(op).List() }

// CreateRoute is part of sdk.Routes.
func (p *provider) CreateRoute(op *sdk.Op, request *abi.RouteCreateRequest) error {
	return p.routes(op).Create(request)
}

// DeleteRoute is part of sdk.Routes.
func (p *provider) DeleteRoute(op *sdk.Op, request *abi.RouteDeleteRequest) error {
	return p.routes(op).Delete(request)
}
