package manager

import (
	"context"

	"k8s.io/klog/v2"

	"github.com/wasm-ccm/wasm-ccm/host/internal/cloud/annotations"
	"github.com/wasm-ccm/wasm-ccm/host/internal/cloud/brake"
	"github.com/wasm-ccm/wasm-ccm/host/internal/cloud/routing"
)

// domain of this project's annotations and labels.
const domain = "wasm-ccm.dev"

// keys are the annotations and labels of Services and Nodes that this manager
// and this project's provider static read.
func keys() *annotations.Keys {
	return annotations.NewKeys(domain,
		annotations.Key{Kind: "Service", Name: routing.ServiceAnnotation},
		annotations.Key{Kind: "Service", Label: true, Name: routing.ServiceOwnerLabel},
		annotations.Key{Kind: "Node", Label: true, Name: routing.NodeLabel},
		annotations.Key{Kind: "Node", Name: brake.NodeDeletionAnnotation},
		annotations.Key{Kind: "Node", Name: brake.GracePeriodAnnotation},
		annotations.Key{Kind: "Service", Name: "static." + domain + "/addresses"},
		annotations.Key{Kind: "Service", Name: "static." + domain + "/pool"},
	)
}

// newUnread returns the reporter of unknown annotations, which runs until the
// context ends. It has its own watch, of metadata only: the first user of
// shared informers sets the resync period of upstream's loops.
func newUnread(s *shared) (func(context.Context), error) {
	client, err := s.outside.metadata(s.completed.Kubeconfig)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) {
		if err := annotations.NewReporter(keys(), client, s.events).Run(ctx); err != nil {
			klog.FromContext(ctx).Error(err, "Unknown annotations are not reported")
		}
	}, nil
}
