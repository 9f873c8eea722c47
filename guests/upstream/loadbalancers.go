package upstream

import (
	"context"

	v1 "k8s.io/api/core/v1"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/guests/sdk"
)

func (p *provider) balancers(op *sdk.Op, service *abi.Service) (ctx context.Context, balancers cloudprovider.LoadBalancer, done func(), err error) {
	ctx, done, err = p.begin(op, "Service/"+service.Namespace+"/"+service.Name)
	if err != nil {
		return nil, nil, nil, err
	}
	balancers, ok := p.cloud.LoadBalancer()
	if !ok {
		done()
		return nil, nil, nil, notImplemented("LoadBalancer")
	}
	return ctx, balancers, done, nil
}

// nodes are the op's. All are read before the provider runs.
func (p *provider) nodes(snapshot *abi.NodeSnapshot) (nodes []*v1.Node, err error) {
	err = p.bridge.use(func(op *sdk.Op) error {
		for node, err := range op.Nodes(snapshot) {
			if err != nil {
				return err
			}
			nodes = append(nodes, nodeFrom(node))
		}
		return nil
	})
	return nodes, err
}

// GetLoadBalancer is part of sdk.LoadBalancers.
func (p *provider) GetLoadBalancer(op *sdk.Op, request *abi.LoadBalancerRequest) (sdk.Existence, *abi.LoadBalancerStatus, error) {
	ctx, balancers, done, err := p.balancers(op, request.Service)
	if err != nil {
		return 0, nil, err
	}
	defer done()
	seen := &witness{}
	p.bridge.witness(seen)
	status, exists, err := balancers.GetLoadBalancer(ctx, request.ClusterName, serviceFrom(request.Service))
	if err != nil {
		return 0, nil, p.failure(err)
	}
	if exists {
		return sdk.Exists, presentStatus(status), nil
	}
	p.bridge.witness(nil)
	if p.settings.strict() {
		if err := p.balancerGone(seen, request.Service.Namespace+"/"+request.Service.Name); err != nil {
			return 0, nil, err
		}
	}
	return sdk.DoesNotExist, nil, nil
}

// presentStatus is the status of a half-made load balancer that has none yet.
func presentStatus(status *v1.LoadBalancerStatus) *abi.LoadBalancerStatus {
	if status == nil {
		return &abi.LoadBalancerStatus{}
	}
	return statusTo(status)
}

// LoadBalancerName is part of sdk.LoadBalancers. It does not ask the provider,
// which may not exist yet: its constructor may use the network.
func (p *provider) LoadBalancerName(_ *sdk.Op, request *abi.LoadBalancerRequest) (string, error) {
	return p.name(request.ClusterName, serviceFrom(request.Service)), nil
}

// EnsureLoadBalancer is part of sdk.LoadBalancers.
func (p *provider) EnsureLoadBalancer(op *sdk.Op, request *abi.LoadBalancerRequest) (*abi.LoadBalancerStatus, error) {
	ctx, balancers, done, err := p.balancers(op, request.Service)
	if err != nil {
		return nil, err
	}
	defer done()
	nodes, err := p.nodes(request.Nodes)
	if err != nil {
		return nil, err
	}
	status, err := balancers.EnsureLoadBalancer(ctx, request.ClusterName, serviceFrom(request.Service), nodes)
	return statusTo(status), p.failure(err)
}

// UpdateLoadBalancer is part of sdk.LoadBalancers.
func (p *provider) UpdateLoadBalancer(op *sdk.Op, request *abi.LoadBalancerRequest) error {
	ctx, balancers, done, err := p.balancers(op, request.Service)
	if err != nil {
		return err
	}
	defer done()
	nodes, err := p.nodes(request.Nodes)
	if err != nil {
		return err
	}
	return p.failure(balancers.UpdateLoadBalancer(ctx, request.ClusterName, serviceFrom(request.Service), nodes))
}

// DeleteLoadBalancer is part of sdk.LoadBalancers.
func (p *provider) DeleteLoadBalancer(op *sdk.Op, request *abi.LoadBalancerRequest) error {
	ctx, balancers, done, err := p.balancers(op, request.Service)
	if err != nil {
		return err
	}
	defer done()
	seen := &witness{}
	p.bridge.witness(seen)
	if err := balancers.EnsureLoadBalancerDeleted(ctx, request.ClusterName, serviceFrom(request.Service)); err != nil {
		return p.failure(err)
	}
	p.bridge.witness(nil)
	if p.settings.strict() {
		return p.heard(seen, "load balancer of Service "+request.Service.Namespace+"/"+request.Service.Name)
	}
	return nil
}
