package abi

// New returns an empty request of the op and an empty response, or nil for a
// number that is no op.
func (o Op) New() (request, response Message) {
	switch o {
	case OpDescribe:
		return &DescribeRequest{}, &DescribeResponse{}
	case OpConfigure:
		return &ConfigureRequest{}, &ConfigureResponse{}
	case OpProbe:
		return &ProbeRequest{}, &ProbeResponse{}
	case OpInstanceExists:
		return &InstanceRequest{}, &InstanceExistsResponse{}
	case OpInstanceShutdown:
		return &InstanceRequest{}, &InstanceShutdownResponse{}
	case OpInstanceMetadata:
		return &InstanceRequest{}, &InstanceMetadataResponse{}
	case OpListInstances:
		return &ListInstancesRequest{}, &ListInstancesResponse{}
	case OpLoadBalancerGet:
		return &LoadBalancerRequest{}, &LoadBalancerGetResponse{}
	case OpLoadBalancerName:
		return &LoadBalancerRequest{}, &LoadBalancerNameResponse{}
	case OpLoadBalancerEnsure:
		return &LoadBalancerRequest{}, &LoadBalancerEnsureResponse{}
	case OpLoadBalancerUpdate, OpLoadBalancerDelete:
		return &LoadBalancerRequest{}, &Done{}
	case OpRouteList:
		return &RouteListRequest{}, &RouteListResponse{}
	case OpRouteCreate:
		return &RouteCreateRequest{}, &Done{}
	case OpRouteDelete:
		return &RouteDeleteRequest{}, &Done{}
	case OpVolumeLabels:
		return &VolumeLabelsRequest{}, &VolumeLabelsResponse{}
	case OpSign:
		return &SignRequest{}, &SignResponse{}
	case OpTick:
		return &TickRequest{}, &Done{}
	}
	return nil, nil
}
