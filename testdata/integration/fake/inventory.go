package fake

import (
	"encoding/json"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
)

// inventory is the configuration of the static guest that says what the fields
// say. JSON is YAML, too.
func (c *Cloud) inventory() []byte {
	var instances []map[string]any
	for _, name := range slices.Sorted(maps.Keys(c.ProviderID)) {
		instance := map[string]any{"name": string(name), "zone": c.FailureDomain}
		if kind := c.InstanceTypes[name]; kind != "" {
			instance["type"] = kind
		}
		instance["addresses"] = addresses(c.Addresses)
		instances = append(instances, instance)
	}
	data, err := json.Marshal(map[string]any{"region": c.Region, "machines": instances})
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
