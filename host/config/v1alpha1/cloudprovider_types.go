package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// CloudProviderKind is the kind of a CloudProvider.
const CloudProviderKind = "CloudProvider"

// CloudProviderResource returns the resource of CloudProviders.
func CloudProviderResource() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "config.wasm-ccm.dev", Version: "v1alpha1", Resource: "cloudproviders"}
}

// CloudProviders is whether providers are also taken from the cluster's
// CloudProvider objects.
type CloudProviders struct {
	// Enabled adds each CloudProvider object to the providers of the file. Whoever
	// may write such objects decides what a provider may reach, as who may
	// write the file does.
	Enabled bool `json:"enabled,omitempty"`
}

// CloudProvider is one provider as an object of the cluster. The manager reads
// it when cloudProviders.enabled is true in its HostConfiguration, and writes its
// status.
//
// +kubebuilder:resource:scope=Cluster,shortName=cprov
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Serving",type=string,JSONPath=`.status.serving.version`,description="The version that serves"
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`,description="Where the rollout of the offered module stands"
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`,description="Whether a module serves"
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.reason`,description="Why the phase is what it is"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="size(self.metadata.name) <= 40 && !self.metadata.name.contains('.')",message="the name must be a DNS label of at most 40 characters: ConfigMaps are named after it"
type CloudProvider struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	// Spec is what a HostConfiguration says of one provider. Its name is that of
	// the object.
	Spec Provider `json:"spec"`
	// Status is written by the manager that leads.
	// +optional
	Status CloudProviderStatus `json:"status,omitzero"`
}

// Types of the conditions of a CloudProvider. Reconciling and Stalled are those
// of kstatus, by which Flux and others know whether an object is done: each is
// there when it is true.
const (
	// ConditionReady is whether a module serves: the offered one or one before it.
	ConditionReady = "Ready"
	// ConditionProgressing is whether a generation is on its way, or observed.
	ConditionProgressing = "Progressing"
	// ConditionDegraded is whether the spec, or what its source offers, is not
	// what serves, and will not be by waiting.
	ConditionDegraded    = "Degraded"
	ConditionReconciling = "Reconciling"
	ConditionStalled     = "Stalled"
)

// CloudProviderStatus is what became of a CloudProvider.
type CloudProviderStatus struct {
	// ObservedGeneration is the metadata.generation that the rest is about.
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Phase, Reason and Message are about what is offered.
	Phase   string `json:"phase,omitempty"`
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
	// Generation counts the takeovers.
	Generation int64 `json:"generation,omitempty"`
	// Paused: nothing new serves until the annotation is gone.
	Paused bool `json:"paused,omitempty"`
	// Offered is the newest of the source, Serving is what the control loops ask,
	// or, where Ready is False, what they asked before a mistake in the spec.
	Offered *ModuleVersion `json:"offered,omitempty"`
	Serving *ModuleVersion `json:"serving,omitempty"`
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// ModuleVersion names a module with its configuration.
type ModuleVersion struct {
	Name    string `json:"name,omitempty"`
	Version string `json:"version,omitempty"`
	// Digest and ConfigDigest are SHA-256 sums in hexadecimal, Digest that of
	// the module, uncompressed. A configuration from a Secret or a file has none.
	Digest       string `json:"digest,omitempty"`
	ConfigDigest string `json:"configDigest,omitempty"`
	// ImageDigest is that of the image that the module was in, sha256:HEX.
	ImageDigest string `json:"imageDigest,omitempty"`
	// Engine is what runs the module.
	Engine string `json:"engine,omitempty"`
}
