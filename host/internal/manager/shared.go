package manager

import (
	"sync"

	"k8s.io/client-go/kubernetes"
	ccmconfig "k8s.io/cloud-provider/app/config"

	"github.com/wasm-ccm/wasm-ccm/host/config/v1alpha1"
	"github.com/wasm-ccm/wasm-ccm/host/internal/cloud/routing"
	"github.com/wasm-ccm/wasm-ccm/host/internal/hostcall/kubecache"
	"github.com/wasm-ccm/wasm-ccm/host/internal/manager/metrics"
	"github.com/wasm-ccm/wasm-ccm/host/internal/manager/tracing"
	"github.com/wasm-ccm/wasm-ccm/host/internal/manager/trials"
)

// shared are the common parts of a manager's providers.
type shared struct {
	storeNamespace string
	completed      *ccmconfig.CompletedConfig
	metrics        *metrics.Metrics
	spans          *tracing.Spans
	modules        modules
	router         *routing.Router
	serviceCIDRs   *serviceCIDRs
	trials         *trials.Trials
	caches         *kubecache.Caches
	outside        outside
	kubes          *kubes
	kube
}

// The identities that may label Services, and that may change Nodes.
const (
	serviceController = "service-controller"
	nodeController    = "node-controller"
)

// controller returns the client of a controller that may change Nodes or
// Services. The first use creates it, as that needs the API server.
func (s *shared) controller(name string) func() (kubernetes.Interface, error) {
	var mu sync.Mutex
	var made kubernetes.Interface
	return func() (_ kubernetes.Interface, err error) {
		mu.Lock()
		defer mu.Unlock()
		if made == nil {
			made, err = s.completed.ClientBuilder.Client(name)
		}
		return made, err
	}
}

// configFile is the file of --cloud-config, which is for one provider.
func (s *shared) configFile() string {
	return s.completed.ComponentConfig.KubeCloudShared.CloudProvider.CloudConfigFile
}

// rules of a provider for the router. A single provider without routing gets
// all objects, so no default is filled in for it.
func rules(c *v1alpha1.HostConfiguration) (all []routing.Rules) {
	for i := range c.Providers {
		p := &c.Providers[i]
		r := routing.Rules{
			Provider: p.Name, Schemes: p.Routing.Nodes.Schemes, AskNodes: p.Routing.Nodes.Ask,
			DefaultServices: p.Routing.Services.Default, Classes: p.Routing.Services.Classes, VolumeDrivers: p.Routing.Volumes.Drivers, VolumeSchemes: p.Routing.Volumes.Schemes,
		}
		if len(c.Providers) > 1 {
			r.VolumeSchemes = p.VolumeSchemes()
		}
		all = append(all, r)
	}
	return all
}
