package conformance

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/host/internal/hostcall/kubecache"
	"github.com/wasm-ccm/wasm-ccm/host/internal/manager/grant"
)

// seen answers the capability kube with the Nodes and Services of the cases,
// within the provider's grants. Changes are checked and discarded: ops do not
// see each other's.
type seen struct{ *kubecache.View }

func newSeen(o *Options) seen {
	var objects []runtime.Object
	for _, n := range o.Cases.Nodes {
		objects = append(objects, n.object())
	}
	for i := range o.Cases.Services {
		objects = append(objects, &o.Cases.Services[i])
	}
	return seen{kubecache.Of(objects...).Open(grant.Kube(&o.Provider.Kube), func(string, string) {})}
}

// Read implements hostfunc.Kube.
func (s seen) Read(ctx context.Context, request *abi.KubeRequest) ([]byte, int, error) {
	return s.View.Read(ctx, 1, request)
}

// Patch implements hostfunc.Kube.
func (s seen) Patch(_ context.Context, request *abi.KubeRequest, own *corev1.ObjectReference) error {
	_, err := s.View.Patch(request, own)
	return err
}
