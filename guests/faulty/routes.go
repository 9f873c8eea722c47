package main

import (
	"strings"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/guests/sdk"
)

func (p *provider) ListRoutes(op *sdk.Op, _ string) ([]*abi.Route, error) {
	p.step(abi.OpRouteList)
	body, _, err := p.get(op, "/route")
	if err != nil {
		return nil, err
	}
	var routes []*abi.Route
	for _, line := range strings.Split(strings.TrimSpace(body), "\n") {
		if line == "" {
			continue
		}
		fields := strings.Split(line, " ")
		if len(fields) != 3 {
			return nil, sdk.Error(abi.CodeUnavailable, "the cloud answered a route that is not NAME NODE CIDR: "+line)
		}
		routes = append(routes, &abi.Route{Name: fields[0], TargetNode: fields[1], DestinationCidr: fields[2]})
	}
	return routes, nil
}

func (p *provider) CreateRoute(op *sdk.Op, request *abi.RouteCreateRequest) error {
	p.step(abi.OpRouteCreate)
	return p.put(op, "/route/"+request.Route.TargetNode, request.Route.TargetNode+" "+request.Route.DestinationCidr)
}

func (p *provider) DeleteRoute(op *sdk.Op, request *abi.RouteDeleteRequest) error {
	p.step(abi.OpRouteDelete)
	return p.remove(op, "/route/"+request.Route.Name)
}
