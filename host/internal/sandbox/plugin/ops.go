package plugin

import (
	"fmt"
	"strings"

	"github.com/wasm-ccm/wasm-ccm/abi"
)

// group is the ops that stand and fall together: Kubernetes asks whether a
// provider has load balancers, not whether it can delete them.
type group struct {
	name     string
	required []abi.Op
	// optional ops go with the group, but it is whole without them.
	optional []abi.Op
}

func groups() []group {
	return []group{
		{"instances", []abi.Op{abi.OpInstanceExists, abi.OpInstanceShutdown, abi.OpInstanceMetadata}, []abi.Op{abi.OpListInstances}},
		{"load balancers", []abi.Op{abi.OpLoadBalancerGet, abi.OpLoadBalancerName, abi.OpLoadBalancerEnsure, abi.OpLoadBalancerUpdate, abi.OpLoadBalancerDelete}, nil},
		{"routes", []abi.Op{abi.OpRouteList, abi.OpRouteCreate, abi.OpRouteDelete}, nil},
		{"volumes", []abi.Op{abi.OpVolumeLabels}, nil},
	}
}

// supported returns the ops of the manifest, less the groups of those that the
// configuration turns off, and less the groups that are not whole, each of
// which is a warning.
func supported(declared []string, disabled []uint32) (ops map[abi.Op]bool, warnings []string, err error) {
	ops = map[abi.Op]bool{}
	for _, name := range declared {
		op, ok := abi.ParseOp(name)
		if !ok {
			return nil, nil, fmt.Errorf("manifest: op %q is not part of ABI v%d", name, abi.Version)
		}
		ops[op] = true
	}
	off := map[abi.Op]bool{}
	for _, number := range disabled {
		off[abi.Op(number)] = true
	}
	for _, g := range groups() {
		missing := g.missing(ops)
		switch {
		case g.anyOf(off):
			g.removeFrom(ops)
		case len(missing) > 0 && g.anyOf(ops):
			g.removeFrom(ops)
			warnings = append(warnings, fmt.Sprintf("%s are off: the provider does not have %s", g.name, strings.Join(missing, ", ")))
		}
	}
	return ops, warnings, nil
}

func (g group) all() []abi.Op { return append(append([]abi.Op(nil), g.required...), g.optional...) }

func (g group) anyOf(ops map[abi.Op]bool) bool {
	for _, op := range g.all() {
		if ops[op] {
			return true
		}
	}
	return false
}

func (g group) removeFrom(ops map[abi.Op]bool) {
	for _, op := range g.all() {
		delete(ops, op)
	}
}

// missing returns the names of the required ops that are not in ops.
func (g group) missing(ops map[abi.Op]bool) (names []string) {
	for _, op := range g.required {
		if !ops[op] {
			names = append(names, op.String())
		}
	}
	return names
}
