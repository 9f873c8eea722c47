package main

import (
	"slices"
	"time"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/guests/sdk"
	"github.com/wasm-ccm/wasm-ccm/guests/sdk/rest"
)

// balancer is a load balancer in the API. Its name is ours and unique in the
// API, so it is found again after a crash.
type balancer struct {
	ID      string   `json:"id,omitempty"`
	Name    string   `json:"name"`
	Status  string   `json:"status,omitempty"`
	IP      string   `json:"ip,omitempty"`
	Ports   []port   `json:"ports"`
	Servers []string `json:"servers"`
}

type port struct {
	Port     int32 `json:"port"`
	NodePort int32 `json:"node_port"`
}

const balancers = "/load-balancers"

func (p *provider) LoadBalancerName(_ *sdk.Op, request *abi.LoadBalancerRequest) (string, error) {
	if request.Service.Uid == "" {
		return "", sdk.Invalidf("the Service %s/%s has no UID", request.Service.Namespace, request.Service.Name)
	}
	return sdk.LoadBalancerName(request.Service, 63), nil
}

func (p *provider) GetLoadBalancer(op *sdk.Op, request *abi.LoadBalancerRequest) (sdk.Existence, *abi.LoadBalancerStatus, error) {
	b, found, err := p.balancer(op, request)
	switch {
	case err != nil:
		return 0, nil, err
	case !found:
		return sdk.DoesNotExist, nil, nil
	}
	return sdk.Exists, b.status(), nil
}

func (p *provider) EnsureLoadBalancer(op *sdk.Op, request *abi.LoadBalancerRequest) (*abi.LoadBalancerStatus, error) {
	b, found, err := p.balancer(op, request)
	if err != nil {
		return nil, err
	}
	want, err := wanted(op, request)
	if err != nil {
		return nil, err
	}
	if !found {
		err = p.api(op).Post(balancers, want, &b)
	} else {
		err = p.change(op, &b, want)
	}
	if err != nil {
		return nil, err
	}
	states := sdk.States{Ready: []string{"active"}, Failed: []string{"error"}, Every: 2 * time.Second}
	if err := states.Await("load balancer "+b.Name+" ("+b.ID+")", b.Status); err != nil {
		return nil, err
	}
	return b.status(), nil
}

func (p *provider) UpdateLoadBalancer(op *sdk.Op, request *abi.LoadBalancerRequest) error {
	b, found, err := p.balancer(op, request)
	if err != nil {
		return err
	}
	if !found {
		return sdk.NotFound("there is no load balancer " + sdk.LoadBalancerName(request.Service, 63))
	}
	want, err := wanted(op, request)
	if err != nil {
		return err
	}
	return p.change(op, &b, want)
}

func (p *provider) DeleteLoadBalancer(op *sdk.Op, request *abi.LoadBalancerRequest) error {
	b, found, err := p.balancer(op, request)
	if err != nil || !found {
		return err
	}
	return rest.IgnoreNotFound(p.api(op).Delete(balancers + "/" + rest.Segment(b.ID)))
}

// change writes only differences: each op may be repeated.
func (p *provider) change(op *sdk.Op, b *balancer, want balancer) error {
	if slices.Equal(b.Ports, want.Ports) && slices.Equal(b.Servers, want.Servers) {
		return nil
	}
	return p.api(op).Put(balancers+"/"+rest.Segment(b.ID), want, b)
}

func (p *provider) balancer(op *sdk.Op, request *abi.LoadBalancerRequest) (b balancer, found bool, err error) {
	name := sdk.LoadBalancerName(request.Service, 63)
	paging := rest.Paging{Items: "load_balancers", Param: "page_token", Next: "next"}
	all, err := rest.List[balancer](p.api(op), balancers+rest.Query("name", name), paging)
	if err != nil {
		return b, false, err
	}
	for _, b := range all {
		if b.Name == name && b.ID != "" {
			return b, true, nil
		}
	}
	return b, false, nil
}

// wanted is the load balancer that the Service asks for. What the cloud cannot
// do is an error and not ignored: a user would rely on it.
func wanted(op *sdk.Op, request *abi.LoadBalancerRequest) (balancer, error) {
	b := balancer{Name: sdk.LoadBalancerName(request.Service, 63), Servers: []string{}}
	if len(request.Service.LoadBalancerSourceRanges) > 0 {
		return b, sdk.Invalidf("spec.loadBalancerSourceRanges: this cloud has no firewall for load balancers; remove them")
	}
	for _, p := range request.Service.Ports {
		if p.Protocol != "TCP" || p.NodePort == 0 {
			return b, sdk.Invalidf("port %d: this cloud balances TCP to node ports; set protocol: TCP and leave allocateLoadBalancerNodePorts out", p.Port)
		}
		b.Ports = append(b.Ports, port{p.Port, p.NodePort})
	}
	for node, err := range op.Nodes(request.Nodes, sdk.NodeName, sdk.NodeProviderID) {
		if err != nil {
			return b, err
		}
		if node.ProviderId != "" { // without one the Node is not initialised yet
			b.Servers = append(b.Servers, node.Name)
		}
	}
	slices.Sort(b.Servers)
	return b, nil
}

func (b balancer) status() *abi.LoadBalancerStatus {
	status := &abi.LoadBalancerStatus{}
	if b.IP != "" && b.Status == "active" {
		status.Ingress = []*abi.LoadBalancerIngress{{Ip: b.IP, IpMode: "VIP"}}
	}
	return status
}
