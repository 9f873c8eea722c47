package conformance

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/host/convert"
	"github.com/wasm-ccm/wasm-ccm/host/opcontext"
)

// Each op of the ABI, as the manager asks it. The plan may be nil.

func (k *kit) probe(ctx context.Context, p *plan) outcome {
	// probe is no op of the slot: the loader asks it.
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

func (k *kit) metadata(ctx context.Context, p *plan, n *corev1.Node) (*abi.InstanceMetadata, outcome) {
	resp := &abi.InstanceMetadataResponse{}
	o := k.call(ctx, p, aboutNode(n), abi.OpInstanceMetadata, &abi.InstanceRequest{Node: convert.Node(n)}, resp)
	if o.err == nil && resp.Metadata == nil {
		o.err = fmt.Errorf("the answer has no metadata")
	}
	return resp.Metadata, o
}

// text is a message in one line, with the keys of maps in order.
func text(m any) string {
	data, err := json.Marshal(m)
	if err != nil {
		return err.Error()
	}
	return string(data)
}
