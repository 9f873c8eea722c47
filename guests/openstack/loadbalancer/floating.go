package loadbalancer

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/guests/openstack/api"
	"github.com/wasm-ccm/wasm-ccm/guests/sdk"
)

// publish makes or removes the floating IP and returns the Service's address.
// If nothing changes it makes no call.
func (w *work) publish() (string, error) {
	switch ip := w.state.floating; {
	case isIPv6(w.lb.Address):
		if !w.internal {
			w.say("LoadBalancerFloatingIPSkipped", "there are no floating IPs for IPv6: the address is that of the load balancer, "+w.lb.Address)
		}
		return w.lb.Address, nil
	case w.internal && w.owner:
		return w.lb.Address, w.unpublish(ip)
	case ip != nil:
		return ip.Address, nil
	case !w.owner:
		return "", sdk.Invalidf("the load balancer %s has no floating IP, and a Service that shares it cannot add one: this would publish other Services", w.lb.ID)
	}
	ip, err := w.attach()
	if ip != nil || err != nil {
		return ip.address(), err
	}
	network, err := w.floatingNetwork()
	if err != nil {
		return "", err
	}
	if network == "" {
		w.say("LoadBalancerForcedInternal", "no external network is configured or found for a floating IP: the load balancer is internal; [LoadBalancer] floating-network-id or the annotation "+annFloatingNetworkID+" says it")
		return w.lb.Address, nil
	}
	ip, err = w.newFloatingIP(network)
	return ip.address(), err
}

func (ip *floatingIP) address() string {
	if ip == nil {
		return ""
	}
	return ip.Address
}

func isIPv6(address string) bool {
	ip, err := netip.ParseAddr(address)
	return err == nil && ip.Is6() && !ip.Is4In6()
}

// unpublish takes the floating IP from a load balancer that became internal:
// one made for a Service is deleted, any other detached.
func (w *work) unpublish(ip *floatingIP) error {
	switch {
	case ip == nil:
		return nil
	case !w.keepFIP && made(ip):
		return gone(w.c.Delete(api.Network, "/floatingips/"+api.Segment(ip.ID), nil))
	}
	return w.bind(ip, nil)
}

// made: by a controller, not a person.
func made(ip *floatingIP) bool { return strings.HasPrefix(ip.Description, floatingIPPrefix) }

// bind attaches a floating IP to a port, or detaches it with nil.
func (w *work) bind(ip *floatingIP, port any) error {
	return w.c.Put(api.Network, "/floatingips/"+api.Segment(ip.ID), "floatingip", object{"port_id": port}, nil)
}

// attach takes an existing floating IP: the Service's choice, or the one that
// it had before others deleted its load balancer. One call if there may be one,
// and another to attach it.
func (w *work) attach() (*floatingIP, error) {
	addresses := []string{w.address}
	if w.address == "" {
		addresses = addressesOf(w.service)
	}
	found, err := w.floatingIPsAt(addresses)
	if err != nil {
		return nil, err
	}
	for i := range found {
		ip := &found[i]
		switch {
		case w.address == "" && (ip.PortID != "" || ip.Description != w.floatingDescription()):
			continue
		case ip.PortID != "":
			return nil, sdk.Error(abi.CodeConflict, "spec.loadBalancerIP: the floating IP "+ip.Address+" is in use by the port "+ip.PortID)
		}
		return ip, w.bind(ip, w.lb.PortID)
	}
	return nil, nil
}

// maxAddresses bounds the addresses read from a status.
const maxAddresses = 4

// addressesOf are the addresses of the status of a Service.
func addressesOf(service *abi.Service) []string {
	if service.Status == nil {
		return nil
	}
	var all []string
	for _, ingress := range service.Status.Ingress {
		address, _, _ := cutHostname(ingress)
		if address != "" && len(all) < maxAddresses {
			all = append(all, address)
		}
	}
	return all
}

// cutHostname finds the address in 203.0.113.7.nip.io as well.
func cutHostname(ingress *abi.LoadBalancerIngress) (address, rest string, found bool) {
	if ingress.Ip != "" {
		return ingress.Ip, "", true
	}
	parts := strings.SplitN(ingress.Hostname, ".", 5)
	if len(parts) < 5 {
		return "", "", false
	}
	address = strings.Join(parts[:4], ".")
	if _, err := netip.ParseAddr(address); err != nil {
		return "", "", false
	}
	return address, parts[4], true
}

// floatingIPsAt reads the project's floating IPs with these addresses.
func (k *call) floatingIPsAt(addresses []string) ([]floatingIP, error) {
	if len(addresses) == 0 {
		return nil, nil
	}
	ips := &addressed{addresses: addresses}
	err := readAll(k.c, ips.reads()...)
	return ips.found(), err
}

// addressed are the floating IPs with these addresses.
type addressed struct {
	addresses []string
	lists     [][]floatingIP
}

func (a *addressed) reads() []*reading {
	a.lists = make([][]floatingIP, len(a.addresses))
	reads := make([]*reading, len(a.addresses))
	for i, address := range a.addresses {
		reads[i] = floatingIPs(api.Query("floating_ip_address", address), &a.lists[i])
	}
	return reads
}

func (a *addressed) found() []floatingIP {
	return slices.DeleteFunc(slices.Concat(a.lists...), func(ip floatingIP) bool { return !slices.Contains(a.addresses, ip.Address) })
}

// newFloatingIP makes a floating IP and binds it in the same call. It tries the
// matching subnets in turn, since some may be full.
func (w *work) newFloatingIP(network string) (*floatingIP, error) {
	body := object{"floating_network_id": network, "port_id": w.lb.PortID, "description": w.floatingDescription()}
	if w.address != "" {
		body["floating_ip_address"] = w.address
	}
	candidates, err := w.floatingSubnets(network)
	if err != nil {
		return nil, err
	}
	if len(candidates) == 0 {
		return w.postFloatingIP(body)
	}
	for _, s := range candidates[:min(len(candidates), maxCandidates)] {
		body["subnet_id"] = s.ID
		ip, failed := w.postFloatingIP(body)
		if failed == nil {
			return ip, nil
		}
		err = fmt.Errorf("no floating IP in the matching subnets, the last one being %s: %w", s.ID, failed)
		if !full(failed) {
			return nil, err
		}
	}
	return nil, err
}

// maxCandidates bounds the subnets tried in one op.
const maxCandidates = 16

// full: Neutron refused this subnet, and another may do.
func full(err error) bool {
	status := api.StatusOf(err)
	return status == 400 || status == 404 || status == 409
}

func (w *work) postFloatingIP(body object) (*floatingIP, error) {
	ip := &floatingIP{}
	if err := w.c.Post(api.Network, "/floatingips", "floatingip", body, ip); err != nil {
		return nil, err
	}
	return ip, nil
}

// floatingNetwork is the configured network, else the first external one that
// has or may have an IPv4 subnet, for two calls; empty if there is none.
func (w *work) floatingNetwork() (string, error) {
	if w.networks.floatingNetwork != "" {
		return w.networks.floatingNetwork, nil
	}
	var external []network
	err := readAll(w.c, list("/networks", api.Query("router:external", "true", "fields", "id", "fields", "subnets", "fields", "router:external"), "networks", &external))
	external = slices.DeleteFunc(external, func(n network) bool { return !n.External || len(n.Subnets) == 0 })
	if err != nil || len(external) == 0 {
		return "", err
	}
	external = external[:min(len(external), maxCandidates)]
	query := []string{}
	for _, n := range external {
		query = append(query, "network_id", n.ID)
	}
	var visible []subnet
	if err := readAll(w.c, subnets(&visible, query...)); err != nil {
		return "", err
	}
	for _, n := range external {
		if slices.ContainsFunc(n.Subnets, func(id string) bool { return mayBeIPv4(id, visible) }) {
			return n.ID, nil
		}
	}
	return "", nil
}

type network struct {
	ID       string   `json:"id"`
	Subnets  []string `json:"subnets"`
	External bool     `json:"router:external"`
}

// mayBeIPv4: the subnets of an external network are often hidden from its
// users.
func mayBeIPv4(id string, visible []subnet) bool {
	for _, s := range visible {
		if s.ID == id {
			return s.IPVersion == 4
		}
	}
	return true
}
