package instances

import (
	"slices"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/guests/openstack/api"
	"github.com/wasm-ccm/wasm-ccm/guests/sdk"
)

// port has the fields of Neutron's ports that are used.
type port struct {
	ID        string `json:"id"`
	DeviceID  string `json:"device_id"`
	NetworkID string `json:"network_id"`
	Status    string `json:"status"`
	FixedIPs  []struct {
		Address string `json:"ip_address"`
	} `json:"fixed_ips"`
	Trunk struct {
		Subports []struct {
			PortID string `json:"port_id"`
		} `json:"sub_ports"`
	} `json:"trunk_details"`
}

type network struct {
	ID   string `json:"id"`
	Name string `json:"name"`
}

// maxIDs bounds the IDs in one query: servers and proxies take URLs up to 8 kB.
const maxIDs = 100

// portsRead lists the ports of at most maxIDs servers, sorted: a new order of
// addresses would be a change of the Node.
func portsRead(out *[]*port, serverIDs ...string) *api.Read {
	query := api.Query("fields", "id", "fields", "device_id", "fields", "status", "fields", "fixed_ips", "fields", "trunk_details", "sort_key", "id", "sort_dir", "asc")
	query["device_id"] = serverIDs
	return &api.Read{Service: api.Network, Path: "/ports", Query: query, Key: "ports", Out: out}
}

// rest adds further pages, for a Neutron with a page limit.
func rest(c *api.Client, ports []*port, first *api.Read) ([]*port, error) {
	if first.Next != nil {
		more, err := api.List[*port](c, api.Network, first.Path, first.Next, first.Key)
		if err != nil {
			return nil, err
		}
		ports = append(ports, more...)
	}
	if slices.Contains(ports, nil) {
		return nil, sdk.Error(abi.CodeInternal, "GET "+first.Path+": the cloud's answer cannot be used: a port is null")
	}
	return ports, nil
}

// portsOf lists the ports of servers, maxIDs of them per call.
func (i *Instances) portsOf(servers ...*server) ([]*port, error) {
	all := []*port{}
	for group := range slices.Chunk(servers, maxIDs) {
		ids := make([]string, len(group))
		for n, s := range group {
			ids[n] = s.ID
		}
		ports := []*port{}
		read := portsRead(&ports, ids...)
		if err := i.client.Reads(read)[0]; err != nil {
			return nil, err
		}
		ports, err := rest(i.client, ports, read)
		if err != nil {
			return nil, err
		}
		all = append(all, ports...)
	}
	return all, nil
}

// subports reads the subports that a trunk adds to these ports. A missing one
// is left out: it has just been removed.
func (i *Instances) subports(parents []*port) (map[string]*port, error) {
	ids := []string{}
	for _, p := range parents {
		for _, sub := range p.Trunk.Subports {
			ids = append(ids, sub.PortID)
		}
	}
	subports, err := byIDs[*port](i.client, "/ports", "ports", ids, "id", "network_id", "fixed_ips")
	found := make(map[string]*port, len(subports))
	for _, p := range subports {
		if p != nil {
			found[p.ID] = p
		}
	}
	return found, err
}

// networkNames reads the names of the networks of ports.
func (i *Instances) networkNames(ports map[string]*port) (map[string]string, error) {
	ids := []string{}
	for _, p := range ports {
		ids = append(ids, p.NetworkID)
	}
	networks, err := byIDs[*network](i.client, "/networks", "networks", ids, "id", "name")
	names := make(map[string]string, len(networks))
	for _, n := range networks {
		if n != nil {
			names[n.ID] = n.Name
		}
	}
	return names, err
}

// byIDs lists the objects with these IDs, maxIDs per call.
func byIDs[T any](c *api.Client, path, key string, ids []string, fields ...string) (all []T, err error) {
	slices.Sort(ids)
	for group := range slices.Chunk(slices.Compact(ids), maxIDs) {
		query := api.Query()
		query["id"], query["fields"] = group, fields
		page, err := api.List[T](c, api.Network, path, query, key)
		if err != nil {
			return nil, err
		}
		all = append(all, page...)
	}
	return all, nil
}
