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
// false, and On for true, which Validate refuses with its path.
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

// Rollout configures how a new generation of a provider takes over. A
// generation is the module, its configuration and its entry in this file.
type Rollout struct {
	// Probe lets the provider check itself and its cloud before it serves.
	// Default Required.
	Probe PhaseMode `json:"probe,omitempty"`
	// Shadow asks it, before it serves, about objects of this cluster, and compares
	// its answers with those of what serves. Nothing is changed by that: of its
	// requests only reads are sent. Required holds it where answers differ.
	// Default Required.
	Shadow PhaseMode `json:"shadow,omitempty"`
	// Observe watches it while it serves; over ErrorBudget the previous
	// generation serves again. Default Required.
	Observe PhaseMode `json:"observe,omitempty"`
	// ShadowSamples is how many recent ops are asked again, with recorded
	// answers of the cloud, 1 to 1000. Default 64.
	ShadowSamples int `json:"shadowSamples,omitempty"`
	// ObservePeriod is how long a generation is observed before it is kept, 1s
	// to 24h. Default 2m.
	ObservePeriod metav1.Duration `json:"observePeriod,omitempty"`
	ErrorBudget   ErrorBudget     `json:"errorBudget,omitempty"`
}

// ErrorBudget is the number of failed ops that an observed generation may have:
// above both limits it is rolled back. Only failures of the provider itself
// count: traps, deadlines, undecodable answers and internal errors.
type ErrorBudget struct {
	// Failures is a number of ops, 0 to 1000000. Default 3.
	Failures *int `json:"failures,omitempty"`
	// Percent is a share of the ops so far, on top of the share that failed with
	// the generation before, 0 to 100. Default 5.
	Percent *int `json:"percent,omitempty"`
}

// Provenance restricts the accepted modules. A module must satisfy every given
// list; without lists every module of the source is accepted.
type Provenance struct {
	// Digests are those of accepted modules, uncompressed: sha256:HEX. At most
	// 64.
	Digests []string `json:"digests,omitempty"`
	// PublicKeys are keys in PEM (PKIX; ECDSA on P-256, P-384 or P-521, Ed25519,
	// RSA of 2048 to 8192 bits), one of which has to have signed the module. At
	// most 64.
	PublicKeys []string `json:"publicKeys,omitempty"`
}

// Routing is which objects belong to a provider. It matters where there are
// several: the objects of a single one without routing are all. An object of
// none is left alone.
type Routing struct {
	Nodes    NodeRouting    `json:"nodes,omitempty"`
	Services ServiceRouting `json:"services,omitempty"`
	Volumes  VolumeRouting  `json:"volumes,omitempty"`
}

// NodeRouting selects the Nodes of a provider: Nodes whose ProviderID has one
// of its schemes, and Nodes without a ProviderID that have the label
// wasm-ccm.dev/provider=NAME.
type NodeRouting struct {
	// Schemes are what stands before :// in a ProviderID. Default: the
	// provider's name.
	Schemes []string `json:"schemes,omitempty"`
	// Ask lets the host ask this provider whether it knows a Node that has
	// neither a ProviderID nor the label.
	Ask bool `json:"ask,omitempty"`
}

// ServiceRouting is which Services belong to a provider beside those that say
// so by the annotation wasm-ccm.dev/provider=NAME, which says nothing where there
// is a class.
type ServiceRouting struct {
	// Default takes the Services that name no provider and no class. At most one
	// provider may.
	Default bool `json:"default,omitempty"`
	// Classes takes the Services with one of these as their
	// spec.loadBalancerClass, e.g. internal-vip or example.com/internal-vip. At
	// most 16, each of one provider only. A single provider with nothing but
	// classes has all Services without a class, too. Services of any other class
	// are of other controllers.
	Classes []string `json:"classes,omitempty"`
}

// VolumeRouting is which PersistentVolumes belong to a provider.
type VolumeRouting struct {
	// Drivers are the names of CSI drivers.
	Drivers []string `json:"drivers,omitempty"`
	// Schemes are what stands before :// in a volume's handle. Default: the
	// provider's name.
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
