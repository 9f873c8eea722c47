package routes

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/guests/openstack/api"
	"github.com/wasm-ccm/wasm-ccm/guests/sdk"
)

// port has the fields of Neutron's ports that are used.
type port struct {
	ID        string `json:"id"`
	NetworkID string `json:"network_id"`
	DeviceID  string `json:"device_id"`
	FixedIPs  []struct {
		IPAddress string `json:"ip_address"`
	} `json:"fixed_ips"`
	// Pairs and Secured are nil if the cloud lacks the extensions
	// allowed-address-pairs and port-security.
	Pairs    *[]pair `json:"allowed_address_pairs"`
	Secured  *bool   `json:"port_security_enabled"`
	Revision *int64  `json:"revision_number"`
}

// pair is an address or a CIDR that a port may send from.
type pair struct {
	IPAddress  string `json:"ip_address"`
	MACAddress string `json:"mac_address,omitempty"`
}

var portFields = []string{ //nolint:gochecknoglobals // a constant
	"fields", "id", "fields", "network_id", "fields", "device_id", "fields", "fixed_ips",
	"fields", "allowed_address_pairs", "fields", "port_security_enabled", "fields", "revision_number",
}

// filtered reports whether the port only lets its own addresses and pairs out.
func (p *port) filtered() bool { return p.Pairs != nil && (p.Secured == nil || *p.Secured) }

// allows accepts a wider CIDR, too, such as administrators set for all pods.
func (p *port) allows(cidr netip.Prefix) bool {
	return !p.filtered() || slices.ContainsFunc(*p.Pairs, func(allowed pair) bool {
		wider, ok := allowed.prefix()
		return ok && wider.Bits() <= cidr.Bits() && wider.Contains(cidr.Addr())
	})
}

func (p pair) prefix() (netip.Prefix, bool) {
	if !strings.Contains(p.IPAddress, "/") {
		address, err := netip.ParseAddr(p.IPAddress)
		return netip.PrefixFrom(address, address.BitLen()), err == nil
	}
	prefix, err := netip.ParsePrefix(p.IPAddress)
	return prefix.Masked(), err == nil
}

// portOf finds the port with an address, nil if there is none.
func (r *Routes) portOf(address netip.Addr) (*port, error) {
	ports, err := r.portsOf([]string{address.String()})
	if err != nil {
		return nil, err
	}
	return ports[address.String()], nil
}

// maxFilters bounds the URL of one list of ports to about 5 kB.
const maxFilters = 80

// portsOf finds the ports of addresses, by address.
func (r *Routes) portsOf(addresses []string) (map[string]*port, error) {
	candidates := map[string][]*port{}
	for chunk := range slices.Chunk(addresses, maxFilters) {
		query := api.Query(portFields...)
		for _, a := range chunk {
			query.Add("fixed_ips", "ip_address="+a)
		}
		ports, err := api.List[port](r.c, api.Network, "/ports", query, "ports")
		if err != nil {
			return nil, err
		}
		for i := range ports {
			p := &ports[i]
			if p.ID == "" {
				return nil, unusable("GET /ports", "a port has no ID")
			}
			for _, ip := range p.FixedIPs {
				same := func(other *port) bool { return other.ID == p.ID }
				if !slices.ContainsFunc(candidates[ip.IPAddress], same) {
					candidates[ip.IPAddress] = append(candidates[ip.IPAddress], p)
				}
			}
		}
	}
	found := map[string]*port{}
	for _, a := range addresses {
		p, err := r.choose(a, candidates[a])
		if err != nil {
			return nil, err
		}
		if p != nil {
			found[a] = p
		}
	}
	return found, nil
}

func unusable(call, why string) error {
	return sdk.Error(abi.CodeInternal, call+": the cloud's answer cannot be used: "+why)
}

// choose takes the port on a network of the router: other networks of the
// project may use the same addresses. The networks are read only for a choice,
// since Neutron refuses a next hop outside them.
func (r *Routes) choose(address string, ports []*port) (*port, error) {
	if len(ports) > 1 {
		if err := r.readNetworks(); err != nil {
			return nil, err
		}
		ports = slices.DeleteFunc(ports, func(p *port) bool { return !r.networks[p.NetworkID] })
	}
	switch len(ports) {
	case 0:
		return nil, nil //nolint:nilnil // nil means none
	case 1:
		return ports[0], nil
	}
	return nil, sdk.Invalidf("%d ports on networks of router %s have the address %s; a route needs one", len(ports), r.routerID, address)
}

func (r *Routes) readNetworks() error {
	if r.networks != nil {
		return nil
	}
	ports, err := api.List[port](r.c, api.Network, "/ports", api.Query("device_id", r.routerID, "fields", "network_id"), "ports")
	if err != nil {
		return fmt.Errorf("the networks of router %s: %w", r.routerID, err)
	}
	r.networks = map[string]bool{}
	for _, p := range ports {
		r.networks[p.NetworkID] = true
	}
	return nil
}

// setPair adds the addresses of a pod network to a port, or removes them, and
// reports whether it wrote. The list is replaced as a whole, so only at the
// revision that was read: the route of the other family may change the same
// port meanwhile.
//
// Neutron lets two close changes pass. The second then has a revision other
// than the next: its list is read again, and so are all routes by the next
// List, as the first may be undone.
func (r *Routes) setPair(p *port, cidr netip.Prefix, allow bool) (bool, error) {
	path := "/ports/" + api.Segment(p.ID)
	for try := range maxTries {
		pairs, change := p.with(cidr, allow)
		if !change {
			return try > 0, nil
		}
		if p.Revision == nil {
			return false, sdk.Invalidf("the port has no revision_number: Neutron's extension revision-if-match (Pike) is needed")
		}
		written := &port{}
		err := r.c.PutRevision(api.Network, path, "port", *p.Revision, map[string]any{"allowed_address_pairs": pairs}, written)
		if err != nil && !api.IsOutdated(err) {
			return false, err
		}
		if err == nil {
			if written.Revision != nil && *written.Revision == *p.Revision+1 {
				return true, nil
			}
			r.forgetAll()
		}
		if p, err = r.readPort(p.ID); err != nil {
			return false, err
		}
	}
	return false, sdk.RetryAfter(time.Second, "the port is being changed by others all the time")
}

func (r *Routes) readPort(id string) (*port, error) {
	p := &port{}
	err := r.c.Get(api.Network, "/ports/"+api.Segment(id), api.Query(portFields...), "port", p)
	if err == nil && p.ID != id {
		err = unusable("GET /ports/"+id, "it is about another port")
	}
	return p, err
}

// with returns the pairs with or without the CIDR, and whether that is a
// change. Wider pairs stay: they are not ours.
func (p *port) with(cidr netip.Prefix, allow bool) ([]pair, bool) {
	if allow {
		if p.allows(cidr) {
			return nil, false
		}
		return append(slices.Clone(*p.Pairs), pair{IPAddress: cidr.String()}), true
	}
	if p.Pairs == nil {
		return nil, false
	}
	left := slices.DeleteFunc(slices.Clone(*p.Pairs), func(old pair) bool {
		prefix, ok := old.prefix()
		return ok && prefix == cidr
	})
	return left, len(left) != len(*p.Pairs)
}
