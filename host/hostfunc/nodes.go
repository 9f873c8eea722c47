package hostfunc

import (
	"context"
	"encoding/binary"
	"slices"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/host/convert"
	"github.com/wasm-ccm/wasm-ccm/host/opcontext"
)

const (
	defaultNodesPage = 500
	// maxNodesBytes is when a page ends early: a guest decodes it in its own,
	// small memory. A single node is never larger.
	maxNodesBytes = 4 << 20
	// maxNodeFields bounds the list of fields, which has no use for repetition.
	maxNodeFields = 64
	// Tags of NodesResponse, as on the wire.
	tagNodes = 1<<3 | 2
	tagTotal = 2 << 3
)

// nodes answers with a page of the op's nodes, with the fields that are asked
// for. Nodes are converted and encoded one by one into one buffer: an op with
// 5,000 nodes must not hold their copies.
func (h *Host) nodes(ctx context.Context, request []byte) ([]byte, error) {
	if !h.options.Nodes {
		return nil, h.denied()
	}
	var m abi.NodesRequest
	if err := decode(request, &m); err != nil {
		return nil, err
	}
	if len(m.GetFields()) > maxNodeFields {
		return nil, invalid("%d fields are asked for, at most %d can be", len(m.GetFields()), maxNodeFields)
	}
	op := opcontext.FromContext(ctx)
	// An op on an object whose list of nodes is empty may have it as nil.
	if m.GetSnapshotId() != opcontext.SnapshotID || (op.Nodes == nil && op.Object == nil) {
		return nil, &abi.Error{Code: abi.CodeNotFound, Message: "this op has no such snapshot of nodes: take the id from its request"}
	}
	page := op.Nodes[min(uint64(m.GetOffset()), uint64(len(op.Nodes))):]
	page = page[:min(len(page), pageSize(m.GetLimit()))]
	out := make([]byte, 0, 64+min(len(page)*256, maxNodesBytes))
	out = binary.AppendUvarint(append(out, tagTotal), uint64(len(op.Nodes)))
	fields := slices.Compact(slices.Sorted(slices.Values(m.GetFields())))
	var scratch abi.Node
	for i, n := range page {
		scratch.Reset()
		convert.NodeFields(&scratch, n, fields)
		size := scratch.SizeVT()
		if i > 0 && len(out)+size > maxNodesBytes {
			break
		}
		out = binary.AppendUvarint(append(out, tagNodes), uint64(size)) //nolint:gosec // not negative
		end := len(out) + size
		out = slices.Grow(out, size)[:end]
		if _, err := scratch.MarshalToSizedBufferVT(out[end-size:]); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func pageSize(limit uint32) int {
	if limit == 0 {
		return defaultNodesPage
	}
	return int(min(limit, abi.MaxNodesPage))
}
