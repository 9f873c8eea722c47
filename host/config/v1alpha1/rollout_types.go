package v1alpha1

import (
	"encoding/json"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// PhaseMode is what a phase of a rollout decides.
type PhaseMode string

// The modes of a phase.
const (
	// PhaseRequired stops the rollout when the phase fails.
	PhaseRequired PhaseMode = "Required"
	// PhaseAllowed runs the phase; a failure is only reported.
	PhaseAllowed PhaseMode = "Allowed"
	// PhaseOff leaves the phase out.
	PhaseOff PhaseMode = "Off"
)

// UnmarshalJSON implements json.Unmarshaler. YAML 1.1 takes a bare Off for
// false, and On for true, which validation refuses with its path.
func (m *PhaseMode) UnmarshalJSON(data []byte) error {
	switch string(data) {
	case "false":
		*m = PhaseOff
		return nil
	case "true":
		*m = "true"
		return nil
	}
	return json.Unmarshal(data, (*string)(m))
}

// Rollout is how a new generation (module, configuration, and entry in this file) takes over.
type Rollout struct {
	// Probe lets it check itself and its cloud before it serves. Default Required.
	Probe PhaseMode `json:"probe,omitempty"`
	// Shadow asks it, before it serves, about objects of this cluster, and compares its answers
	// with the serving generation's. Only reads are sent. Required holds it if answers differ.
	// Default Required.
	Shadow PhaseMode `json:"shadow,omitempty"`
	// Observe watches it while it serves; over ErrorBudget the previous generation serves again.
	// Default Required.
	Observe PhaseMode `json:"observe,omitempty"`
	// ShadowSamples is how many recent ops are asked again with the recorded responses of the
	// cloud, 1 to 1000. Default 64.
	ShadowSamples int `json:"shadowSamples,omitempty"`
	// ObservePeriod is how long it is observed before it is kept, 1s to 24h. Default 2m.
	ObservePeriod metav1.Duration `json:"observePeriod,omitempty"`
	ErrorBudget   ErrorBudget     `json:"errorBudget,omitempty"`
}

// ErrorBudget is how many ops may fail during the observation: above both limits it is rolled back.
// Only traps, deadlines, undecodable answers and internal errors count.
type ErrorBudget struct {
	// Failures is a number of ops, 0 to 1000000. Default 3.
	Failures *int `json:"failures,omitempty"`
	// Percent of the ops so far, on top of the previous generation's share of failures, 0 to 100.
	// Default 5.
	Percent *int `json:"percent,omitempty"`
}

// Provenance restricts the accepted modules. A module must satisfy every given field. None: every
// module of the source is accepted.
type Provenance struct {
	// Digests of accepted modules, uncompressed: sha256:HEX. At most 64.
	Digests []string `json:"digests,omitempty"`
	// PublicKeys in PEM (PKIX; ECDSA on P-256, P-384 or P-521, Ed25519, RSA of 2048 to 8192 bits),
	// one of which must have signed the module. At most 64.
	PublicKeys []string `json:"publicKeys,omitempty"`
	// Repository that the signature of the image names, HOST/PATH. A signature beside the module
	// names none, and is refused.
	Repository string `json:"repository,omitempty"`
	// MinimumVersion is the least semantic version in a signed module's manifest.
	MinimumVersion string `json:"minimumVersion,omitempty"`
}

// Routing is which objects belong to the provider. A single provider without routing has all. An
// object of no provider is left alone.
type Routing struct {
	Nodes    NodeRouting    `json:"nodes,omitempty"`
	Services ServiceRouting `json:"services,omitempty"`
	Volumes  VolumeRouting  `json:"volumes,omitempty"`
}

// NodeRouting is Nodes whose ProviderID has one of its schemes, and Nodes without a ProviderID that
// have the label wasm-ccm.dev/provider=NAME.
type NodeRouting struct {
	// Schemes before :// in a ProviderID. Default: the provider's name.
	Schemes []string `json:"schemes,omitempty"`
	// Ask the provider whether it knows a Node that has neither a ProviderID nor the label.
	Ask bool `json:"ask,omitempty"`
}

// ServiceRouting adds Services to those with the annotation wasm-ccm.dev/provider=NAME, which has
// no effect on a Service with a class.
type ServiceRouting struct {
	// Default takes the Services that name no provider and no class. Only one provider may.
	Default bool `json:"default,omitempty"`
	// Classes are values of spec.loadBalancerClass, e.g. example.com/internal-vip. At most 16,
	// each of one provider only. Other classes belong to other controllers.
	Classes []string `json:"classes,omitempty"`
}

// VolumeRouting is which PersistentVolumes belong to the provider.
type VolumeRouting struct {
	// Drivers are names of CSI drivers.
	Drivers []string `json:"drivers,omitempty"`
	// Schemes before :// in a volume's handle. Default: the provider's name.
	Schemes []string `json:"schemes,omitempty"`
}

// NodeSchemes returns the schemes of the provider's Nodes: those that are
// given, else its name.
func (p *Provider) NodeSchemes() []string { return orName(p.Routing.Nodes.Schemes, p.Name) }

// VolumeSchemes returns the schemes of the provider's volumes: those that are
// given, else its name.
func (p *Provider) VolumeSchemes() []string { return orName(p.Routing.Volumes.Schemes, p.Name) }

func orName(schemes []string, name string) []string {
	if len(schemes) > 0 {
		return schemes
	}
	return []string{name}
}
