package conformance

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/host/internal/cloud/convert"
	"github.com/wasm-ccm/wasm-ccm/host/internal/cloud/opcontext"
)

// The ops of the ABI, as the manager calls them. The plan may be nil.

func (k *kit) probe(ctx context.Context, p *plan) outcome {
	// Probe is no op of the slot: the loader calls it.
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if p != nil && p.fault != nil && p.fault.hangs {
		var stop context.CancelFunc
		ctx, stop = context.WithTimeout(ctx, k.FaultTimeout)
		defer stop()
	}
	k.injector.begin(p, cancel)
	o := k.timed(abi.OpProbe, func() error { return k.slot.Serving().Probe(ctx) })
	o.trace, _ = k.injector.end()
	if o.err != nil {
		k.ear.hear("the error of probe", o.err.Error())
	}
	return o
}

func aboutNode(n *corev1.Node) opcontext.Op {
	return opcontext.Op{Object: &corev1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: n.Name, UID: n.UID}}
}

func (k *kit) exists(ctx context.Context, p *plan, n *corev1.Node) (abi.Existence, outcome) {
	resp := &abi.InstanceExistsResponse{}
	o := k.call(ctx, p, aboutNode(n), abi.OpInstanceExists, &abi.InstanceRequest{Node: convert.Node(n)}, resp)
	if o.err == nil && resp.Existence != abi.Existence_EXISTENCE_EXISTS && resp.Existence != abi.Existence_EXISTENCE_DOES_NOT_EXIST {
		o.err = fmt.Errorf("existence %d is no answer", resp.Existence)
	}
	return resp.Existence, o
}

func (k *kit) shutdown(ctx context.Context, n *corev1.Node) (abi.PowerState, outcome) {
	resp := &abi.InstanceShutdownResponse{}
	o := k.call(ctx, nil, aboutNode(n), abi.OpInstanceShutdown, &abi.InstanceRequest{Node: convert.Node(n)}, resp)
	return resp.State, o
}

// errNotMine is the answer for another controller's node.
var errNotMine = errors.New("not_mine: the guest leaves the node alone")

func (k *kit) metadata(ctx context.Context, p *plan, n *corev1.Node) (*abi.InstanceMetadata, outcome) {
	resp := &abi.InstanceMetadataResponse{}
	o := k.call(ctx, p, aboutNode(n), abi.OpInstanceMetadata, &abi.InstanceRequest{Node: convert.Node(n)}, resp)
	switch {
	case o.err != nil:
	case resp.NotMine && resp.Metadata != nil:
		o.err = errors.New("the answer is not_mine, and has metadata as well")
	case resp.NotMine:
		o.err = errNotMine
	case resp.Metadata == nil:
		o.err = errors.New("the answer has no metadata")
	}
	return resp.Metadata, o
}

// inJSON is a message in one line, with sorted keys of maps.
func inJSON(m any) string {
	data, err := json.Marshal(m)
	if err != nil {
		return err.Error()
	}
	return string(data)
}

func (k *kit) list(ctx context.Context, p *plan, token string, size uint32) (*abi.ListInstancesResponse, outcome) {
	resp := &abi.ListInstancesResponse{}
	o := k.call(ctx, p, opcontext.Op{}, abi.OpListInstances, &abi.ListInstancesRequest{PageToken: token, PageSize: size}, resp)
	return resp, said(o, resp.Done)
}

// said turns an answer of unfinished work into an error.
func said(o outcome, done bool) outcome {
	if o.err == nil && !done {
		o.err = fmt.Errorf("the answer does not say done")
	}
	return o
}

// balancing runs an op on a Service.
func (k *kit) balancing(ctx context.Context, p *plan, op abi.Op, s *corev1.Service, nodes []*corev1.Node, resp abi.Message) outcome {
	about := opcontext.Op{
		Object: &corev1.ObjectReference{APIVersion: "v1", Kind: "Service", Namespace: s.Namespace, Name: s.Name, UID: s.UID},
		Nodes:  nodes, Serial: "Service " + s.Namespace + "/" + s.Name,
	}
	request := &abi.LoadBalancerRequest{ClusterName: k.Cases.ClusterName, Service: convert.Service(s), Nodes: &abi.NodeSnapshot{}}
	if op == abi.OpLoadBalancerEnsure || op == abi.OpLoadBalancerUpdate {
		request.Nodes = &abi.NodeSnapshot{Id: opcontext.SnapshotID, Count: uint32(len(nodes))}
	}
	o := k.call(ctx, p, about, op, request, resp)
	if o.code() == abi.CodeImplementedElsewhere && !op.MayAnswer(abi.CodeImplementedElsewhere) {
		o.err = fmt.Errorf("implemented_elsewhere, which is an answer of lb_ensure and lb_update only: %v", o.err) //nolint:errorlint // only its text: the code must not count
	}
	return o
}

func (k *kit) lbGet(ctx context.Context, p *plan, s *corev1.Service) (*abi.LoadBalancerGetResponse, outcome) {
	resp := &abi.LoadBalancerGetResponse{}
	o := k.balancing(ctx, p, abi.OpLoadBalancerGet, s, nil, resp)
	if o.err == nil && resp.Existence != abi.Existence_EXISTENCE_DOES_NOT_EXIST {
		_, o.err = convert.CloudLoadBalancerStatus(resp.Status, k.policy)
	}
	return resp, o
}

func (k *kit) lbName(ctx context.Context, s *corev1.Service) (string, outcome) {
	resp := &abi.LoadBalancerNameResponse{}
	o := k.balancing(ctx, nil, abi.OpLoadBalancerName, s, nil, resp)
	return resp.Name, o
}

// lbEnsure runs the op once; ensured repeats it until it is done.
func (k *kit) lbEnsure(ctx context.Context, p *plan, s *corev1.Service, nodes []*corev1.Node) (*abi.LoadBalancerStatus, outcome) {
	resp := &abi.LoadBalancerEnsureResponse{}
	o := k.balancing(ctx, p, abi.OpLoadBalancerEnsure, s, nodes, resp)
	if o.err == nil {
		_, o.err = convert.CloudLoadBalancerStatus(resp.Status, k.policy)
	}
	if o.err == nil && len(resp.Status.Ingress) == 0 {
		o.err = fmt.Errorf("the status has no address; answer retry_after until there is one")
	}
	return resp.Status, o
}

func (k *kit) ensured(ctx context.Context, p *plan, s *corev1.Service, nodes []*corev1.Node) (status *abi.LoadBalancerStatus, all outcome) {
	all = k.drive(ctx, p != nil, func(ctx context.Context) (o outcome) {
		status, o = k.lbEnsure(ctx, p, s, nodes)
		return o
	})
	return status, all
}

func (k *kit) lbUpdate(ctx context.Context, p *plan, s *corev1.Service, nodes []*corev1.Node) outcome {
	resp := &abi.Done{}
	o := k.balancing(ctx, p, abi.OpLoadBalancerUpdate, s, nodes, resp)
	return said(o, resp.Done)
}

func (k *kit) updated(ctx context.Context, p *plan, s *corev1.Service, nodes []*corev1.Node) outcome {
	return k.drive(ctx, p != nil, func(ctx context.Context) outcome { return k.lbUpdate(ctx, p, s, nodes) })
}

func (k *kit) lbDelete(ctx context.Context, p *plan, s *corev1.Service) outcome {
	resp := &abi.Done{}
	o := k.balancing(ctx, p, abi.OpLoadBalancerDelete, s, nil, resp)
	return said(o, resp.Done)
}

// undone deletes as upstream does: it asks whether there is a load balancer,
// and deletes only an existing one.
func (k *kit) undone(ctx context.Context, p *plan, s *corev1.Service) outcome {
	return k.drive(ctx, p != nil, func(ctx context.Context) outcome {
		got, o := k.lbGet(ctx, p, s)
		if o.err != nil || got.Existence == abi.Existence_EXISTENCE_DOES_NOT_EXIST {
			return o
		}
		deletion := k.lbDelete(ctx, p, s)
		deletion.trace, deletion.took = append(o.trace, deletion.trace...), o.took+deletion.took
		return deletion
	})
}

func (k *kit) deleted(ctx context.Context, p *plan, s *corev1.Service) outcome {
	return k.drive(ctx, p != nil, func(ctx context.Context) outcome { return k.lbDelete(ctx, p, s) })
}

// cleared deletes the leftovers of an earlier run, with patience, even those
// that lb_get does not know.
func (k *kit) cleared(ctx context.Context, s *corev1.Service) outcome {
	return k.drive(ctx, true, func(ctx context.Context) outcome { return k.lbDelete(ctx, nil, s) })
}

func (k *kit) routes(ctx context.Context, p *plan) ([]*abi.Route, outcome) {
	resp := &abi.RouteListResponse{}
	o := k.call(ctx, p, opcontext.Op{}, abi.OpRouteList, &abi.RouteListRequest{ClusterName: k.Cases.ClusterName}, resp)
	if o = said(o, resp.Done); o.err == nil {
		_, _, o.err = convert.CloudRoutes(resp.Routes, k.policy)
	}
	return resp.Routes, o
}

func (k *kit) routeCreate(ctx context.Context, p *plan, hint string, r *abi.Route) outcome {
	resp := &abi.Done{}
	o := k.call(ctx, p, opcontext.Op{}, abi.OpRouteCreate, &abi.RouteCreateRequest{ClusterName: k.Cases.ClusterName, NameHint: hint, Route: r}, resp)
	return said(o, resp.Done)
}

func (k *kit) routeDelete(ctx context.Context, p *plan, r *abi.Route) outcome {
	resp := &abi.Done{}
	o := k.call(ctx, p, opcontext.Op{}, abi.OpRouteDelete, &abi.RouteDeleteRequest{ClusterName: k.Cases.ClusterName, Route: r}, resp)
	return said(o, resp.Done)
}

func (k *kit) volumeLabels(ctx context.Context, p *plan, pv *corev1.PersistentVolume) (map[string]string, outcome) {
	volume, err := convert.Volume(pv)
	if err != nil {
		return nil, outcome{op: abi.OpVolumeLabels, err: err}
	}
	about := opcontext.Op{Object: &corev1.ObjectReference{APIVersion: "v1", Kind: "PersistentVolume", Name: pv.Name, UID: pv.UID}}
	resp := &abi.VolumeLabelsResponse{}
	o := k.call(ctx, p, about, abi.OpVolumeLabels, &abi.VolumeLabelsRequest{Volume: volume}, resp)
	if o = said(o, resp.Done); o.err == nil {
		_, o.err = convert.CloudVolumeLabels(resp.Labels)
	}
	return resp.Labels, o
}
