// Package sdk is the library for cloud providers of the WebAssembly
// cloud-controller-manager. A provider implements Provider, and those of
// Instances, InstanceLister, LoadBalancers, Routes and VolumeLabels that its
// cloud supports, and calls Serve:
//
//	func init() { sdk.Serve(&provider{}) }
//	func main() {}
//
// It must be init: a guest is a reactor, whose main never runs, neither with
// TinyGo nor with stock Go (-buildmode=c-shared).
//
// Instances of a guest come and go, and several run at once: a provider keeps
// no state between ops but its configuration. A panic ends the instance and is
// an error of the op. The same code runs in plain `go test` against the host of
// package sdktest.
//
// The package imports only abi and the standard library. It links only the
// imports of capabilities that the provider uses: the import section of the
// module lists its needs.
//
// While the version is v0, a minor release may rename or remove something;
// CHANGELOG.md, beside this file, then names the replacement. A patch release
// keeps the API compatible. Built modules stay valid: their contract is the
// ABI.
package sdk

import (
	"time"

	"github.com/wasm-ccm/wasm-ccm/abi"
)

// Info identifies a provider.
type Info struct {
	// Name and Version equal the manifest's.
	Name, Version string
	// ProviderName is a DNS label, usually the scheme of the provider IDs.
	ProviderName string
}

// Config is the administrator's configuration of the provider.
type Config struct {
	// Bytes is the unchanged configuration; nil when there is none. The
	// provider may keep the slice.
	Bytes []byte
	// ClusterName is the value of --cluster-name.
	ClusterName string
}

// Configured is the outcome of a configuration.
type Configured struct {
	// NoClusterID declares that the provider cannot distinguish the cluster's
	// cloud objects from those of another cluster. The manager refuses such a
	// provider, unless it runs with --allow-untagged-cloud.
	NoClusterID bool
	// DisabledOps are ops of the manifest to turn off with this configuration.
	// One op turns off its whole group.
	DisabledOps []abi.Op
	// Warnings are shown to the administrator; they are no failure.
	Warnings []string
	// TickPeriod is the time between two ticks of a Ticker: 10 s to one hour, 0 for never.
	TickPeriod time.Duration
}

// Provider is the interface of every provider.
type Provider interface {
	// Info must not depend on the configuration.
	Info() Info
	// Configure validates and keeps the configuration. It runs once in each
	// instance, before any other method but Info, so it should be quick; it may
	// only use the log of the host. Report a mistake with Invalidf, with its
	// line.
	Configure(op *Op, config Config) (Configured, error)
	// Probe reports whether the provider reaches its cloud, in one line for
	// people. It changes nothing.
	Probe(op *Op) (summary string, err error)
}

// Existence says whether an object exists. The zero value is no answer: the
// host deletes Nodes on DoesNotExist, so the answer must be explicit.
type Existence = abi.Existence

// The answers.
const (
	Exists = abi.Existence_EXISTENCE_EXISTS
	// DoesNotExist: the cloud itself reported that there is no such object. Never use
	// it for an empty list, an unreachable region, or an ID of another cloud.
	DoesNotExist = abi.Existence_EXISTENCE_DOES_NOT_EXIST
)

// PowerState says whether an instance runs. The zero value is no answer.
type PowerState = abi.PowerState

// The answers.
const (
	On       = abi.PowerState_POWER_STATE_ON
	Shutdown = abi.PowerState_POWER_STATE_SHUTDOWN
)

// Instances finds the machine of a Node: by its provider ID, or by its name
// before it has an ID. In the manifest: instance_exists, instance_shutdown,
// instance_metadata.
type Instances interface {
	// InstanceExists answers Exists, DoesNotExist or an error; see DoesNotExist.
	InstanceExists(op *Op, node *abi.Node) (Existence, error)
	InstanceShutdown(op *Op, node *abi.Node) (PowerState, error)
	// InstanceMetadata answers InstanceNotFound for a machine that does not exist, and ErrNotMine
	// for a Node of another controller. The SDK only reads the result, before the next op.
	InstanceMetadata(op *Op, node *abi.Node) (*abi.InstanceMetadata, error)
}

// InstanceLister lets the host serve many Nodes from a few calls. In the
// manifest: list_instances.
type InstanceLister interface {
	// ListInstances returns one page and the token of the next page, empty
	// after the last. An unknown token is an error: if the cloud accepts any
	// token, such as "after this ID", check its form.
	ListInstances(op *Op, pageToken string, pageSize int) (page []*abi.Instance, nextPageToken string, err error)
}

// LoadBalancers serves Services of type LoadBalancer. Every method is
// idempotent: repeated with the same request it changes nothing.
type LoadBalancers interface {
	// GetLoadBalancer answers Exists with a status, DoesNotExist, or an error.
	// A partly created or partly deleted load balancer exists, with a status
	// without ingress: the manager deletes only load balancers that exist.
	GetLoadBalancer(op *Op, request *abi.LoadBalancerRequest) (Existence, *abi.LoadBalancerStatus, error)
	// LoadBalancerName is pure, not empty, and never changes for a Service.
	LoadBalancerName(op *Op, request *abi.LoadBalancerRequest) (string, error)
	// EnsureLoadBalancer answers RetryAfter until there is an address.
	EnsureLoadBalancer(op *Op, request *abi.LoadBalancerRequest) (*abi.LoadBalancerStatus, error)
	// UpdateLoadBalancer: only the nodes have changed.
	UpdateLoadBalancer(op *Op, request *abi.LoadBalancerRequest) error
	// DeleteLoadBalancer succeeds, too, when there is no load balancer.
	DeleteLoadBalancer(op *Op, request *abi.LoadBalancerRequest) error
}

// Routes serves the pod networks of Nodes.
type Routes interface {
	ListRoutes(op *Op, clusterName string) ([]*abi.Route, error)
	CreateRoute(op *Op, request *abi.RouteCreateRequest) error
	DeleteRoute(op *Op, request *abi.RouteDeleteRequest) error
}

// Ticker has periodic work, independent of requests of Kubernetes.
type Ticker interface {
	// Tick is called at the period of Configured, in one instance at a time, by
	// the leading manager. It ends within the op's time, and leaves the rest of
	// its work to the next tick.
	Tick(op *Op, clusterName string) error
}

// VolumeLabels locates volumes.
type VolumeLabels interface {
	// VolumeLabels returns no labels for a volume of another cloud.
	VolumeLabels(op *Op, volume *abi.Volume) (map[string]string, error)
}
