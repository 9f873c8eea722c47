package manager

import (
	cloudprovider "k8s.io/cloud-provider"

	"github.com/wasm-ccm/wasm-ccm/host/config/v1alpha1"
	"github.com/wasm-ccm/wasm-ccm/host/internal/cloud/async"
	"github.com/wasm-ccm/wasm-ccm/host/internal/cloud/brake"
	"github.com/wasm-ccm/wasm-ccm/host/internal/cloud/listing"
	"github.com/wasm-ccm/wasm-ccm/host/internal/cloud/provider"
	"github.com/wasm-ccm/wasm-ccm/host/internal/cloud/routing"
)

// providerCloud is a provider as upstream's controllers see it: from the guest
// up to the deletion brake and the routing of objects.
type providerCloud struct {
	steering *steering
	invoker  *async.Invoker
	listing  *listing.Listing
	brake    *brake.Brake
	provider *provider.Provider
	cloud    cloudprovider.Interface
	history  *history
	// changes notifies the control loops that the provider may answer differently now.
	changes *changes
	// configured notifies them of another configuration of the module.
	configured *changes
}

func newProviderCloud(s *shared, b *base, a *providerAccess, g *providerGuest, t terms, limits v1alpha1.DeletionBrake) *providerCloud {
	c := &providerCloud{steering: newSteering(s.serviceCIDRs, b.events, t.addresses), history: newHistory(), changes: newChanges(), configured: newChanges()}
	guest := scrubbed{g.slot, b.name, b.metrics, s.spans, a.allowed, c.history, g.generation.Load}
	c.invoker = async.New(guest, async.Options{
		Foreground: t.config.Ops.Foreground.Duration, OpTimeout: longestOp(t.config), Instances: g.slot.Instances,
		Observer: &opObserver{logger: b.logger, metrics: b.metrics, events: b.events},
	})
	c.provider = provider.New(c.invoker, provider.WithAddresses(c.steering.policy, c.steering.refused), provider.WithInstances(func(instances provider.Instances) cloudprovider.InstancesV2 {
		c.listing = listing.New(instances, listing.Options{Observer: &listingObserver{b.logger, b.metrics.Listing()}, Addresses: c.steering.policy})
		c.brake = newBrake(s, b, c.listing, limits)
		return c.brake
	}))
	c.cloud = s.spans.Cloud(b.name, s.router.Cloud(b.name, c.provider, routing.CloudOptions{
		Client: s.completed.ClientBuilder.ClientOrDie(serviceController), Recorder: b.events,
	}))
	return c
}

func (c *providerCloud) change(_ *v1alpha1.Provider, t terms) {
	c.invoker.SetTimes(t.config.Ops.Foreground.Duration, longestOp(t.config))
	c.steering.set(t.addresses)
	c.listing.Reset() // it holds answers accepted under the earlier terms
	c.changes.tell()
}

// replaced is called when another generation serves.
func (c *providerCloud) replaced() {
	c.history.replaced()
	c.invoker.Reset()
	c.listing.Reset()
}
