package abi

import "strconv"

// Op is the number of a request of the host to the guest. The comments name
// the request and the response.
type Op uint32

// The ops of ABI v1. Numbers are never used again.
const (
	OpDescribe  Op = 1 // DescribeRequest, DescribeResponse
	OpConfigure Op = 2 // ConfigureRequest, ConfigureResponse
	OpProbe     Op = 3 // ProbeRequest, ProbeResponse

	OpInstanceExists   Op = 10 // InstanceRequest, InstanceExistsResponse
	OpInstanceShutdown Op = 11 // InstanceRequest, InstanceShutdownResponse
	OpInstanceMetadata Op = 12 // InstanceRequest, InstanceMetadataResponse
	OpListInstances    Op = 13 // ListInstancesRequest, ListInstancesResponse

	OpLoadBalancerGet    Op = 20 // LoadBalancerRequest, LoadBalancerGetResponse
	OpLoadBalancerName   Op = 21 // LoadBalancerRequest, LoadBalancerNameResponse
	OpLoadBalancerEnsure Op = 22 // LoadBalancerRequest, LoadBalancerEnsureResponse
	OpLoadBalancerUpdate Op = 23 // LoadBalancerRequest, Done
	OpLoadBalancerDelete Op = 24 // LoadBalancerRequest, Done

	OpRouteList   Op = 30 // RouteListRequest, RouteListResponse
	OpRouteCreate Op = 31 // RouteCreateRequest, Done
	OpRouteDelete Op = 32 // RouteDeleteRequest, Done

	OpVolumeLabels Op = 40 // VolumeLabelsRequest, VolumeLabelsResponse

	OpSign Op = 50 // SignRequest, SignResponse
)

// Ops returns every op in the order of their numbers.
func Ops() []Op {
	return []Op{
		OpDescribe, OpConfigure, OpProbe,
		OpInstanceExists, OpInstanceShutdown, OpInstanceMetadata, OpListInstances,
		OpLoadBalancerGet, OpLoadBalancerName, OpLoadBalancerEnsure, OpLoadBalancerUpdate, OpLoadBalancerDelete,
		OpRouteList, OpRouteCreate, OpRouteDelete,
		OpVolumeLabels,
		OpSign,
	}
}

// String returns the name that manifests, logs and metrics use.
func (o Op) String() string {
	switch o {
	case OpDescribe:
		return "describe"
	case OpConfigure:
		return "configure"
	case OpProbe:
		return "probe"
	case OpInstanceExists:
		return "instance_exists"
	case OpInstanceShutdown:
		return "instance_shutdown"
	case OpInstanceMetadata:
		return "instance_metadata"
	case OpListInstances:
		return "list_instances"
	case OpLoadBalancerGet:
		return "lb_get"
	case OpLoadBalancerName:
		return "lb_name"
	case OpLoadBalancerEnsure:
		return "lb_ensure"
	case OpLoadBalancerUpdate:
		return "lb_update"
	case OpLoadBalancerDelete:
		return "lb_delete"
	case OpRouteList:
		return "route_list"
	case OpRouteCreate:
		return "route_create"
	case OpRouteDelete:
		return "route_delete"
	case OpVolumeLabels:
		return "volume_labels"
	case OpSign:
		return "sign"
	}
	return "op_" + strconv.FormatUint(uint64(o), 10)
}

// ParseOp returns the op of a name and whether there is one.
func ParseOp(name string) (Op, bool) {
	for _, op := range Ops() {
		if op.String() == name {
			return op, true
		}
	}
	return 0, false
}
