package hostfunc

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/host/internal/cloud/opcontext"
)

// Kube is a provider's view of the cluster.
type Kube interface {
	// Read answers a request with an encoded abi.KubeResponse. Cost is charged to the provider's
	// budget, in bytes.
	Read(ctx context.Context, request *abi.KubeRequest) (response []byte, cost int, err error)
	// Patch changes own, the op's object, which may be nil.
	Patch(ctx context.Context, request *abi.KubeRequest, own *corev1.ObjectReference) error
}

// kube answers with the changes of the cluster's objects.
func (h *Host) kube(ctx context.Context, request []byte) ([]byte, error) {
	if h.options.Kube == nil {
		return nil, h.denied()
	}
	var m abi.KubeRequest
	if err := decode(ctx, request, &m); err != nil {
		return nil, err
	}
	if m.Patch != nil && dropped(ctx) {
		return nil, nil
	}
	if m.Patch != nil {
		return nil, h.patchKube(ctx, &m)
	}
	// Invariant M31 (host/SECURITY.md): a loop of reads waits here.
	if err := h.rates.kubeCalls.Wait(ctx); err != nil {
		return nil, tooManyReads()
	}
	response, cost, err := h.options.Kube.Read(ctx, &m)
	if err != nil {
		return nil, err
	}
	if err := h.rates.kubeBytes.WaitN(ctx, min(cost, h.rates.kubeBytes.Burst())); err != nil {
		return nil, tooManyReads()
	}
	return response, nil
}

// patchKube changes the op's object. It has no result.
func (h *Host) patchKube(ctx context.Context, m *abi.KubeRequest) error {
	// Invariant G10 (host/SECURITY.md): changes take from a rate that outlives generations.
	if !h.rates.kubePatches.Allow() {
		return &abi.Error{Code: abi.CodeThrottled, Message: "too many changes of objects", RetryAfter: time.Second}
	}
	// Invariant S4 (host/SECURITY.md): it is sent unscrubbed. The provider can read it back, and
	// a mark would confirm its guess of a secret.
	return h.options.Kube.Patch(ctx, m, opcontext.FromContext(ctx).Object)
}

func tooManyReads() error {
	return &abi.Error{Code: abi.CodeThrottled, Message: "too much is read of the cluster's objects: keep what was read, and ask with its cursor"}
}
