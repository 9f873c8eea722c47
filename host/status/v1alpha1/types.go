package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// APIVersion is that of every answer.
	APIVersion = "status.wasm-ccm.dev/v1alpha1"
	// PathPrefix is that of all paths. It is not below /apis: every user of a
	// cluster may get what is there (ClusterRole system:discovery).
	PathPrefix = "/wasm-ccm/"
	// StatusPath answers a Status.
	StatusPath = PathPrefix + "v1alpha1/status"
	// WhyPath answers an Explanation.
	WhyPath = PathPrefix + "v1alpha1/why"
	// CallsPath answers Calls.
	CallsPath = PathPrefix + "v1alpha1/calls"
	// ReachabilityPath answers a Reachability.
	ReachabilityPath = PathPrefix + "v1alpha1/reachability"
	// PagePath shows a Status to people, in HTML.
	PagePath = PathPrefix + "status"
	// WhyPagePath shows an Explanation.
	WhyPagePath = PathPrefix + "why"
	// CallsPagePath shows Calls.
	CallsPagePath = PathPrefix + "calls"
)

// Bounds of the answers. What is beyond them is left out.
const (
	// MaxText is how long a text may be, in bytes of UTF-8.
	MaxText = 1 << 10
	// MaxStuck is how many objects of one provider a Status names.
	MaxStuck = 50
	// MaxHosts is how many hosts of one provider a Status names, and a manager connects
	// to for a Reachability.
	MaxHosts = 64
	// MaxCalls is how many of the latest calls an answer has, of all providers
	// together.
	MaxCalls = 256
	// MaxCallCounts is how many kinds of calls an answer counts.
	MaxCallCounts = 256
	// MaxPath is how long a path of a call may be, in bytes of UTF-8.
	MaxPath = 512
	// MaxAnswer bounds a whole answer, in bytes.
	MaxAnswer = 4 << 20
)

// Status is what a manager knows of itself and of its providers.
type Status struct {
	metav1.TypeMeta `json:",inline"`
	// Time is that of the answer, by the manager's clock.
	Time    metav1.Time `json:"time"`
	Manager Manager     `json:"manager"`
	// Providers are those that are configured, in the order of the configuration.
	Providers []Provider `json:"providers"`
	// Nobodys are Services and Nodes that wait for a provider that there is not, at most
	// MaxStuck.
	Nobodys []Explanation `json:"nobodys,omitempty"`
}

// Manager is one process. Of several one leads, and the others wait (standby).
type Manager struct {
	// Version is that of the release.
	Version string `json:"version"`
	// Host is the name of the machine or the Pod, with the manager's port.
	Host string `json:"host"`
	// Leads says whether this manager runs the control loops. A standby knows its
	// modules, and nothing of the objects.
	Leads bool `json:"leads"`
	// Holder is who holds the Lease, as HOST_UID; "" while nobody does, or the API
	// server does not say.
	Holder string `json:"holder,omitempty"`
	// Lease is NAMESPACE/NAME; "" without leader election.
	Lease string `json:"lease,omitempty"`
	// Started is when this manager began.
	Started metav1.Time `json:"started"`
	// Namespace is that of the ConfigMaps with statuses and stores.
	Namespace string `json:"namespace"`
}

// Provider is one entry of providers[] in the HostConfiguration.
type Provider struct {
	Name string `json:"name"`
	// Phase, Reason, Message and Since are of the module that is offered; deploy/docs/upgrade.md
	// has the phases.
	Phase   string      `json:"phase,omitempty"`
	Reason  string      `json:"reason,omitempty"`
	Message string      `json:"message,omitempty"`
	Since   metav1.Time `json:"since,omitzero"`
	// Generation counts the takeovers.
	Generation int64 `json:"generation"`
	// Paused says that a person lets no other generation serve.
	Paused bool `json:"paused,omitempty"`
	// Source is where its modules come from: a ConfigMap, an Image whose name is its
	// reference, or a Directory whose name is its path.
	Source *Object `json:"source,omitempty"`
	// Serving serves, Offered is in the source, Candidate is on its way, Good was
	// kept last.
	Serving   *Module `json:"serving,omitempty"`
	Offered   *Module `json:"offered,omitempty"`
	Candidate *Module `json:"candidate,omitempty"`
	Good      *Module `json:"good,omitempty"`
	// Conditions are those of the provider's status.
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// Loops are the control loops. A standby has none.
	Loops []Loop `json:"loops,omitempty"`
	// Ops are the requests to the module that run now, or are held back.
	Ops Ops `json:"ops"`
	// Latest is the op about an object that ended last; nil if none did.
	Latest *ObjectOp `json:"latest,omitempty"`
	// Hosts are the hosts of the cloud to which requests were sent.
	Hosts []Host `json:"hosts,omitempty"`
	// Brake is the deletion brake; nil in a standby.
	Brake *Brake `json:"brake,omitempty"`
	// Services and Nodes count the objects of the provider; nil in a standby.
	Services *Objects `json:"services,omitempty"`
	Nodes    *Objects `json:"nodes,omitempty"`
	// Routes count the Nodes of the provider that get a route; nil where it makes none.
	Routes *Objects `json:"routes,omitempty"`
	// Volumes count the PersistentVolumes of the provider; nil where it labels none.
	Volumes *Objects `json:"volumes,omitempty"`
	// Stuck are objects that are not as they should be, Nodes and their routes first, then
	// Services, by their names, at most MaxStuck.
	Stuck []Explanation `json:"stuck,omitempty"`
}

// Module is one generation's module. Digests are SHA-256 in hexadecimal.
type Module struct {
	Name    string `json:"name,omitempty"`
	Version string `json:"version,omitempty"`
	Digest  string `json:"digest,omitempty"`
	// ConfigDigest is that of the configuration; "" of a private one.
	ConfigDigest string `json:"configDigest,omitempty"`
	// Revision tells apart generations with the same module, such as on other grants.
	Revision string `json:"revision,omitempty"`
	// ImageDigest is that of the image that the module was in, sha256:HEX.
	ImageDigest string `json:"imageDigest,omitempty"`
	// Engine is what runs the module: wazero or wasmtime.
	Engine string `json:"engine,omitempty"`
}

// Loop is a control loop of a provider.
type Loop struct {
	// Name is as in --controllers.
	Name    string `json:"name"`
	Running bool   `json:"running"`
	// Reason is why it does not run.
	Reason string `json:"reason,omitempty"`
	// Off says that it is not to run: no mistake.
	Off bool `json:"off,omitempty"`
}

// Ops counts requests to the module.
type Ops struct {
	Running int `json:"running"`
	// Background are those of Running for which no control loop waits.
	Background int `json:"background"`
	// BackedOff are objects about which the module is not asked for a while,
	// because it crashed or gave no answer.
	BackedOff int `json:"backedOff"`
}

// Host is a host of the cloud.
type Host struct {
	// Host is HOST:PORT as the grant has it, with its wildcard.
	Host string `json:"host"`
	// Breaker is closed, half-open or open; nothing is sent while it is open.
	Breaker string `json:"breaker"`
	// Until is when an open breaker lets a request through, or when the pause ends
	// that the host asked for.
	Until metav1.Time `json:"until,omitzero"`
	// LastFault is why the last request failed.
	LastFault string `json:"lastFault,omitempty"`
}

// Brake is the state of a deletion brake.
type Brake struct {
	// Engaged says that Nodes wait for permits.
	Engaged bool `json:"engaged"`
	// Gone of Nodes are those whose machines do not exist, as the provider says.
	Gone  int `json:"gone"`
	Nodes int `json:"nodes"`
	// Permits are how many Nodes may be deleted now.
	Permits int `json:"permits"`
}

// Objects counts objects of one kind.
type Objects struct {
	Total int `json:"total"`
	Stuck int `json:"stuck"`
}
