package routes

import (
	"slices"

	"github.com/wasm-ccm/wasm-ccm/guests/openstack/api"
)

// ownSubports gives ports without a device, such as the subports of a trunk,
// the device of the trunk's parent port. Two calls, none without such ports.
func (r *Routes) ownSubports(ports map[string]*port) error {
	orphans := map[string]*port{}
	for _, p := range ports {
		if p.DeviceID == "" {
			orphans[p.ID] = p
		}
	}
	if len(orphans) == 0 {
		return nil
	}
	children, err := r.trunks(orphans)
	if err != nil || len(children) == 0 {
		return err
	}
	parents := make([]string, 0, len(children))
	for parent := range children {
		parents = append(parents, parent)
	}
	slices.Sort(parents)
	for chunk := range slices.Chunk(parents, maxFilters) {
		query := api.Query("fields", "id", "fields", "device_id")
		query["id"] = chunk
		found, err := api.List[port](r.c, api.Network, "/ports", query, "ports")
		if err != nil {
			return err
		}
		for _, parent := range found {
			for _, child := range children[parent.ID] {
				child.DeviceID = parent.DeviceID
			}
		}
	}
	return nil
}

// trunks finds the parents of these ports. A cloud without trunks answers 404.
func (r *Routes) trunks(orphans map[string]*port) (children map[string][]*port, err error) {
	type trunk struct {
		PortID   string `json:"port_id"`
		SubPorts []struct {
			PortID string `json:"port_id"`
		} `json:"sub_ports"`
	}
	trunks, err := api.List[trunk](r.c, api.Network, "/trunks", api.Query("fields", "port_id", "fields", "sub_ports"), "trunks")
	if err != nil && !api.IsNotFound(err) {
		return nil, err
	}
	children = map[string][]*port{}
	for _, t := range trunks {
		for _, sub := range t.SubPorts {
			if p := orphans[sub.PortID]; p != nil {
				children[t.PortID] = append(children[t.PortID], p)
			}
		}
	}
	return children, nil
}
