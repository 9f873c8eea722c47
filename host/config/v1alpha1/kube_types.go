package v1alpha1

// Kube is what a provider may read of the cluster's objects, and change of the
// object that an op is about: the capability kube.
type Kube struct {
	// Nodes lets the provider read all Nodes.
	Nodes bool `json:"nodes,omitempty"`
	// Services and EndpointSlices are the namespaces whose objects the provider
	// may read, or "*" alone for all namespaces.
	Services       []string `json:"services,omitempty"`
	EndpointSlices []string `json:"endpointSlices,omitempty"`
	// ConfigMaps and Secrets are the ones that the provider may read. A Secret
	// that the host adds to requests, for this or another provider, cannot be one
	// of them.
	ConfigMaps []Reference `json:"configMaps,omitempty"`
	Secrets    []Reference `json:"secrets,omitempty"`
	// Annotations and Labels are the keys that the provider may set and remove on
	// the Service or Node of the op that runs, e.g. example.com/pool, or all of a
	// domain, as example.com/*. Keys of kubernetes.io and k8s.io must be named
	// one by one; those by which the manager decides cannot be: those of
	// wasm-ccm.dev and node-role.kubernetes.io, topology.kubernetes.io/zone and
	// alpha.kubernetes.io/provided-node-ip.
	Annotations []string `json:"annotations,omitempty"`
	Labels      []string `json:"labels,omitempty"`
}

// Granted reports whether there is anything that the provider may do.
func (k *Kube) Granted() bool {
	return k.Nodes || len(k.Services)+len(k.EndpointSlices)+len(k.ConfigMaps)+len(k.Secrets)+len(k.Annotations)+len(k.Labels) > 0
}
