// Package provider is cloudprovider.Interface over a guest: it converts Kubernetes objects
// to the messages of the ABI, runs the op through an Invoker, and gives each result the
// exact meaning that upstream's controllers attach to it.
//
// Upstream keeps the objects of this package for its whole life; they stay the same while
// the guest behind the Invoker is replaced. All of them are safe for concurrent use.
//
// It knows the guest only as an opcontext.Invoker.
package provider

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/host/internal/cloud/addresses"
	"github.com/wasm-ccm/wasm-ccm/host/internal/cloud/opcontext"
)

// Provider implements cloudprovider.Interface and cloudprovider.PVLabeler.
type Provider struct {
	invoker      opcontext.Invoker
	steering     *steering
	instances    cloudprovider.InstancesV2
	loadBalancer *loadBalancer
	routes       *routes
	volumes      *Volumes
}

var (
	_ cloudprovider.Interface = (*Provider)(nil)
	_ cloudprovider.PVLabeler = (*Provider)(nil)
)

// Option changes the result of New.
type Option func(*Provider)

// WithInstances puts a wrapper between the controllers and the guest's instances, e.g. to
// hold back deletions. New calls wrap once.
func WithInstances(wrap func(Instances) cloudprovider.InstancesV2) Option {
	return func(p *Provider) { p.instances = wrap(&instances{p.invoker, p.steering}) }
}

// WithAddresses sets the policy for the addresses of the guest's answers; the default is
// addresses.Default. policy is asked at each answer, so that a change is in force at once.
// refused is told of a Node with unusable metadata, and the reason: upstream reports
// Services and routes by Events, Nodes in the log only. Both must be safe for concurrent use
// and not block.
func WithAddresses(policy func() *addresses.Policy, refused func(node *corev1.Node, err error)) Option {
	return func(p *Provider) { *p.steering = steering{policy, refused} }
}

// steering is the policy for the addresses of answers.
type steering struct {
	policy  func() *addresses.Policy
	refused func(*corev1.Node, error)
}

// New returns the provider of the guest behind the invoker.
func New(invoker opcontext.Invoker, options ...Option) *Provider {
	byDefault := addresses.Default()
	s := &steering{func() *addresses.Policy { return byDefault }, func(*corev1.Node, error) {}}
	p := &Provider{
		invoker:      invoker,
		steering:     s,
		instances:    &instances{invoker, s},
		loadBalancer: &loadBalancer{invoker: invoker, steering: s},
		routes:       &routes{invoker, s},
		volumes:      &Volumes{invoker},
	}
	for _, option := range options {
		option(p)
	}
	return p
}

// Initialize does nothing: the guest uses host calls.
func (p *Provider) Initialize(cloudprovider.ControllerClientBuilder, <-chan struct{}) {}

// LoadBalancer reports whether the serving guest has load balancers.
func (p *Provider) LoadBalancer() (cloudprovider.LoadBalancer, bool) {
	if !p.supports(abi.GroupLoadBalancers) {
		return nil, false
	}
	return p.loadBalancer, true
}

// InstancesV2 reports whether the serving guest has instances.
func (p *Provider) InstancesV2() (cloudprovider.InstancesV2, bool) {
	if !p.supports(abi.GroupInstances) {
		return nil, false
	}
	return p.instances, true
}

// Routes reports whether the serving guest has routes.
func (p *Provider) Routes() (cloudprovider.Routes, bool) {
	if !p.supports(abi.GroupRoutes) {
		return nil, false
	}
	return p.routes, true
}

// Volumes returns the labeler of volumes; its Supports tells whether it works.
func (p *Provider) Volumes() *Volumes { return p.volumes }

// GetLabelsForVolume is Volumes().GetLabelsForVolume.
func (p *Provider) GetLabelsForVolume(ctx context.Context, pv *corev1.PersistentVolume) (map[string]string, error) {
	return p.volumes.GetLabelsForVolume(ctx, pv)
}

// Instances is not supported: upstream prefers InstancesV2.
func (p *Provider) Instances() (cloudprovider.Instances, bool) { return nil, false }

// Zones is not supported: InstancesV2 says zone and region.
func (p *Provider) Zones() (cloudprovider.Zones, bool) { return nil, false }

// Clusters is not supported: nothing calls it.
func (p *Provider) Clusters() (cloudprovider.Clusters, bool) { return nil, false }

// ProviderName is the serving guest's own name, or "".
func (p *Provider) ProviderName() string { return p.invoker.ProviderName() }

// HasClusterID is what the serving guest says of its configuration.
func (p *Provider) HasClusterID() bool { return p.invoker.HasClusterID() }

// supports asks for every op that upstream may call: a controller with only some of its ops
// would leave objects behind.
func (p *Provider) supports(g abi.Group) bool {
	lacks := func(op abi.Op) bool { return !p.invoker.Supports(op) }
	return !slices.ContainsFunc(g.Required(), lacks)
}

// done returns nil, or an error for an answer that is not done.
func done(op abi.Op, subject string, answer *abi.Done) error {
	if answer.Done {
		return nil
	}
	return invalidAnswer(op, subject, fmt.Errorf("the answer does not say done"))
}
