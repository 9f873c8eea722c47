package hostfunc

import (
	"context"
	"encoding/binary"
	"slices"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/host/internal/cloud/opcontext"
)

const (
	defaultNodesPage = 500
	// maxNodesBytes is the size at which a page ends: a guest decodes it in its own, small
	// memory. A single node is never larger.
	maxNodesBytes = 4 << 20
	// maxNodeFields bounds the list of fields, which has no use for repetition.
	maxNodeFields = 64
	// Tags of NodesResponse, as on the wire.
	tagNodes = 1<<3 | 2
	tagTotal = 2 << 3
)

// nodes answers with a page of the op's nodes, with the requested fields. They are encoded
// one by one, without intermediate objects.
func (h *Host) nodes(ctx context.Context, request []byte) ([]byte, error) {
	if !h.options.Nodes {
		return nil, h.denied()
	}
	var m abi.NodesRequest
	if err := decode(ctx, request, &m); err != nil {
		return nil, err
	}
	if len(m.Fields) > maxNodeFields {
		return nil, invalid("%d fields are asked for, at most %d can be", len(m.Fields), maxNodeFields)
	}
	// Invariant G8 (host/SECURITY.md): the Nodes are the op's; a request cannot name others.
	op := opcontext.FromContext(ctx)
	// The empty list of an op on an object may be nil.
	if m.SnapshotId != opcontext.SnapshotID || (op.Nodes == nil && op.Object == nil) {
		return nil, &abi.Error{Code: abi.CodeNotFound, Message: "this op has no such snapshot of nodes: take the id from its request"}
	}
	page := op.Nodes[min(uint64(m.Offset), uint64(len(op.Nodes))):]
	page = page[:min(len(page), pageSize(m.Limit))]
	out := make([]byte, 0, 64+min(len(page)*256, maxNodesBytes))
	out = binary.AppendUvarint(append(out, tagTotal), uint64(len(op.Nodes)))
	fields := nodeFields(m.Fields)
	var node []byte // one node, before its size is known
	for i, n := range page {
		node = appendNode(node[:0], n, fields)
		if i > 0 && len(out)+len(node) > maxNodesBytes {
			break
		}
		out = append(binary.AppendUvarint(append(out, tagNodes), uint64(len(node))), node...)
	}
	return out, nil
}

// nodeFields returns each requested field once; none stands for all.
func nodeFields(asked []uint32) []uint32 {
	if len(asked) > 0 {
		return slices.Compact(slices.Sorted(slices.Values(asked)))
	}
	all := make([]uint32, lastNodeField)
	for i := range all {
		all[i] = uint32(i) + 1
	}
	return all
}

func pageSize(limit uint32) int {
	if limit == 0 {
		return defaultNodesPage
	}
	return int(min(limit, abi.MaxNodesPage))
}
