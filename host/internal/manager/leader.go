package manager

import (
	"sync"

	cloudprovider "k8s.io/cloud-provider"
)

// leader is the cloudprovider.Interface that upstream's command holds, which
// initialises it when this manager begins to lead. It has nothing else: the
// control loops have the clouds of their providers, and these come and go.
type leader struct{ lead func() }

// cloud returns what upstream's command holds.
func (m *manager) cloud() cloudprovider.Interface { return leader{sync.OnceFunc(m.lead)} }

// Initialize is called once, after leader election.
func (l leader) Initialize(cloudprovider.ControllerClientBuilder, <-chan struct{}) { l.lead() }

// LoadBalancer and the others say that there is none, ProviderName is that of
// --cloud-provider.
func (leader) LoadBalancer() (cloudprovider.LoadBalancer, bool) { return nil, false }

// Instances is cloudprovider.Interface's.
func (leader) Instances() (cloudprovider.Instances, bool) { return nil, false }

// InstancesV2 is cloudprovider.Interface's.
func (leader) InstancesV2() (cloudprovider.InstancesV2, bool) { return nil, false }

// Zones is cloudprovider.Interface's.
func (leader) Zones() (cloudprovider.Zones, bool) { return nil, false }

// Clusters is cloudprovider.Interface's.
func (leader) Clusters() (cloudprovider.Clusters, bool) { return nil, false }

// Routes is cloudprovider.Interface's.
func (leader) Routes() (cloudprovider.Routes, bool) { return nil, false }

// ProviderName is cloudprovider.Interface's.
func (leader) ProviderName() string { return providerFlag }

// HasClusterID is cloudprovider.Interface's; the loaders of the providers ask
// their guests.
func (leader) HasClusterID() bool { return true }
