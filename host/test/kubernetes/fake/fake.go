// Package fake replaces k8s.io/cloud-provider/fake while Kubernetes' own tests
// run (../run.sh). Cloud has the fields that those tests set. But the real
// adapter, plugin host and static guest answer every call, with an inventory
// made from the fields.
package fake

import (
	"context"
	"io"
	"net"
	"os"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/abi/manifest"
	"github.com/wasm-ccm/wasm-ccm/abi/wire"
	"github.com/wasm-ccm/wasm-ccm/host/internal/cloud/provider"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/engine"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/engine/wazero"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/module"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/plugin"
)

// Cloud is a cloudprovider.Interface. The fields have the names and the
// meaning of upstream's fake; they are read when a Node is asked for.
//
// The tests let five Nodes have the same addresses, which no inventory may: so
// each Node is served by a generation that knows its machine only, and the
// guest is replaced from Node to Node.
type Cloud struct {
	cloudprovider.Zone

	EnableInstancesV2  bool
	ExistsByProviderID bool
	ErrByProviderID    error
	Err                error
	ProviderID         map[types.NodeName]string
	ExtID              map[types.NodeName]string
	InstanceTypes      map[types.NodeName]string
	Addresses          []v1.NodeAddress
	// Calls are the ops that the guest was asked for. A test that fails
	// prints them.
	Calls []string
	// ExternalIP and BalancerIPMode are there for the compiler. The tests that
	// set them do not run: the static guest has addresses of its own pools, and
	// one mode.
	ExternalIP     net.IP
	BalancerIPMode *v1.LoadBalancerIPMode

	once     sync.Once
	provider *provider.Provider

	mu      sync.Mutex
	slot    *plugin.Slot
	machine types.NodeName
}

var _ cloudprovider.Interface = (*Cloud)(nil)

// ClearCalls forgets the calls so far.
func (c *Cloud) ClearCalls() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.Calls = nil
}

// Initialize starts the guest.
func (c *Cloud) Initialize(builder cloudprovider.ControllerClientBuilder, stop <-chan struct{}) {
	c.guest().Initialize(builder, stop)
}

// LoadBalancer asks the guest.
func (c *Cloud) LoadBalancer() (cloudprovider.LoadBalancer, bool) { return c.guest().LoadBalancer() }

// Instances asks the guest.
func (c *Cloud) Instances() (cloudprovider.Instances, bool) { return c.guest().Instances() }

// InstancesV2 asks the guest, unless the test turned it off.
func (c *Cloud) InstancesV2() (cloudprovider.InstancesV2, bool) {
	if !c.EnableInstancesV2 {
		return nil, false
	}
	return c.guest().InstancesV2()
}

// Zones asks the guest.
func (c *Cloud) Zones() (cloudprovider.Zones, bool) { return c.guest().Zones() }

// Clusters asks the guest.
func (c *Cloud) Clusters() (cloudprovider.Clusters, bool) { return c.guest().Clusters() }

// Routes asks the guest.
func (c *Cloud) Routes() (cloudprovider.Routes, bool) { return c.guest().Routes() }

// ProviderName asks the guest.
func (c *Cloud) ProviderName() string { return c.guest().ProviderName() }

// HasClusterID is true, as in upstream's fake.
func (c *Cloud) HasClusterID() bool { return true }

// guest loads the static guest on the first call. A guest that does not load
// ends the test: there is nothing to fall back on.
func (c *Cloud) guest() *provider.Provider {
	c.once.Do(func() {
		c.slot = plugin.NewSlot()
		c.swap("")
		c.provider = provider.New(&recorder{Slot: c.slot, cloud: c})
	})
	return c.provider
}

// swap lets a generation serve that knows this machine only.
func (c *Cloud) swap(machine types.NodeName) {
	ctx := context.Background()
	generation, err := load(ctx, c.inventory(machine))
	if err != nil {
		panic(err)
	}
	c.slot.Swap(ctx, generation)
	c.machine = machine
}

func load(ctx context.Context, inventory []byte) (*plugin.Generation, error) {
	wasm, err := os.ReadFile(os.Getenv("CCM_STATIC_WASM"))
	if err != nil {
		return nil, err
	}
	limits := plugin.Limits{
		MaxInstances: 4, MaxCallsPerInstance: 1000, MaxMemoryBytes: 64 << 20, MaxTableElements: 10_000,
		OpTimeout: 30 * time.Second, LoadTimeout: 30 * time.Second,
	}
	loader := &plugin.Loader{
		Engine:      wazero.New(wazero.Options{}),
		Limits:      limits,
		Policy:      module.Policy{Capabilities: abi.Capabilities()},
		ClusterName: "kubernetes",
		HostVersion: "integration",
		NewHost:     func(*manifest.Manifest) (engine.Host, io.Writer, io.Writer) { return host{}, os.Stderr, os.Stderr },
		Observer:    host{},
	}
	return loader.Load(ctx, plugin.Bundle{Module: wasm, Config: inventory})
}

// recorder notes the ops on their way to the slot, one at a time.
type recorder struct {
	*plugin.Slot
	cloud *Cloud
}

func (r *recorder) Invoke(ctx context.Context, op abi.Op, req, resp abi.Message) error {
	r.cloud.mu.Lock()
	defer r.cloud.mu.Unlock()
	r.cloud.Calls = append(r.cloud.Calls, op.String())
	if request, ok := req.(*abi.InstanceRequest); ok && types.NodeName(request.Node.Name) != r.cloud.machine {
		r.cloud.swap(types.NodeName(request.Node.Name))
	}
	return r.Slot.Invoke(ctx, op, req, resp)
}

// host answers the host calls. These tests have no load balancers and no
// routes, so a guest needs the log, and a store that is empty and stays so.
type host struct{}

func (host) HostCall(_ context.Context, name string, request []byte) (abi.Code, []byte) {
	switch name {
	case abi.ImportLog:
		return abi.CodeOK, nil
	case abi.CapabilityStore:
		return emptyStore(request)
	}
	return abi.CodeDenied, nil
}

func emptyStore(request []byte) (abi.Code, []byte) {
	var read abi.StoreRequest
	if err := read.UnmarshalVT(request); err != nil || read.Write != nil {
		return abi.CodeDenied, nil
	}
	response, err := wire.Marshal(&abi.StoreResponse{Version: "empty"})
	if err != nil {
		return abi.CodeInternal, nil
	}
	return abi.CodeOK, response
}

func (host) InstanceCreated() {}

func (host) InstanceDiscarded(string) {}
