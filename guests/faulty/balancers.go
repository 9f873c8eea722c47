package main

import (
	"strings"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/guests/sdk"
)

func status(service *abi.Service) *abi.LoadBalancerStatus {
	return &abi.LoadBalancerStatus{Ingress: []*abi.LoadBalancerIngress{{Ip: address(198, service.Uid)}}}
}

func path(service *abi.Service) string { return "/lb/" + service.Uid }

func (p *provider) GetLoadBalancer(op *sdk.Op, request *abi.LoadBalancerRequest) (sdk.Existence, *abi.LoadBalancerStatus, error) {
	p.step(abi.OpLoadBalancerGet)
	p.trespass(op)
	if p.count != "" {
		if _, found, err := p.get(op, path(request.Service)); err != nil || !found {
			return sdk.DoesNotExist, nil, err
		}
	}
	return sdk.Exists, status(request.Service), nil
}

func (p *provider) LoadBalancerName(_ *sdk.Op, request *abi.LoadBalancerRequest) (string, error) {
	p.step(abi.OpLoadBalancerName)
	return "lb-" + request.Service.Uid, nil
}

func (p *provider) EnsureLoadBalancer(op *sdk.Op, request *abi.LoadBalancerRequest) (*abi.LoadBalancerStatus, error) {
	return status(request.Service), p.keep(op, request, abi.OpLoadBalancerEnsure)
}

func (p *provider) UpdateLoadBalancer(op *sdk.Op, request *abi.LoadBalancerRequest) error {
	return p.keep(op, request, abi.OpLoadBalancerUpdate)
}

func (p *provider) DeleteLoadBalancer(op *sdk.Op, request *abi.LoadBalancerRequest) error {
	p.step(abi.OpLoadBalancerDelete)
	if err := p.misbehave(op, request.Service, "delete"); err != nil || p.count == "" {
		return err
	}
	return p.remove(op, path(request.Service))
}

func (p *provider) keep(op *sdk.Op, request *abi.LoadBalancerRequest, what abi.Op) error {
	p.step(what)
	if err := p.misbehave(op, request.Service, strings.TrimPrefix(what.String(), "lb_")); err != nil || p.count == "" {
		return err
	}
	body, err := wanted(op, request)
	if err != nil {
		return err
	}
	return p.put(op, path(request.Service), body)
}
