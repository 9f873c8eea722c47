package manager

import cloudprovider "k8s.io/cloud-provider"

// providerFlag is the default of --cloud-provider, which upstream requires. It
// selects nothing here: the module determines the cloud.
const providerFlag = "wasm"

// leader is the cloudprovider.Interface for upstream's command, which
// initialises it when this manager begins to lead. It has no other function:
// the control loops use the clouds of their providers, which come and go.
type leader struct{ lead func() }

// Initialize is called once, after leader election.
func (l leader) Initialize(cloudprovider.ControllerClientBuilder, <-chan struct{}) { l.lead() }

// LoadBalancer and the other methods return false, ProviderName that of
// --cloud-provider.
func (leader) LoadBalancer() (cloudprovider.LoadBalancer, bool) { return nil, false }

// Instances implements cloudprovider.Interface.
func (leader) Instances() (cloudprovider.Instances, bool) { return nil, false }

// InstancesV2 implements cloudprovider.Interface.
func (leader) InstancesV2() (cloudprovider.InstancesV2, bool) { return nil, false }

// Zones implements cloudprovider.Interface.
func (leader) Zones() (cloudprovider.Zones, bool) { return nil, false }

// Clusters implements cloudprovider.Interface.
func (leader) Clusters() (cloudprovider.Clusters, bool) { return nil, false }

// Routes implements cloudprovider.Interface.
func (leader) Routes() (cloudprovider.Routes, bool) { return nil, false }

// ProviderName implements cloudprovider.Interface.
func (leader) ProviderName() string { return providerFlag }

// HasClusterID implements cloudprovider.Interface; the loaders of the providers
// check their guests.
func (leader) HasClusterID() bool { return true }
