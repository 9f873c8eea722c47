package main

import (
	"encoding/hex"
	"hash/fnv"
	"net/netip"
	"strings"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/guests/sdk"
)

// routePrefix begins the key of a route: route.TARGET_2fCIDR_2fCLUSTER, with
// _XX for a byte that keys cannot have. The value is "v1 TARGET CIDR CLUSTER";
// a cluster's name may have spaces.
const routePrefix = "route."

// maxKeyBytes is the store's limit. If the names of node and cluster are
// longer, the key has a digest of them; the value has both.
const maxKeyBytes = 253

// keyText writes text with the characters of keys, without collisions.
func keyText(text string) string {
	const digits = "0123456789abcdef"
	key := make([]byte, 0, len(text)+8)
	for i := range len(text) {
		switch c := text[i]; {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '.', c == '-':
			key = append(key, c)
		default:
			key = append(key, '_', digits[c>>4], digits[c&15])
		}
	}
	return string(key)
}

func routeEntry(cluster, target string, cidr netip.Prefix) *abi.StoreEntry {
	text := target + "/" + cidr.String() + "/" + cluster
	key := routePrefix + keyText(text)
	if len(key) > maxKeyBytes {
		sum := fnv.New128a()
		sum.Write([]byte(text)) // never fails
		key = routePrefix + "fnv-" + hex.EncodeToString(sum.Sum(nil))
	}
	return &abi.StoreEntry{
		Key:   key,
		Value: []byte("v1 " + target + " " + cidr.String() + " " + cluster),
	}
}

func (p *provider) ListRoutes(op *sdk.Op, cluster string) ([]*abi.Route, error) {
	entries, _, err := op.Store().Read(routePrefix)
	if err != nil {
		return nil, err
	}
	routes := make([]*abi.Route, 0, len(entries))
	for _, e := range entries {
		fields := strings.SplitN(string(e.Value), " ", 4)
		if len(fields) != 4 || fields[0] != "v1" {
			return nil, unknownEntry(e)
		}
		if fields[3] == cluster {
			routes = append(routes, &abi.Route{Name: fields[1] + "/" + fields[2], TargetNode: fields[1], DestinationCidr: fields[2]})
		}
	}
	return routes, nil
}

// CreateRoute records the route. Its target must be a machine.
func (p *provider) CreateRoute(op *sdk.Op, request *abi.RouteCreateRequest) error {
	entry, err := entryOfRoute(request.ClusterName, request.Route)
	if err != nil {
		return err
	}
	if target := request.Route.TargetNode; p.inventory.byName[target] == nil {
		return sdk.InstanceNotFound("a route to " + request.Route.DestinationCidr + ": its target " + target + " is not in the inventory; list it under machines")
	}
	return op.Store().Update(entry.Key, func(entries []*abi.StoreEntry) (sdk.Change, error) {
		for _, e := range entries {
			if e.Key == entry.Key {
				return sdk.Change{}, nil
			}
		}
		return sdk.Change{Put: []*abi.StoreEntry{entry}}, nil
	})
}

// DeleteRoute also accepts machines that have left the inventory.
func (p *provider) DeleteRoute(op *sdk.Op, request *abi.RouteDeleteRequest) error {
	entry, err := entryOfRoute(request.ClusterName, request.Route)
	if err != nil {
		return err
	}
	return op.Store().Update(entry.Key, func(entries []*abi.StoreEntry) (sdk.Change, error) {
		for _, e := range entries {
			if e.Key == entry.Key {
				return sdk.Change{Delete: []string{entry.Key}}, nil
			}
		}
		return sdk.Change{}, nil
	})
}

func entryOfRoute(cluster string, route *abi.Route) (*abi.StoreEntry, error) {
	cidr, err := netip.ParsePrefix(route.DestinationCidr)
	if err != nil {
		return nil, sdk.Invalidf("the route's destination %q is not a CIDR", route.DestinationCidr)
	}
	if !isDNSName(route.TargetNode) {
		return nil, sdk.Invalidf("the route's target %q is not the name of a node", route.TargetNode)
	}
	return routeEntry(cluster, route.TargetNode, cidr.Masked()), nil
}
