// Package sdk is the library for cloud providers of the WebAssembly
// cloud-controller-manager. A provider implements Provider, and what its cloud
// supports of Instances, InstanceLister, LoadBalancers, Routes and
// VolumeLabels, and calls Serve:
//
//	func init() { sdk.Serve(&provider{}) }
//	func main() {}
//
// It must be init: a guest is a reactor, whose main is never run, neither by
// TinyGo nor by stock Go (-buildmode=c-shared).
//
// Instances of a guest come and go, and several run at once: a provider keeps
// nothing between ops but what Configure told it. A panic ends the instance
// and is an error of the op. The same code runs in plain `go test` against the
// host of package sdktest.
//
// The package imports abi and the standard library only. It links no import of
// a capability that the provider does not use: the import section of the
// module is the list of what it needs.
package sdk

import (
	"time"

	"github.com/wasm-ccm/wasm-ccm/abi"
)

// Info says who a provider is.
type Info struct {
	// Name and Version equal the manifest's.
	Name, Version string
	// ProviderName is a DNS label, usually the scheme of the provider IDs.
	ProviderName string
}

// Config is what the administrator gave the provider.
type Config struct {
	// Bytes is the configuration as it is; nil when there is none. It is the
	// provider's to keep.
	Bytes []byte
	// ClusterName is the value of --cluster-name.
	ClusterName string
}

// Configured says what a configuration turned on.
type Configured struct {
	// NoClusterID says that the provider cannot tell the cluster's things in
	// the cloud from those of another cluster. The manager refuses that, unless
	// it runs with --allow-untagged-cloud.
	NoClusterID bool
	// DisabledOps are ops of the manifest that this configuration turns off.
	// One op turns off its whole group.
	DisabledOps []abi.Op
	// Warnings are shown to the administrator; nothing fails on them.
	Warnings []string
	// TickPeriod is how often a Ticker ticks: 10 s to one hour, 0 for never.
	TickPeriod time.Duration
}

// Provider is what every provider implements.
type Provider interface {
	// Info must not depend on the configuration.
	Info() Info
	// Configure checks and keeps the configuration. It runs once in each
	// instance, before any other method but Info, so it should be quick; of
	// the host it may only use the log. Answer what is wrong with Invalidf,
	// with the line.
	Configure(op *Op, config Config) (Configured, error)
	// Probe tells whether the provider reaches its cloud, in one line for
	// people. It changes nothing.
	Probe(op *Op) (summary string, err error)
}

// Existence is the answer to whether something exists. The zero value is no
// answer: the host deletes Nodes on DoesNotExist, so it must be said.
type Existence = abi.Existence

// The answers.
const (
	Exists = abi.Existence_EXISTENCE_EXISTS
	// DoesNotExist: the cloud itself said that there is no such object. Not
	// for an empty list, an unreachable region, or an ID of another cloud.
	DoesNotExist = abi.Existence_EXISTENCE_DOES_NOT_EXIST
)

// PowerState is whether an instance runs. The zero value is no answer.
type PowerState = abi.PowerState

// The answers.
const (
	On       = abi.PowerState_POWER_STATE_ON
	Shutdown = abi.PowerState_POWER_STATE_SHUTDOWN
)

// Instances finds the machine of a Node: by its provider ID, or by its name
// while it has none. In the manifest: instance_exists, instance_shutdown,
// instance_metadata.
type Instances interface {
	// InstanceExists answers Exists, DoesNotExist or an error; see there.
	InstanceExists(op *Op, node *abi.Node) (Existence, error)
	InstanceShutdown(op *Op, node *abi.Node) (PowerState, error)
	// InstanceMetadata answers InstanceNotFound for a machine that is not
	// there, and ErrNotMine for a Node that is another controller's. The result is only read, before the next op.
	InstanceMetadata(op *Op, node *abi.Node) (*abi.InstanceMetadata, error)
}

// InstanceLister lets the host serve many Nodes from a few calls. In the
// manifest: list_instances.
type InstanceLister interface {
	// ListInstances returns one page and the token of the next, which is
	// empty behind the last. A token that was never given out is an error: where
	// the cloud takes any, as those do that list "behind this ID", check its form.
	ListInstances(op *Op, pageToken string, pageSize int) (page []*abi.Instance, nextPageToken string, err error)
}

// LoadBalancers serves Services of type LoadBalancer. Every method may be
// called again with what it has already done, and then changes nothing.
type LoadBalancers interface {
	// GetLoadBalancer answers Exists with a status, DoesNotExist, or an error.
	// What is made or deleted by half exists, with a status without ingress:
	// only what exists is deleted.
	GetLoadBalancer(op *Op, request *abi.LoadBalancerRequest) (Existence, *abi.LoadBalancerStatus, error)
	// LoadBalancerName is pure, not empty, and the same for ever for one Service.
	LoadBalancerName(op *Op, request *abi.LoadBalancerRequest) (string, error)
	// EnsureLoadBalancer answers RetryAfter while there is no address yet.
	EnsureLoadBalancer(op *Op, request *abi.LoadBalancerRequest) (*abi.LoadBalancerStatus, error)
	// UpdateLoadBalancer: only the nodes have changed.
	UpdateLoadBalancer(op *Op, request *abi.LoadBalancerRequest) error
	// DeleteLoadBalancer is ok, too, when nothing was there.
	DeleteLoadBalancer(op *Op, request *abi.LoadBalancerRequest) error
}

// Routes serves the pod networks of Nodes.
type Routes interface {
	ListRoutes(op *Op, clusterName string) ([]*abi.Route, error)
	CreateRoute(op *Op, request *abi.RouteCreateRequest) error
	DeleteRoute(op *Op, request *abi.RouteDeleteRequest) error
}

// Ticker has work to do that no request of Kubernetes asks for.
type Ticker interface {
	// Tick is called at the period of Configured, in one instance at a time, by
	// the manager that leads. It ends within the op's time: what is left comes
	// with the next one.
	Tick(op *Op, clusterName string) error
}

// VolumeLabels says where a volume is.
type VolumeLabels interface {
	// VolumeLabels returns none for a volume that is not of this cloud.
	VolumeLabels(op *Op, volume *abi.Volume) (map[string]string, error)
}
