package instances

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/guests/openstack/cloudconf"
	"github.com/wasm-ccm/wasm-ccm/guests/sdk"
)

// Kinds of addresses.
const (
	internalIP = abi.AddressType_ADDRESS_TYPE_INTERNAL_IP
	externalIP = abi.AddressType_ADDRESS_TYPE_EXTERNAL_IP
	hostName   = abi.AddressType_ADDRESS_TYPE_HOSTNAME
)

// The host's bounds: it refuses a Node with more.
const (
	maxAddresses = 64
	maxHostName  = 253 // bytes
	maxHostLabel = 63  // bytes of one label of it
)

// hostNameKey is the key in a server's metadata.
const hostNameKey = "hostname"

// addresses are those of the Node: the ports', the access addresses, the host
// name, Nova's by network; finally sorted.
func (i *Instances) addresses(s *server, d *details) ([]*abi.NodeAddress, error) {
	a := &addressList{config: &i.config.Networking}
	a.addPorts(d.ports[s.ID])
	a.addAccess(s)
	a.addNetworks(s, d)
	a.sort()
	switch {
	case a.err != nil:
		return nil, a.err
	case len(a.all) == 0:
		return nil, sdk.Error(abi.CodeInternal, "it has no address that a Node can have; [Networking] in cloud.conf may leave out too much, or its ports are not there yet")
	case len(a.all) > maxAddresses:
		return nil, sdk.Invalidf("it has %d addresses, and a Node at most %d: choose by internal-network-name under [Networking] in cloud.conf", len(a.all), maxAddresses)
	}
	return a.encode(), nil
}

type address struct {
	kind abi.AddressType
	text string
	ip   netip.Addr // not for host names
}

type addressList struct {
	config *cloudconf.Networking
	all    []address
	err    error
}

// addIP adds an address in its one spelling, unless present.
func (a *addressList) addIP(kind abi.AddressType, text string) {
	ip, ok := a.parse(text)
	if ok && !a.unwanted(ip) {
		a.add(address{kind, ip.String(), ip})
	}
}

func (a *addressList) parse(text string) (netip.Addr, bool) {
	ip, err := netip.ParseAddr(text)
	if err == nil && (ip.Zone() != "" || ip.IsUnspecified()) {
		err = fmt.Errorf("%q is nobody's address", text)
	}
	if err != nil {
		a.err = sdk.Error(abi.CodeInternal, fmt.Sprintf("the cloud's answer cannot be used: %.60q is not an IP address", text))
		return netip.Addr{}, false
	}
	return ip.Unmap(), true
}

func (a *addressList) unwanted(ip netip.Addr) bool { return ip.Is6() && a.config.IPv6SupportDisabled }

func (a *addressList) add(new address) {
	if !slices.Contains(a.all, new) {
		a.all = append(a.all, new)
	}
}

// remove takes an address away, whatever its kind.
func (a *addressList) remove(text string) {
	if ip, ok := a.parse(text); ok {
		a.all = slices.DeleteFunc(a.all, func(old address) bool { return old.ip == ip })
	}
}

func (a *addressList) addPorts(ports []*port) {
	for _, p := range ports {
		if p.Status != "ACTIVE" {
			continue
		}
		for _, fixed := range p.FixedIPs {
			a.addIP(internalIP, fixed.Address)
		}
	}
}

func (a *addressList) addAccess(s *server) {
	for _, text := range []string{s.AccessIPv4, s.AccessIPv6} {
		if text != "" {
			a.addIP(externalIP, text)
		}
	}
	if name := s.Metadata[hostNameKey]; isHostName(name) {
		a.add(address{kind: hostName, text: name})
	}
}

// isHostName leaves out names that the host would refuse. Anybody with access
// to the server can set it.
func isHostName(name string) bool {
	if name == "" || len(name) > maxHostName {
		return false
	}
	for label := range strings.SplitSeq(name, ".") {
		if label == "" || len(label) > maxHostLabel || strings.ContainsFunc(label, notInHostName) {
			return false
		}
	}
	return true
}

func notInHostName(r rune) bool {
	letter := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
	return !letter && (r < '0' || r > '9') && r != '-' && r != '_'
}

// addNetworks adds the addresses by network, sorted by the network's name.
func (a *addressList) addNetworks(s *server, d *details) {
	byNetwork := make(map[string][]serverAddress, len(s.Addresses))
	for name, addresses := range s.Addresses {
		byNetwork[name] = slices.Clone(addresses)
	}
	for _, p := range d.ports[s.ID] {
		a.addSubports(byNetwork, p, d)
	}
	names := make([]string, 0, len(byNetwork))
	for name := range byNetwork {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		for _, one := range byNetwork[name] {
			a.addOfNetwork(name, one)
		}
	}
}

func (a *addressList) addSubports(byNetwork map[string][]serverAddress, parent *port, d *details) {
	for _, sub := range parent.Trunk.Subports {
		p := d.subports[sub.PortID]
		if p == nil {
			continue
		}
		name, known := d.networks[p.NetworkID]
		if !known {
			continue
		}
		for _, fixed := range p.FixedIPs {
			byNetwork[name] = append(byNetwork[name], serverAddress{Address: fixed.Address, Kind: "fixed"})
		}
	}
}

// addOfNetwork: an address of a public network that is also a port's is
// external only. Networks that are left out give nothing.
func (a *addressList) addOfNetwork(network string, one serverAddress) {
	switch {
	case one.Kind == "floating":
		a.addIP(externalIP, one.Address)
	case slices.Contains(a.config.PublicNetworkNames, network):
		a.remove(one.Address)
		a.addIP(externalIP, one.Address)
	case len(a.config.InternalNetworkNames) == 0 || slices.Contains(a.config.InternalNetworkNames, network):
		a.addIP(internalIP, one.Address)
	default:
		a.remove(one.Address)
	}
}

// sort puts the addresses of the first CIDR first, by value. Those of no CIDR
// keep their order at the end.
func (a *addressList) sort() {
	slices.SortStableFunc(a.all, func(x, y address) int {
		left, right := a.place(x), a.place(y)
		if left == right && left < len(a.config.AddressSortOrder) {
			// 4 bytes would sort before any 16: As16 compares as
			// cloud-provider-openstack does.
			first, second := x.ip.As16(), y.ip.As16()
			return slices.Compare(first[:], second[:])
		}
		return cmp.Compare(left, right)
	})
}

// place is the index of the address's CIDR; the highest for none.
func (a *addressList) place(one address) int {
	for n, cidr := range a.config.AddressSortOrder {
		if cidr.Contains(one.ip) {
			return n
		}
	}
	return len(a.config.AddressSortOrder)
}

func (a *addressList) encode() []*abi.NodeAddress {
	out := make([]*abi.NodeAddress, len(a.all))
	for n, one := range a.all {
		out[n] = &abi.NodeAddress{Type: one.kind, Address: one.text}
	}
	return out
}
