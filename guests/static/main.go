// Command static is the provider for machines without a cloud. It reads the
// machines from an inventory in its configuration, and keeps load balancer
// addresses and routes in the host's store. README.md is the reference of the
// inventory, RATIONALE.md has the reasons.
package main

import (
	"strconv"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/guests/sdk"
)

// version is set by build.sh from the manifest.
var version = "0.1.0"

func init() { sdk.Serve(&provider{}) } //nolint:gochecknoinits // main of a reactor is never run

func main() {}

// provider serves one read-only inventory.
type provider struct {
	inventory *inventory
}

func (p *provider) Info() sdk.Info {
	return sdk.Info{Name: "static", Version: version, ProviderName: "static"}
}

func (p *provider) Configure(_ *sdk.Op, config sdk.Config) (sdk.Configured, error) {
	inv, err := parseInventory(config.Bytes)
	if err != nil {
		return sdk.Configured{}, sdk.Invalidf("inventory: %v", err)
	}
	p.inventory = inv
	return sdk.Configured{NoClusterID: config.ClusterName == "", DisabledOps: inv.disabledOps(), Warnings: inv.warnings}, nil
}

// disabledOps turns off the groups that the inventory does not mention.
func (inv *inventory) disabledOps() []abi.Op {
	var ops []abi.Op
	if !inv.hasPools {
		ops = append(ops, abi.OpLoadBalancerEnsure)
	}
	if !inv.routes {
		ops = append(ops, abi.OpRouteCreate)
	}
	if len(inv.volumes) == 0 {
		ops = append(ops, abi.OpVolumeLabels)
	}
	return ops
}

// Probe reads the store if it is in use.
func (p *provider) Probe(op *sdk.Op) (string, error) {
	inv := p.inventory
	if inv.hasPools || inv.routes {
		if _, _, err := op.Store().Read("probe"); err != nil {
			return "", err
		}
	}
	return plural(len(inv.machines), "machine") + " in " + plural(len(inv.regionOfZone), "zone") + ", " + plural(len(inv.pools), "pool"), nil
}

func plural(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return strconv.Itoa(n) + " " + what
}
