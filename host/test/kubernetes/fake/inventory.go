package fake

import (
	"encoding/json"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// noMachines is the inventory of a test that names none: it has one that no test
// has.
const noMachines = `{region: none, machines: [{name: none, zone: none, addresses: [{type: InternalIP, address: 192.0.2.1}]}], pools: []}`

// inventory is the configuration of the static guest that says what the fields
// say of one machine, or of the first one when there is none of that name, or of
// one that no test has: an inventory may not be empty. JSON is YAML, too.
func (c *Cloud) inventory(name types.NodeName) []byte {
	if len(c.ProviderID) == 0 {
		return []byte(noMachines)
	}
	if _, ok := c.ProviderID[name]; !ok {
		name = slices.Min(slices.Collect(maps.Keys(c.ProviderID)))
	}
	machine := map[string]any{"name": string(name), "zone": c.FailureDomain, "addresses": addresses(c.Addresses)}
	if kind := c.InstanceTypes[name]; kind != "" {
		machine["type"] = kind
	}
	machines := []map[string]any{machine}
	// No pools, but load balancers: upstream's service controller leaks its
	// queues when a provider has none, and the tests look for leaks.
	data, err := json.Marshal(map[string]any{"region": c.Region, "machines": machines, "pools": []string{}})
	if err != nil {
		panic(err) // strings only
	}
	return data
}

func addresses(from []v1.NodeAddress) []map[string]string {
	var to []map[string]string
	for _, a := range from {
		to = append(to, map[string]string{"type": string(a.Type), "address": a.Address})
	}
	return to
}
