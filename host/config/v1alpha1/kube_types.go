package v1alpha1

// Kube is what a provider may read of the cluster's objects, and change of the
// object that an op is about: the capability kube.
type Kube struct {
	// Nodes: all Nodes may be read.
	Nodes bool `json:"nodes,omitempty"`
	// Services and EndpointSlices: namespaces whose objects may be read, or "*" alone.
	Services       []string `json:"services,omitempty"`
	EndpointSlices []string `json:"endpointSlices,omitempty"`
	// ConfigMaps and Secrets that may be read. A Secret that the host adds to requests of any
	// provider is refused.
	ConfigMaps []Reference `json:"configMaps,omitempty"`
	Secrets    []Reference `json:"secrets,omitempty"`
	// Annotations and Labels that the provider may set and remove on the op's Service or Node:
	// example.com/pool, or a domain, example.com/*. Keys of wasm-ccm.dev, kubernetes.io, k8s.io
	// and x-k8s.io are refused, except kubernetes.io/description.
	Annotations []string `json:"annotations,omitempty"`
	Labels      []string `json:"labels,omitempty"`
}

// Granted reports whether there is anything that the provider may do.
func (k *Kube) Granted() bool {
	return k.Nodes || len(k.Services)+len(k.EndpointSlices)+len(k.ConfigMaps)+len(k.Secrets)+len(k.Annotations)+len(k.Labels) > 0
}
