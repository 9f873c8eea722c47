package abi

import (
	"slices"
	"strconv"
)

// Op is the number of a request of the host to the guest.
type Op uint32

// The ops of ABI v1. Numbers are never used again.
const (
	OpDescribe  Op = 1
	OpConfigure Op = 2
	OpProbe     Op = 3

	OpInstanceExists   Op = 10
	OpInstanceShutdown Op = 11
	OpInstanceMetadata Op = 12
	OpListInstances    Op = 13

	OpLoadBalancerGet    Op = 20
	OpLoadBalancerName   Op = 21
	OpLoadBalancerEnsure Op = 22
	OpLoadBalancerUpdate Op = 23
	OpLoadBalancerDelete Op = 24

	OpRouteList   Op = 30
	OpRouteCreate Op = 31
	OpRouteDelete Op = 32

	OpVolumeLabels Op = 40

	OpSign Op = 50

	OpTick Op = 60
)

// Group is the ops that stand and fall together: Kubernetes asks whether a
// provider has load balancers, not whether it can delete them.
type Group uint8

// The groups of ABI v1. The zero Group is that of numbers that are no op.
const (
	// GroupLoading is what every guest has, so that manifests do not list it.
	GroupLoading Group = iota + 1
	GroupInstances
	GroupLoadBalancers
	GroupRoutes
	GroupVolumes
	// GroupSigning is what signers have, and nothing else has.
	GroupSigning
	// GroupBackground is what runs without a request of Kubernetes.
	GroupBackground
)

// facts is what is known of an op. Nothing else says it a second time.
type facts struct {
	op    Op
	name  string
	group Group
	// required: a guest that has its group must have it.
	required bool
	// writes: it changes something in the cloud.
	writes bool
	// special is the code that means something on some ops only.
	special Code
}

// table is never changed. The messages of an op are in New and not in here:
// what a table names is linked into every guest.
var table = [...]facts{
	{op: OpDescribe, name: "describe", group: GroupLoading, required: true},
	{op: OpConfigure, name: "configure", group: GroupLoading, required: true},
	{op: OpProbe, name: "probe", group: GroupLoading, required: true},

	{op: OpInstanceExists, name: "instance_exists", group: GroupInstances, required: true},
	{op: OpInstanceShutdown, name: "instance_shutdown", group: GroupInstances, required: true, special: CodeInstanceNotFound},
	{op: OpInstanceMetadata, name: "instance_metadata", group: GroupInstances, required: true, special: CodeInstanceNotFound},
	{op: OpListInstances, name: "list_instances", group: GroupInstances},

	{op: OpLoadBalancerGet, name: "lb_get", group: GroupLoadBalancers, required: true},
	{op: OpLoadBalancerName, name: "lb_name", group: GroupLoadBalancers, required: true},
	{op: OpLoadBalancerEnsure, name: "lb_ensure", group: GroupLoadBalancers, required: true, writes: true, special: CodeImplementedElsewhere},
	{op: OpLoadBalancerUpdate, name: "lb_update", group: GroupLoadBalancers, required: true, writes: true, special: CodeImplementedElsewhere},
	{op: OpLoadBalancerDelete, name: "lb_delete", group: GroupLoadBalancers, required: true, writes: true},

	{op: OpRouteList, name: "route_list", group: GroupRoutes, required: true},
	{op: OpRouteCreate, name: "route_create", group: GroupRoutes, required: true, writes: true, special: CodeInstanceNotFound},
	{op: OpRouteDelete, name: "route_delete", group: GroupRoutes, required: true, writes: true, special: CodeInstanceNotFound},

	{op: OpVolumeLabels, name: "volume_labels", group: GroupVolumes, required: true},

	{op: OpSign, name: "sign", group: GroupSigning, required: true},

	{op: OpTick, name: "tick", group: GroupBackground, required: true, writes: true},
}

func (o Op) facts() facts {
	for i := range table {
		if table[i].op == o {
			return table[i]
		}
	}
	return facts{}
}

// Ops returns every op in the order of their numbers.
func Ops() []Op {
	ops := make([]Op, len(table))
	for i := range table {
		ops[i] = table[i].op
	}
	return ops
}

// String returns the name that manifests, logs and metrics use.
func (o Op) String() string {
	if name := o.facts().name; name != "" {
		return name
	}
	return "op_" + strconv.FormatUint(uint64(o), 10)
}

// Group returns the group that the op belongs to, 0 for none.
func (o Op) Group() Group { return o.facts().group }

// Writes reports whether the op changes something in the cloud.
func (o Op) Writes() bool { return o.facts().writes }

// Reads reports whether the op is a question about the cloud: it is answered
// and nothing changes.
func (o Op) Reads() bool {
	f := o.facts()
	return f.group >= GroupInstances && f.group <= GroupVolumes && !f.writes
}

// MayAnswer reports whether a code is an answer to the op. CodeInstanceNotFound
// and CodeImplementedElsewhere are answers to a few ops, and failures of the
// others.
func (o Op) MayAnswer(code Code) bool {
	return code != CodeInstanceNotFound && code != CodeImplementedElsewhere || o.facts().special == code
}

// ParseOp returns the op of a name and whether there is one.
func ParseOp(name string) (Op, bool) {
	for i := range table {
		if table[i].name == name {
			return table[i].op, true
		}
	}
	return 0, false
}

// Groups returns every group, in the order of the numbers of their ops.
func Groups() []Group {
	return []Group{GroupLoading, GroupInstances, GroupLoadBalancers, GroupRoutes, GroupVolumes, GroupSigning, GroupBackground}
}

// Ops returns the ops of the group, in the order of their numbers.
func (g Group) Ops() (ops []Op) {
	for i := range table {
		if table[i].group == g {
			ops = append(ops, table[i].op)
		}
	}
	return ops
}

// Required returns the ops that a guest with the group must have.
func (g Group) Required() (ops []Op) {
	for i := range table {
		if table[i].group == g && table[i].required {
			ops = append(ops, table[i].op)
		}
	}
	return ops
}

// Missing returns the ops that a guest lacks of a group that it has in part,
// none when it has none of it.
func (g Group) Missing(has func(Op) bool) []Op {
	if !slices.ContainsFunc(g.Ops(), has) {
		return nil
	}
	return slices.DeleteFunc(g.Required(), has)
}

// String returns what the group is called in texts.
func (g Group) String() string {
	switch g {
	case GroupLoading:
		return "loading"
	case GroupInstances:
		return "instances"
	case GroupLoadBalancers:
		return "load balancers"
	case GroupRoutes:
		return "routes"
	case GroupVolumes:
		return "volumes"
	case GroupSigning:
		return "signing"
	case GroupBackground:
		return "background"
	}
	return "no group"
}
