package plugin

import (
	"fmt"
	"slices"
	"strings"

	"github.com/wasm-ccm/wasm-ccm/abi"
)

// supported returns the ops of the manifest, without the groups that the configuration turns
// off, and without incomplete groups, each of which is a warning.
func supported(declared []string, disabled []uint32) (ops map[abi.Op]bool, warnings []string, err error) {
	ops = map[abi.Op]bool{}
	for _, name := range declared {
		op, ok := abi.ParseOp(name)
		if !ok {
			return nil, nil, fmt.Errorf("manifest: op %q is not part of ABI v%d", name, abi.Version)
		}
		ops[op] = true
	}
	for _, g := range abi.Groups() {
		missing := g.Missing(func(op abi.Op) bool { return ops[op] })
		off := slices.ContainsFunc(g.Ops(), func(op abi.Op) bool { return slices.Contains(disabled, uint32(op)) })
		if off || len(missing) > 0 {
			for _, op := range g.Ops() {
				delete(ops, op)
			}
		}
		if !off && len(missing) > 0 {
			warnings = append(warnings, fmt.Sprintf("%s are off: the provider does not have %s", g, names(missing)))
		}
	}
	return ops, warnings, nil
}

func names(ops []abi.Op) string {
	var all []string
	for _, op := range ops {
		all = append(all, op.String())
	}
	return strings.Join(all, ", ")
}
