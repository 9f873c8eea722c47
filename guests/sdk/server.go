package sdk

import (
	"strconv"

	"github.com/wasm-ccm/wasm-ccm/abi"
)

// Server decodes requests, calls the provider and encodes its answers. It is
// not safe for concurrent use: an instance runs one op at a time.
type Server struct {
	provider  Provider
	instances Instances
	lister    InstanceLister
	balancers LoadBalancers
	routes    Routes
	volumes   VolumeLabels
	ticker    Ticker
	fields    fieldSet // of the Node of instance ops
	// Reused from op to op, so that the most frequent ops allocate little.
	answer   []byte
	instance abi.InstanceRequest
	node     abi.Node
	metadata abi.InstanceMetadataResponse
}

// NewServer returns a server for p and the interfaces that it implements.
func NewServer(p Provider) *Server {
	s := &Server{provider: p, fields: fieldsOf(p)}
	s.instances, _ = p.(Instances)
	s.lister, _ = p.(InstanceLister)
	s.balancers, _ = p.(LoadBalancers)
	s.routes, _ = p.(Routes)
	s.volumes, _ = p.(VolumeLabels)
	s.ticker, _ = p.(Ticker)
	return s
}

// Call runs one op. The answer is the encoded response with CodeOK, else an
// encoded ErrorDetail. It is valid until the next call.
func (s *Server) Call(op *Op, number abi.Op, request []byte) (abi.Code, []byte) {
	delay(number)
	resp, err := s.dispatch(op, number, request)
	code, answer := finish(s.answer, resp, err)
	s.answer = answer
	return code, answer
}

// finish encodes the response of an op, or else an ErrorDetail, into buf, which
// it grows as needed.
func finish(buf []byte, resp abi.Message, err error) (abi.Code, []byte) {
	if err == nil {
		buf, err = encode(buf, resp)
	}
	if err == nil && len(buf) > abi.MaxResponseBytes {
		err = Error(abi.CodeTooLarge, "the response has "+strconv.Itoa(len(buf))+" bytes, more than the ABI allows")
	}
	if err == nil {
		return abi.CodeOK, buf
	}
	buf, _ = encode(buf, detailOf(err)) // two scalar fields: cannot fail
	return CodeOf(err), buf
}

func (s *Server) dispatch(op *Op, number abi.Op, request []byte) (abi.Message, error) {
	switch number.Group() {
	case abi.GroupLoading:
		return s.loadingOp(op, number, request)
	case abi.GroupInstances:
		switch {
		case number == abi.OpListInstances && s.lister != nil:
			return s.listInstances(op, request)
		case number != abi.OpListInstances && s.instances != nil:
			return s.instanceOp(op, number, request)
		}
	case abi.GroupLoadBalancers:
		if s.balancers != nil {
			return s.balancerOp(op, number, request)
		}
	case abi.GroupRoutes:
		if s.routes != nil {
			return s.routeOp(op, number, request)
		}
	case abi.GroupVolumes:
		if s.volumes != nil {
			return s.volumeLabels(op, request)
		}
	case abi.GroupBackground:
		if s.ticker != nil {
			return s.tick(op, request)
		}
	}
	return nil, Error(abi.CodeNotImplemented, s.provider.Info().Name+" does not have the op "+number.String())
}

func (s *Server) loadingOp(op *Op, number abi.Op, request []byte) (abi.Message, error) {
	switch number {
	case abi.OpDescribe:
		return s.describe(request)
	case abi.OpConfigure:
		return s.configure(op, request)
	}
	return s.probe(op, request)
}

func (s *Server) describe(request []byte) (abi.Message, error) {
	var req abi.DescribeRequest
	if err := decode(request, &req); err != nil {
		return nil, err
	}
	info := s.provider.Info()
	return &abi.DescribeResponse{Name: info.Name, Version: info.Version, ProviderName: info.ProviderName}, nil
}

func (s *Server) configure(op *Op, request []byte) (abi.Message, error) {
	var req abi.ConfigureRequest
	if err := decode(request, &req); err != nil {
		return nil, err
	}
	done, err := s.provider.Configure(op, Config{Bytes: req.Config, ClusterName: req.ClusterName})
	if err != nil {
		return nil, err
	}
	resp := &abi.ConfigureResponse{Accepted: true, HasClusterId: !done.NoClusterID, Warnings: done.Warnings, TickPeriodMs: done.TickPeriod.Milliseconds()}
	for _, number := range done.DisabledOps {
		resp.DisabledOps = append(resp.DisabledOps, uint32(number))
	}
	return resp, nil
}

func (s *Server) probe(op *Op, request []byte) (abi.Message, error) {
	var req abi.ProbeRequest
	if err := decode(request, &req); err != nil {
		return nil, err
	}
	summary, err := s.provider.Probe(op)
	return &abi.ProbeResponse{Ready: true, Summary: summary}, err
}

// decode fills m, which is empty. It returns an error for a malformed request, so
// that it never passes for an empty one.
func decode(request []byte, m abi.Message) error {
	if err := m.UnmarshalVT(request); err != nil {
		return Error(abi.CodeInvalid, "the request does not decode: "+err.Error())
	}
	return nil
}

// noAnswer is the error of a method that returned neither an answer nor an
// error.
func noAnswer(number abi.Op, what string) error {
	return Error(abi.CodeInternal, "the provider answered "+number.String()+" without "+what)
}

// missing is the error for a request without its object.
func missing(what string) error {
	return Error(abi.CodeInvalid, "the request has no "+what)
}
