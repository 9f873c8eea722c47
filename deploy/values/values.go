package main

import "github.com/wasm-ccm/wasm-ccm/host/config/v1alpha1"

// Values are those of the chart. Their comments are the chart's documentation.
// A HostConfiguration is a file with values, too.
type Values struct {
	// As in a file of the manager's HostConfiguration, which may be given as values.
	APIVersion string `json:"apiVersion,omitempty" jsonschema:"enum=config.wasm-ccm.dev/v1alpha1"`
	// As in a file of the manager's HostConfiguration.
	Kind string `json:"kind,omitempty" jsonschema:"enum=HostConfiguration"`
	// What the manager runs: the providers of its HostConfiguration. Everything else that a
	// provider needs, such as roles, is made from this list.
	Providers []Provider `json:"providers" jsonschema:"maxItems=16"`
	// Providers that are objects of the cluster (CloudProvider), beside those of the list.
	CloudProviders CloudProviders `json:"cloudProviders,omitempty"`
	// What stands between "this machine does not exist" and the deletion of Nodes.
	DeletionBrake v1alpha1.DeletionBrake `json:"deletionBrake,omitempty"`
	// OpenTelemetry spans of what is asked of providers and clouds, and the collector that gets
	// them. {}: none.
	Tracing v1alpha1.Tracing `json:"tracing,omitempty"`
	// A namespace for modules in parts, in which the manager may read every ConfigMap. Put
	// nothing else there. Uninstalling leaves it. "": none.
	ModulesNamespace string `json:"modulesNamespace,omitempty"`

	Image Image `json:"image,omitempty"`
	// DaemonSet: a manager on each control-plane node, one leads; right for one node and for
	// several. Deployment: as many as replicas, on any of the nodes.
	Workload string `json:"workload,omitempty" jsonschema:"enum=DaemonSet,enum=Deployment"`
	// How many managers the Deployment has. On the host network it needs one node more,
	// else no rollout ends.
	Replicas int `json:"replicas,omitempty" jsonschema:"minimum=1"`
	// Of the Deployment: a drain waits for another manager. (A drain leaves a DaemonSet alone.)
	PodDisruptionBudget bool `json:"podDisruptionBudget,omitempty"`

	Routes    Routes    `json:"routes,omitempty"`
	APIServer APIServer `json:"apiServer,omitempty"`
	Ports     Ports     `json:"ports,omitempty"`
	// More flags of the manager, such as --concurrent-service-syncs=4 or -v=2.
	Args []string `json:"args,omitempty"`
	// More variables of the manager's environment, as in a Pod.
	Env []map[string]any `json:"env,omitempty"`
	// More volumes, as in a Pod; for source.directory of a provider.
	Volumes []map[string]any `json:"volumes,omitempty"`
	// Where these volumes are, as in a Pod.
	VolumeMounts []map[string]any `json:"volumeMounts,omitempty"`

	// The manager uses the network of its machine, because it runs before there is another.
	// Only where nothing waits for it, as with a control plane elsewhere, it can be false.
	HostNetwork   bool          `json:"hostNetwork,omitempty"`
	NetworkPolicy NetworkPolicy `json:"networkPolicy,omitempty"`
	// Which nodes may run the manager, as in a Pod's nodeAffinity: control-plane nodes.
	// kubeadm sets the label's value "", others set "true". []: every node.
	NodeSelectorTerms []map[string]any `json:"nodeSelectorTerms,omitempty"`
	// More tolerations, as in a Pod. Those that the manager always needs are in the template.
	Tolerations []map[string]any `json:"tolerations,omitempty"`
	// "": none. Without a high priority other pods may take its place.
	PriorityClassName string `json:"priorityClassName,omitempty"`
	// As in a container.
	Resources map[string]any `json:"resources,omitempty"`
	// Cache is the directory of compiled modules, which a restarted container
	// finds again.
	Cache Cache `json:"cache,omitempty"`
	// A change of these replaces the pods.
	PodAnnotations map[string]string `json:"podAnnotations,omitempty"`

	ServiceMonitor ServiceMonitor `json:"serviceMonitor,omitempty"`
	Alerts         Alerts         `json:"alerts,omitempty"`
	Dashboard      Dashboard      `json:"dashboard,omitempty"`
	// What Helm hands to every chart of a chart. Nothing of it is used.
	Global map[string]any `json:"global,omitempty"`
}

// Cache is the directory of compiled modules.
type Cache struct {
	// What it may take of the node's disk. The manager stays below it: what was not
	// used for the longest time goes first, and a module that finds no room beside
	// what serves is refused. A provider of 80 MB needs 4Gi.
	SizeLimit string `json:"sizeLimit,omitempty"`
}

// Provider is one of the HostConfiguration, with what only a chart can give.
type Provider struct {
	v1alpha1.Provider `json:",inline"`
	// The provider's configuration (config.yaml), as a text: instead of one beside the module,
	// and of configFrom.
	Config string `json:"config,omitempty"`
	// A volume with the module, as in a Pod, such as {configMap: {name: ...}} or
	// {image: {reference: ...}}: instead of a source.
	Volume map[string]any `json:"volume,omitempty"`
}

// CloudProviders are providers that are objects of the cluster.
type CloudProviders struct {
	// The manager reads CloudProviders. The chart installs the kind, and uninstalling leaves it, because
	// the objects would go with it. Whoever may write CloudProviders decides what a provider may reach.
	Enabled bool `json:"enabled,omitempty"`
	// What the manager may read and write for the CloudProviders of these names: RBAC has no
	// name prefixes.
	Rights []Rights `json:"rights,omitempty" jsonschema:"maxItems=16"`
}

// Rights are those that one CloudProvider needs: on its status, its rollouts and its store, on
// the ConfigMaps cloud-provider-NAME and cloud-provider-NAME-config, and on these.
type Rights struct {
	Name string `json:"name"`
	// The store of its spec. "": its name.
	Store string `json:"store,omitempty"`
	// ConfigMaps that its spec names, with modules, with its configuration, or in kube.
	ConfigMaps []v1alpha1.Reference `json:"configMaps,omitempty"`
	// Secrets that its spec names.
	Secrets []v1alpha1.Reference `json:"secrets,omitempty"`
	// kube.endpointSlices of its spec: namespaces, or "*" for all.
	EndpointSlices []string `json:"endpointSlices,omitempty"`
}

// Image is that of the manager.
type Image struct {
	Repository string `json:"repository,omitempty"`
	// "": the version of the chart's application.
	Tag string `json:"tag,omitempty"`
	// sha256:HEX; then the tag has no meaning.
	Digest     string `json:"digest,omitempty" jsonschema:"pattern=^(sha256:[0-9a-f]{64})?$"`
	PullPolicy string `json:"pullPolicy,omitempty" jsonschema:"enum=Always,enum=IfNotPresent,enum=Never"`
	// Names of Secrets, in the namespace of the release.
	PullSecrets []string `json:"pullSecrets,omitempty"`
}

// Routes are those of the pod network through the cloud.
type Routes struct {
	// Not together with a CNI that does its own routing.
	Enabled bool `json:"enabled,omitempty"`
	// As kube-controller-manager has it.
	ClusterCIDR string `json:"clusterCIDR,omitempty"`
}

// APIServer is where the API server is, for nodes on which nothing implements
// the Service kubernetes when the manager starts: no kube-proxy.
type APIServer struct {
	// "": the Service.
	Host string `json:"host,omitempty"`
	Port int    `json:"port,omitempty" jsonschema:"minimum=1,maximum=65535"`
}

// Ports are those of the manager; on the host network they are the machine's.
type Ports struct {
	// HTTPS: /healthz and /metrics.
	Secure int `json:"secure,omitempty" jsonschema:"minimum=1,maximum=65535"`
	// HTTP for the kubelet: /readyz. On the host network it is loopback only.
	Probes int `json:"probes,omitempty" jsonschema:"minimum=1,maximum=65535"`
}

// NetworkPolicy is what may reach the manager, and what it may reach. Without
// hostNetwork only: no policy holds on the host network.
type NetworkPolicy struct {
	Enabled bool `json:"enabled,omitempty"`
	// Who may reach the port with the metrics, as in "from" of a NetworkPolicy. []: nobody.
	From []map[string]any `json:"from,omitempty"`
	// What the manager may reach, as in a NetworkPolicy: the API server, the clouds, DNS. []:
	// everything.
	Egress []map[string]any `json:"egress,omitempty"`
}

// ServiceMonitor is for the Prometheus operator, with the Service that it needs.
type ServiceMonitor struct {
	Enabled  bool   `json:"enabled,omitempty"`
	Interval string `json:"interval,omitempty"`
	// By which Prometheus selects it, such as {release: kube-prometheus-stack}.
	Labels map[string]string `json:"labels,omitempty"`
}

// Alerts are a PrometheusRule for the Prometheus operator.
type Alerts struct {
	Enabled bool              `json:"enabled,omitempty"`
	Labels  map[string]string `json:"labels,omitempty"`
}

// Dashboard is a ConfigMap for Grafana's sidecar.
type Dashboard struct {
	Enabled bool `json:"enabled,omitempty"`
	// By which the sidecar finds it.
	Labels map[string]string `json:"labels,omitempty"`
}
