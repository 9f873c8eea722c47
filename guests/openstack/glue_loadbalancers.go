package main

import (
	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/guests/openstack/loadbalancer"
	"github.com/wasm-ccm/wasm-ccm/guests/sdk"
)

// The provider has load balancers.
var _ sdk.LoadBalancers = (*provider)(nil)

// GetLoadBalancer is part of sdk.LoadBalancers.
func (p *provider) GetLoadBalancer(op *sdk.Op, request *abi.LoadBalancerRequest) (sdk.Existence, *abi.LoadBalancerStatus, error) {
	return loadbalancer.Get(p.client(op), p.config, p.named(request))
}

// LoadBalancerName is part of sdk.LoadBalancers.
func (p *provider) LoadBalancerName(_ *sdk.Op, request *abi.LoadBalancerRequest) (string, error) {
	return loadbalancer.Name(p.named(request).ClusterName, request.Service), nil
}

// EnsureLoadBalancer is part of sdk.LoadBalancers.
func (p *provider) EnsureLoadBalancer(op *sdk.Op, request *abi.LoadBalancerRequest) (*abi.LoadBalancerStatus, error) {
	return loadbalancer.Ensure(p.client(op), p.config, p.named(request))
}

// UpdateLoadBalancer is part of sdk.LoadBalancers.
func (p *provider) UpdateLoadBalancer(op *sdk.Op, request *abi.LoadBalancerRequest) error {
	return loadbalancer.Update(p.client(op), p.config, p.named(request))
}

// DeleteLoadBalancer is part of sdk.LoadBalancers.
func (p *provider) DeleteLoadBalancer(op *sdk.Op, request *abi.LoadBalancerRequest) error {
	return loadbalancer.Delete(p.client(op), p.config, p.named(request))
}

// named requires the cluster's name, which is part of load balancers' names.
func (p *provider) named(request *abi.LoadBalancerRequest) *abi.LoadBalancerRequest {
	if request.ClusterName == "" {
		request.ClusterName = p.cluster
	}
	return request
}
