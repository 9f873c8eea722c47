package manager

import (
	"context"
	"fmt"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	restclient "k8s.io/client-go/rest"
	"k8s.io/component-base/metrics/legacyregistry"

	"github.com/wasm-ccm/wasm-ccm/host/config/v1alpha1"
	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/source"
	"github.com/wasm-ccm/wasm-ccm/host/internal/manager/config"
	"github.com/wasm-ccm/wasm-ccm/host/internal/manager/metrics"
)

// component is the name in Events and in the User-Agent.
const component = "wasm-cloud-controller-manager"

// outside is a manager's access to the outside world: tests of whole managers
// replace it.
type outside struct {
	// client and metadata return clients with a rate of their own.
	client   func(*restclient.Config) (kubernetes.Interface, error)
	metadata func(*restclient.Config) (metadata.Interface, error)
	// dynamic returns a client of CloudProviders, with a rate of its own.
	dynamic func(*restclient.Config) (dynamic.Interface, error)
	// modules builds the parts that load modules; remove is called after everything else.
	modules func(*config.Options) (made modules, remove func(), err error)
	// watchFile passes a file's content, and each change, until the context ends.
	watchFile func(ctx context.Context, path string, handle func(data []byte, err error))
	register  func(*metrics.Metrics)
}

func realOutside(newEngine NewEngine) outside {
	return outside{
		client: newClient, metadata: newMetadataClient, dynamic: newDynamicClient,
		modules: func(o *config.Options) (modules, func(), error) { return newModules(newEngine, o) },
		watchFile: func(ctx context.Context, path string, handle func([]byte, error)) {
			source.WatchFile(ctx, path, v1alpha1.MaxBytes, source.Watching{}, nil, handle)
		},
		register: func(m *metrics.Metrics) { m.Register(legacyregistry.MustRegister) },
	}
}

// newClient returns a client with a rate of its own.
func newClient(c *restclient.Config) (kubernetes.Interface, error) {
	client, err := kubernetes.NewForConfig(restclient.AddUserAgent(restclient.CopyConfig(c), component))
	if err != nil {
		return nil, fmt.Errorf("client of the API server: %w", err)
	}
	return client, nil
}

func newMetadataClient(c *restclient.Config) (metadata.Interface, error) {
	client, err := metadata.NewForConfig(restclient.AddUserAgent(restclient.CopyConfig(c), component))
	if err != nil {
		return nil, fmt.Errorf("client of the API server for metadata: %w", err)
	}
	return client, nil
}

func newDynamicClient(c *restclient.Config) (dynamic.Interface, error) {
	client, err := dynamic.NewForConfig(restclient.AddUserAgent(restclient.CopyConfig(c), component))
	if err != nil {
		return nil, fmt.Errorf("client of the API server for CloudProviders: %w", err)
	}
	return client, nil
}
