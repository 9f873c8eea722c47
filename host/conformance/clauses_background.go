package conformance

import (
	"context"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/host/internal/cloud/opcontext"
)

func backgroundClauses() []clause {
	return []clause{{
		id: "tick", text: "tick is done within its time, and again at once, without an object", ops: []abi.Op{abi.OpTick}, check: checkTick,
	}}
}

func checkTick(ctx context.Context, c *check) {
	for range 2 {
		if o := c.tick(ctx); o.err != nil {
			c.failf(o, "%s", o)
			return
		}
	}
}

func (k *kit) tick(ctx context.Context) outcome {
	resp := &abi.Done{}
	o := k.call(ctx, nil, opcontext.Op{Serial: "Tick"}, abi.OpTick, &abi.TickRequest{ClusterName: k.Cases.ClusterName}, resp)
	return said(o, resp.Done)
}
