package loadbalancer

import (
	"fmt"
	"slices"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/guests/openstack/api"
	"github.com/wasm-ccm/wasm-ccm/guests/sdk"
)

// vipNetwork chooses the VIP's network. By default it is the subnet of the
// first node, for one call.
func (w *work) vipNetwork() (network, subnet string, err error) {
	network, subnet = w.networks.network, w.networks.subnet
	switch {
	case network == "" && subnet == "":
		subnet, err = w.nodeSubnet()
	case subnet == "" && w.family == "IPv6":
		// Octavia would take an IPv4 subnet of the network.
		subnet, err = w.subnetOfFamily(network, 6)
	}
	return network, subnet, err
}

// memberSubnet chooses the subnet of the members: the configured one, else that
// of the first node if no network is configured, else the VIP's.
func (w *work) memberSubnet() (string, error) {
	switch {
	case w.networks.member != "":
		return w.networks.member, nil
	case w.networks.network == "" && len(w.backends) > 0:
		return w.nodeSubnet()
	case w.lb != nil:
		return w.lb.SubnetID, nil
	}
	return "", nil
}

// pauseForNodes is the wait of a Service without nodes.
const pauseForNodes = maxPause

// nodeSubnet is the subnet of the first node's address: one call.
func (w *work) nodeSubnet() (string, error) {
	if w.known != "" {
		return w.known, nil
	}
	if len(w.backends) == 0 {
		return "", sdk.RetryAfter(pauseForNodes, "there is no node yet to take the subnet of the load balancer from; [LoadBalancer] subnet-id or the annotation "+annSubnetID+" says it")
	}
	b := w.backends[0]
	id := serverID(b.providerID)
	if id == "" {
		return "", sdk.RetryAfter(pauseForNodes, fmt.Sprintf("the node %s has no provider ID of OpenStack (%q) to find the subnet of the load balancer by; [LoadBalancer] subnet-id or the annotation %s says it", b.node, b.providerID, annSubnetID))
	}
	var ports []struct {
		FixedIPs []struct {
			SubnetID string `json:"subnet_id"`
			Address  string `json:"ip_address"`
		} `json:"fixed_ips"`
	}
	if err := readAll(w.c, list("/ports", api.Query("device_id", id, "fields", "fixed_ips"), "ports", &ports)); err != nil {
		return "", err
	}
	for _, p := range ports {
		for _, ip := range p.FixedIPs {
			if (member{Address: ip.Address}).key() == (member{Address: b.address}).key() {
				w.known = ip.SubnetID
				return w.known, nil
			}
		}
	}
	return "", sdk.Error(abi.CodeInvalid, fmt.Sprintf("no port of the server %s has the address %s of the node %s, so the subnet of the load balancer is not known; [LoadBalancer] subnet-id or the annotation %s says it", id, b.address, b.node, annSubnetID))
}

type subnet struct {
	ID        string `json:"id"`
	Name      string `json:"name"`
	NetworkID string `json:"network_id"`
	IPVersion int    `json:"ip_version"`
}

func subnets(out *[]subnet, query ...string) *reading {
	for _, field := range []string{"id", "name", "network_id", "ip_version"} {
		query = append(query, "fields", field)
	}
	return list("/subnets", api.Query(query...), "subnets", out)
}

func (w *work) subnetOfFamily(network string, version int) (string, error) {
	var found []subnet
	if err := readAll(w.c, subnets(&found, "network_id", network, "ip_version", fmt.Sprint(version))); err != nil {
		return "", err
	}
	found = slices.DeleteFunc(found, func(s subnet) bool { return s.NetworkID != network || s.IPVersion != version })
	if len(found) == 0 {
		return "", sdk.Invalidf("the network %s has no subnet of IPv%d for the load balancer", network, version)
	}
	return found[0].ID, nil
}
