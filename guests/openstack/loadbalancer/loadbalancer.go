// Package loadbalancer serves Services of type LoadBalancer with Octavia and
// with Neutron's floating IPs. It uses the names, tags and defaults of
// cloud-provider-openstack, so that existing load balancers are taken over
// unchanged.
//
// It never waits: for a load balancer in PENDING_* it answers sdk.RetryAfter,
// and the next op continues from the state of the cloud. It keeps no state. Its
// functions are safe for concurrent use on different Services.
package loadbalancer

import (
	"strings"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/guests/openstack/api"
	"github.com/wasm-ccm/wasm-ccm/guests/openstack/cloudconf"
	"github.com/wasm-ccm/wasm-ccm/guests/sdk"
)

// call is one op on one Service.
type call struct {
	c       *api.Client
	config  *cloudconf.Config
	service *abi.Service
	cluster string
	nodes   *abi.NodeSnapshot
	// name is the load balancer's, and the tag of all that belongs to the
	// Service.
	name    string
	version version
}

func newCall(c *api.Client, config *cloudconf.Config, request *abi.LoadBalancerRequest) (*call, error) {
	k := &call{
		c: c, config: config, service: request.Service, cluster: request.ClusterName, nodes: request.Nodes,
		name: Name(request.ClusterName, request.Service),
	}
	var err error
	k.version, err = octaviaVersion(c)
	return k, err
}

// Ensure makes the load balancer as the Service wants it and returns its
// address. If nothing changes it only reads: 4 calls, one for each port and,
// with health monitors, another for each port, in 3 rounds.
func Ensure(c *api.Client, config *cloudconf.Config, request *abi.LoadBalancerRequest) (*abi.LoadBalancerStatus, error) {
	w, err := newWork(c, config, request)
	if err != nil {
		return nil, err
	}
	if err := w.target(); err != nil {
		return nil, err
	}
	if w.lb == nil {
		if err := w.create(); err != nil {
			return nil, err
		}
	}
	if err := w.usable(); err != nil {
		return nil, w.startAgain(err)
	}
	if w.state, err = w.children(w.lb, true); err != nil {
		return nil, err
	}
	if err := w.reconcile(); err != nil {
		return nil, err
	}
	address, err := w.publish()
	if err != nil {
		return nil, err
	}
	return w.status(address), nil
}

// Update sets the members to the nodes, and repairs the listeners. It costs a
// call less than Ensure.
func Update(c *api.Client, config *cloudconf.Config, request *abi.LoadBalancerRequest) error {
	w, err := newWork(c, config, request)
	if err != nil {
		return err
	}
	if err := w.target(); err != nil {
		return err
	}
	if w.lb == nil {
		return sdk.NotFound("the load balancer " + w.name + " is not there to be updated; it is made when the Service is synchronised")
	}
	if err := w.usable(); err != nil {
		return err
	}
	if w.state, err = w.children(w.lb, false); err != nil {
		return err
	}
	return w.reconcile()
}

// work is an Ensure or an Update.
type work struct {
	*call
	*spec
	backends []backend
	// lb is nil if there is none.
	lb *balancer
	// owner: the load balancer is the Service's own, perhaps shared with
	// others. Otherwise the Service is a guest on it.
	owner bool
	state *children
	// known is the subnet of the first node, once read.
	known string
}

func newWork(c *api.Client, config *cloudconf.Config, request *abi.LoadBalancerRequest) (*work, error) {
	k, err := newCall(c, config, request)
	if err != nil {
		return nil, err
	}
	s, err := newSpec(request.Service, config)
	if err != nil {
		return nil, err
	}
	if len(s.warnings) > 0 {
		k.say("AnnotationIgnored", strings.Join(s.warnings, "; "))
	}
	backends, err := k.backends(s)
	return &work{call: k, spec: s, backends: backends}, err
}
