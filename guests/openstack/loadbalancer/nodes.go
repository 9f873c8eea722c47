package loadbalancer

import (
	"net/netip"
	"strings"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/guests/sdk"
)

// backend is a node that receives traffic.
type backend struct{ node, address, providerID string }

// backends are the nodes of the op that match the selector and have an address
// of the VIP's family.
func (k *call) backends(s *spec) ([]backend, error) {
	fields := []sdk.NodeField{sdk.NodeName, sdk.NodeProviderID, sdk.NodeAddresses}
	if len(s.selector) > 0 {
		fields = append(fields, sdk.NodeLabels)
	}
	var all []backend
	seen := map[string]bool{}
	for node, err := range k.c.Op().Nodes(k.nodes, fields...) {
		if err != nil {
			return nil, err
		}
		address := addressOf(node, s.family)
		if address == "" || seen[address] || !selected(node, s.selector) {
			continue
		}
		seen[address] = true
		all = append(all, backend{node.Name, address, node.ProviderId})
	}
	return all, nil
}

func selected(node *abi.Node, selector map[string]string) bool {
	for key, value := range selector {
		if actual, found := node.Labels[key]; !found || (value != "" && actual != value) {
			return false
		}
	}
	return true
}

// addressOf prefers an internal address to an external one.
func addressOf(node *abi.Node, family string) string {
	for _, kind := range []abi.AddressType{abi.AddressType_ADDRESS_TYPE_INTERNAL_IP, abi.AddressType_ADDRESS_TYPE_EXTERNAL_IP} {
		for _, a := range node.Addresses {
			ip, err := netip.ParseAddr(a.Address)
			if a.Type == kind && err == nil && (family == "" || ip.Is6() == (family == "IPv6")) {
				return ip.String()
			}
		}
	}
	return ""
}

// serverID is the last part of openstack:///ID and openstack://REGION/ID.
func serverID(providerID string) string {
	rest, found := strings.CutPrefix(providerID, "openstack://")
	if !found {
		return ""
	}
	return rest[strings.LastIndex(rest, "/")+1:]
}

// members are the wanted members of a pool.
func (w *work) members(p port) []member {
	if p.node == 0 { // spec.allocateLoadBalancerNodePorts is false
		return []member{}
	}
	check := int64(0)
	if w.asksHealthz(p) {
		check = w.monitor.check
	}
	all := make([]member, len(w.backends))
	for i, b := range w.backends {
		all[i] = member{Name: b.node, Address: b.address, Port: p.node, MonitorPort: check}
	}
	return all
}

// key identifies a member, however its address is written.
func (m member) key() member {
	if ip, err := netip.ParseAddr(m.Address); err == nil {
		m.Address = ip.String()
	}
	m.ID = ""
	return m
}
