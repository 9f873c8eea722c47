package main

import "github.com/wasm-ccm/wasm-ccm/host/config/v1alpha1"

// Values are those of the chart. Their comments are the chart's documentation.
// A HostConfiguration is a file with values, too.
type Values struct {
	// As in the manager's HostConfiguration.
	APIVersion string `json:"apiVersion,omitempty" jsonschema:"enum=config.wasm-ccm.dev/v1alpha1"`
	// As apiVersion.
	Kind string `json:"kind,omitempty" jsonschema:"enum=HostConfiguration"`
	// The providers of the manager's HostConfiguration. The chart makes roles and ConfigMaps from
	// this list.
	Providers []Provider `json:"providers" jsonschema:"maxItems=16"`
	// Providers that are objects of the cluster.
	CloudProviders CloudProviders `json:"cloudProviders,omitempty"`
	// What limits the deletion of Nodes.
	DeletionBrake v1alpha1.DeletionBrake `json:"deletionBrake,omitempty"`
	// OpenTelemetry spans of calls to providers and clouds.
	Tracing v1alpha1.Tracing `json:"tracing,omitempty"`
	// A namespace for modules in parts. The manager may read all its ConfigMaps, so put nothing
	// else there. Uninstalling leaves it.
	ModulesNamespace string `json:"modulesNamespace,omitempty"`

	Image Image `json:"image,omitempty"`
	// DaemonSet: on each control-plane node; one leads. Deployment: as many as replicas.
	Workload string `json:"workload,omitempty" jsonschema:"enum=DaemonSet,enum=Deployment"`
	// Of the Deployment. On the host network it needs one node more, else no rollout ends.
	Replicas int `json:"replicas,omitempty" jsonschema:"minimum=1"`
	// Of the Deployment: a drain waits for another manager.
	PodDisruptionBudget bool `json:"podDisruptionBudget,omitempty"`

	Routes    Routes    `json:"routes,omitempty"`
	APIServer APIServer `json:"apiServer,omitempty"`
	Ports     Ports     `json:"ports,omitempty"`
	// More flags of the manager, such as -v=2.
	Args []string `json:"args,omitempty"`
	// More environment variables, as in a Pod.
	Env []map[string]any `json:"env,omitempty"`
	// More volumes, as in a Pod.
	Volumes []map[string]any `json:"volumes,omitempty"`
	// Mounts of these volumes, as in a Pod.
	VolumeMounts []map[string]any `json:"volumeMounts,omitempty"`

	// The manager uses its machine's network. Set false only with a control plane elsewhere.
	HostNetwork   bool          `json:"hostNetwork,omitempty"`
	NetworkPolicy NetworkPolicy `json:"networkPolicy,omitempty"`
	// Nodes that may run the manager, as in a Pod's nodeAffinity. []: every node.
	NodeSelectorTerms []map[string]any `json:"nodeSelectorTerms,omitempty"`
	// More tolerations, as in a Pod, beside those in the template.
	Tolerations []map[string]any `json:"tolerations,omitempty"`
	// "": none.
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
	// Helm's, and unused.
	Global map[string]any `json:"global,omitempty"`
}

// Cache is the directory of compiled modules.
type Cache struct {
	// The least recently used modules go first; a module without room beside the serving ones is
	// refused. A provider of 80 MB needs 4Gi.
	SizeLimit string `json:"sizeLimit,omitempty"`
}

// Provider is one of the HostConfiguration, with what only a chart can give.
type Provider struct {
	v1alpha1.Provider `json:",inline"`
	// The provider's configuration (config.yaml) as a text, instead of one beside the module or
	// configFrom.
	Config string `json:"config,omitempty"`
	// A volume with the module, as in a Pod, instead of a source: {configMap: {name: ...}},
	// {image: {reference: ...}}.
	Volume map[string]any `json:"volume,omitempty"`
}

// CloudProviders are providers that are objects of the cluster.
type CloudProviders struct {
	// The manager reads CloudProviders. The chart installs the kind; uninstalling leaves it.
	// Whoever may write CloudProviders decides what a provider may reach.
	Enabled bool `json:"enabled,omitempty"`
	// The manager's rights for the CloudProviders of these names.
	Rights []Rights `json:"rights,omitempty" jsonschema:"maxItems=16"`
}

// Rights are those that one CloudProvider needs: on its status, its rollouts and its store, on
// the ConfigMaps cloud-provider-NAME and cloud-provider-NAME-config, and on these.
type Rights struct {
	Name string `json:"name"`
	// The store of its spec. "": its name.
	Store string `json:"store,omitempty"`
	// ConfigMaps of its spec: modules, configuration, kube.
	ConfigMaps []v1alpha1.Reference `json:"configMaps,omitempty"`
	// Secrets of its spec.
	Secrets []v1alpha1.Reference `json:"secrets,omitempty"`
	// kube.endpointSlices of its spec.
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

// APIServer is where the API server is, for nodes without kube-proxy, where the Service kubernetes
// is not reachable.
type APIServer struct {
	// "": the Service.
	Host string `json:"host,omitempty"`
	Port int    `json:"port,omitempty" jsonschema:"minimum=1,maximum=65535"`
}

// Ports are the manager's, on the host network those of the machine.
type Ports struct {
	// HTTPS: /healthz and /metrics.
	Secure int `json:"secure,omitempty" jsonschema:"minimum=1,maximum=65535"`
	// HTTP for the kubelet: /readyz. On the host network it is loopback only.
	Probes int `json:"probes,omitempty" jsonschema:"minimum=1,maximum=65535"`
}

// NetworkPolicy is what may reach the manager, and what it may reach. Only without hostNetwork.
type NetworkPolicy struct {
	Enabled bool `json:"enabled,omitempty"`
	// Who may reach the metrics, as "from" of a NetworkPolicy. []: nobody.
	From []map[string]any `json:"from,omitempty"`
	// What the manager may reach, as in a NetworkPolicy: API server, clouds, DNS. []: everything.
	Egress []map[string]any `json:"egress,omitempty"`
}

// ServiceMonitor is for the Prometheus operator, with its Service.
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
