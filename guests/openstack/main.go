// Command openstack is the provider for OpenStack: instances from Nova and
// Neutron, load balancers from Octavia, routes from Neutron, volume labels from
// Cinder. Its configuration is the cloud.conf and the annotations of
// cloud-provider-openstack; REFERENCE.md lists them.
package main

import (
	"strconv"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/guests/openstack/api"
	"github.com/wasm-ccm/wasm-ccm/guests/openstack/cloudconf"
	"github.com/wasm-ccm/wasm-ccm/guests/sdk"
)

// version is set by build.sh from the manifest.
var version = "0.1.0"

func init() { sdk.Serve(&provider{}) } //nolint:gochecknoinits // main of a reactor is never run

func main() {}

// provider serves one cloud.conf, which it only reads.
type provider struct {
	config  *cloudconf.Config
	cluster string
}

func (p *provider) Info() sdk.Info {
	return sdk.Info{Name: "openstack", Version: version, ProviderName: "openstack"}
}

func (p *provider) Configure(_ *sdk.Op, config sdk.Config) (sdk.Configured, error) {
	c, warnings, err := cloudconf.Parse(config.Bytes)
	if err != nil {
		return sdk.Configured{}, sdk.Invalidf("cloud.conf: %v", err)
	}
	p.config, p.cluster = c, config.ClusterName
	configured := sdk.Configured{Warnings: warnings}
	if !c.LoadBalancer.Enabled {
		configured.DisabledOps = append(configured.DisabledOps, abi.OpLoadBalancerEnsure)
	}
	if c.Route.RouterID == "" {
		configured.DisabledOps = append(configured.DisabledOps, abi.OpRouteCreate)
	}
	return configured, nil
}

func (p *provider) client(op *sdk.Op) *api.Client { return api.New(op, &p.config.Global) }

// Probe calls Keystone and each service that the configuration needs.
func (p *provider) Probe(op *sdk.Op) (string, error) {
	c := p.client(op)
	reads := []*api.Read{
		{Service: api.Compute, Path: "/servers", Query: api.Query("limit", "1"), Key: "servers", Out: &[]any{}},
		{Service: api.Network, Path: "/networks", Query: api.Query("limit", "1", "fields", "id"), Key: "networks", Out: &[]any{}},
	}
	if p.config.LoadBalancer.Enabled {
		reads = append(reads, &api.Read{Service: api.LoadBalancer, Path: "/lbaas/loadbalancers", Query: api.Query("limit", "1", "fields", "id"), Key: "loadbalancers", Out: &[]any{}})
	}
	if id := p.config.Route.RouterID; id != "" {
		reads = append(reads, &api.Read{Service: api.Network, Path: "/routers/" + api.Segment(id), Key: "router", Out: &struct{}{}})
	}
	for _, err := range c.Reads(reads...) {
		if err != nil {
			return "", err
		}
	}
	return strconv.Itoa(len(reads)) + " APIs of " + p.config.Global.AuthURL + " answer", nil
}
