package sdk

import (
	"errors"

	"github.com/wasm-ccm/wasm-ccm/abi"
)

func (s *Server) instanceOp(op *Op, number abi.Op, request []byte) (abi.Message, error) {
	if err := decodeInstance(request, &s.instance, &s.node, s.fields); err != nil {
		return nil, err
	}
	node := s.instance.Node
	if node == nil {
		return nil, missing("node")
	}
	switch number {
	case abi.OpInstanceExists:
		existence, err := s.instances.InstanceExists(op, node)
		if err == nil && existence != Exists && existence != DoesNotExist {
			err = noAnswer(number, "saying whether the instance exists")
		}
		return &abi.InstanceExistsResponse{Existence: existence}, err
	case abi.OpInstanceShutdown:
		state, err := s.instances.InstanceShutdown(op, node)
		if err == nil && state != On && state != Shutdown {
			err = noAnswer(number, "a power state")
		}
		return &abi.InstanceShutdownResponse{State: state}, err
	}
	return s.instanceMetadata(op, node)
}

func (s *Server) instanceMetadata(op *Op, node *abi.Node) (abi.Message, error) {
	metadata, err := s.instances.InstanceMetadata(op, node)
	s.metadata.Metadata, s.metadata.NotMine = metadata, errors.Is(err, ErrNotMine)
	switch {
	case s.metadata.NotMine:
		s.metadata.Metadata, err = nil, nil
	case err == nil && metadata == nil:
		err = noAnswer(abi.OpInstanceMetadata, "metadata")
	}
	return &s.metadata, err
}

func (s *Server) listInstances(op *Op, request []byte) (abi.Message, error) {
	var req abi.ListInstancesRequest
	if err := decode(request, &req); err != nil {
		return nil, err
	}
	page, next, err := s.lister.ListInstances(op, req.PageToken, int(min(req.PageSize, 1<<20)))
	return &abi.ListInstancesResponse{Instances: page, NextPageToken: next, Done: true}, err
}

func (s *Server) balancerOp(op *Op, number abi.Op, request []byte) (abi.Message, error) {
	req := &abi.LoadBalancerRequest{}
	if err := decode(request, req); err != nil {
		return nil, err
	}
	if req.Service == nil {
		return nil, missing("service")
	}
	switch number {
	case abi.OpLoadBalancerGet:
		return s.balancerGet(op, req)
	case abi.OpLoadBalancerName:
		name, err := s.balancers.LoadBalancerName(op, req)
		if err == nil && name == "" {
			err = noAnswer(number, "a name")
		}
		return &abi.LoadBalancerNameResponse{Name: name}, err
	case abi.OpLoadBalancerEnsure:
		status, err := s.balancers.EnsureLoadBalancer(op, req)
		if err == nil && status == nil {
			err = noAnswer(number, "a status")
		}
		return &abi.LoadBalancerEnsureResponse{Status: status}, err
	case abi.OpLoadBalancerUpdate:
		return &abi.Done{Done: true}, s.balancers.UpdateLoadBalancer(op, req)
	}
	return &abi.Done{Done: true}, notElsewhere(number, s.balancers.DeleteLoadBalancer(op, req))
}

// notElsewhere refuses an answer that lb_get and lb_delete must not give.
func notElsewhere(number abi.Op, err error) error {
	if CodeOf(err) != abi.CodeImplementedElsewhere {
		return err
	}
	return Error(abi.CodeInternal, number.String()+" must describe the load balancer instead of implemented_elsewhere: "+err.Error())
}

func (s *Server) balancerGet(op *Op, req *abi.LoadBalancerRequest) (abi.Message, error) {
	existence, status, err := s.balancers.GetLoadBalancer(op, req)
	err = notElsewhere(abi.OpLoadBalancerGet, err)
	switch {
	case err != nil:
	case existence == Exists && status == nil:
		err = noAnswer(abi.OpLoadBalancerGet, "a status")
	case existence == DoesNotExist:
		status = nil
	case existence != Exists:
		err = noAnswer(abi.OpLoadBalancerGet, "saying whether the load balancer exists")
	}
	return &abi.LoadBalancerGetResponse{Existence: existence, Status: status}, err
}

func (s *Server) routeOp(op *Op, number abi.Op, request []byte) (abi.Message, error) {
	switch number {
	case abi.OpRouteCreate:
		req := &abi.RouteCreateRequest{}
		if err := decode(request, req); err != nil {
			return nil, err
		}
		if req.Route == nil {
			return nil, missing("route")
		}
		return &abi.Done{Done: true}, s.routes.CreateRoute(op, req)
	case abi.OpRouteDelete:
		req := &abi.RouteDeleteRequest{}
		if err := decode(request, req); err != nil {
			return nil, err
		}
		if req.Route == nil {
			return nil, missing("route")
		}
		return &abi.Done{Done: true}, s.routes.DeleteRoute(op, req)
	}
	var req abi.RouteListRequest
	if err := decode(request, &req); err != nil {
		return nil, err
	}
	routes, err := s.routes.ListRoutes(op, req.ClusterName)
	return &abi.RouteListResponse{Routes: routes, Done: true}, err
}

func (s *Server) volumeLabels(op *Op, request []byte) (abi.Message, error) {
	var req abi.VolumeLabelsRequest
	if err := decode(request, &req); err != nil {
		return nil, err
	}
	if req.Volume == nil {
		return nil, missing("volume")
	}
	labels, err := s.volumes.VolumeLabels(op, req.Volume)
	return &abi.VolumeLabelsResponse{Labels: labels, Done: true}, err
}

func (s *Server) tick(op *Op, request []byte) (abi.Message, error) {
	var req abi.TickRequest
	if err := decode(request, &req); err != nil {
		return nil, err
	}
	return &abi.Done{Done: true}, s.ticker.Tick(op, req.ClusterName)
}
