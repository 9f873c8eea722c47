package sdk

import (
	"iter"

	"github.com/wasm-ccm/wasm-ccm/abi"
)

// NodeField selects a field of a Node, so that the host sends only selected fields.
type NodeField uint32

// The fields, by their numbers in abi.Node.
const (
	NodeName NodeField = iota + 1
	NodeProviderID
	NodeLabels
	NodeAnnotations
	NodeAddresses
	NodePodCIDRs
	NodeUID
	NodeSystemUUID
	NodeMachineID
)

// Nodes iterates over the nodes of the running op with those fields filled, or
// all fields when none is named. A joining node has no addresses and no
// provider ID yet. A node is valid until the next one. An error ends the
// iteration: the nodes before it are then not the complete list. It needs the
// capability nodes.
func (op *Op) Nodes(snapshot *abi.NodeSnapshot, fields ...NodeField) iter.Seq2[*abi.Node, error] {
	return func(yield func(*abi.Node, error) bool) {
		if snapshot == nil || snapshot.Id == 0 {
			yield(nil, Error(abi.CodeNotFound, "nodes: this op has no nodes"))
			return
		}
		req := abi.NodesRequest{SnapshotId: snapshot.Id}
		for _, field := range fields {
			req.Fields = append(req.Fields, uint32(field))
		}
		op.pages(&req, yield)
	}
}

func (op *Op) pages(req *abi.NodesRequest, yield func(*abi.Node, error) bool) {
	for {
		var page abi.NodesResponse
		if err := op.call(abi.CapabilityNodes, importNodes, req, &page); err != nil {
			yield(nil, err)
			return
		}
		for _, node := range page.Nodes {
			if !yield(node, nil) {
				return
			}
		}
		req.Offset += uint32(len(page.Nodes))
		if req.Offset >= page.Total {
			return
		}
		if len(page.Nodes) == 0 {
			yield(nil, Error(abi.CodeInternal, "nodes: an empty page before the last"))
			return
		}
	}
}
