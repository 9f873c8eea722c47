package report

// Reasons of Events, in the groups of deploy/EVENTS.md. A phase's is OfPhase.
const (
	ProviderServing              = "ProviderServing"
	ProviderRejected             = "ProviderRejected"
	ProviderPhaseFailed          = "ProviderPhaseFailed"
	ProviderConfigurationWarning = "ProviderConfigurationWarning"
	ServingModuleNotAdmitted     = "ServingModuleNotAdmitted"
	ProviderSourceUnavailable    = "ProviderSourceUnavailable"
	ProviderSourceAvailable      = "ProviderSourceAvailable"
	ProviderNotDurable           = "ProviderNotDurable"
	HostConfigurationAccepted    = "HostConfigurationAccepted"
	HostConfigurationPending     = "HostConfigurationPending"
	HostConfigurationRejected    = "HostConfigurationRejected"

	ProviderPaused            = "ProviderPaused"
	ProviderResumed           = "ProviderResumed"
	ProviderPromoted          = "ProviderPromoted"
	ProviderRollbackRequested = "ProviderRollbackRequested"
	ProviderCommandRefused    = "ProviderCommandRefused"
	ProviderRemoved           = "ProviderRemoved"

	ProviderInProgress       = "ProviderInProgress"
	ProviderDelayed          = "ProviderDelayed"
	ProviderNoAnswer         = "ProviderNoAnswer"
	ProviderBackoff          = "ProviderBackoff"
	NoProvider               = "NoProvider"
	LoadBalancerClassDecides = "LoadBalancerClassDecides"
	LoadBalancerNotMoved     = "LoadBalancerNotMoved"
	AnnotationNotRead        = "AnnotationNotRead"
	NodeNotInitialized       = "NodeNotInitialized"
	ProviderMetadataRefused  = "ProviderMetadataRefused"
	DeletionHeld             = "DeletionHeld"
	DeletionBrakeEngaged     = "DeletionBrakeEngaged"
	DeletionBrakeReleased    = "DeletionBrakeReleased"
	DeletionBrakeFailing     = "DeletionBrakeFailing"
	CannotStart              = "CannotStart"
)

// OfPhase returns the reason of the Event of a rollout's phase.
func OfPhase(phase string) string { return "Provider" + phase }

// Type of an Event, as in EVENTS.md.
type Type string

// Types.
const (
	Normal  Type = "Normal"
	Warning Type = "Warning"
	Either  Type = "Normal or Warning"
)

// Event is a reason with its words.
type Event struct {
	Reason string
	Type   Type
	// When it is made, with links relative to deploy/.
	When string
}

// Group has the Events about the same objects.
type Group struct {
	// About names the objects.
	About  string
	Events []Event
}

// Events are all of them, in the order of deploy/EVENTS.md.
func Events() []Group {
	return []Group{
		{"On the module's ConfigMap or, without one, `wasm-ccm-provider-NAME`; of a CloudProvider also on the object:", []Event{
			{OfPhase("Verified"), Normal, "it is well-formed, and granted what it needs"},
			{OfPhase("Compiled"), Normal, "it is compiled"},
			{OfPhase("Described"), Normal, "it has described its ops"},
			{OfPhase("Configured"), Normal, "it has accepted its configuration"},
			{OfPhase("Probed"), Normal, "it has reached its cloud"},
			{OfPhase("Shadowed"), Normal, "it answers as the serving module does"},
			{ProviderServing, Either, "it serves; Warning: it fails, and there is nothing to go back to"},
			{OfPhase("Kept"), Normal, "it has passed its observation"},
			{ProviderPhaseFailed, Warning, "a phase that is `Allowed` to fail has failed"},
			{ProviderRejected, Warning, "it cannot serve, and the previous one continues: correct what the message names (also on the object of `configFrom`)"},
			{OfPhase("Held"), Warning, "its answers differ: [promote it](docs/roll-back.md), or offer another"},
			{OfPhase("RolledBack"), Either, "the previous one serves again; Normal: on request"},
			{ProviderConfigurationWarning, Warning, "an entry of the configuration looks wrong"},
			{ServingModuleNotAdmitted, Warning, "it does not satisfy `provenance`, and a restart would not load it: [sign or pin it](docs/sign.md)"},
			{ProviderSourceUnavailable, Warning, "the registry cannot be asked, and is tried again"},
			{ProviderSourceAvailable, Normal, "the registry answers again"},
			{ProviderNotDurable, Warning, "it could not be saved (too large, a missing right): a restart begins with the source"},
			{HostConfigurationAccepted, Normal, "the changed file is in force again"},
			{HostConfigurationPending, Normal, "the changed file waits for something; it is tried every 10 seconds"},
			{HostConfigurationRejected, Warning, "the previous file is in force: [correct it](docs/configure.md) before a manager restarts"},
		}},
		{"On `wasm-ccm-provider-NAME`:", []Event{
			{ProviderPaused, Normal, "somebody set the annotation `pause`"},
			{ProviderResumed, Normal, "somebody removed it"},
			{ProviderPromoted, Normal, "somebody promoted a generation"},
			{ProviderRollbackRequested, Normal, "somebody asked for the previous generation"},
			{ProviderCommandRefused, Warning, "an annotation is misspelt or asks for the impossible"},
			{ProviderRemoved, Normal, "it left the configuration: [what stays](docs/two-clouds.md#add-remove-rename)"},
		}},
		{"On Services, Nodes, the namespace and the lease:", []Event{
			{ProviderInProgress, Normal, "an op takes more than " + words(SlowAfter)},
			{ProviderDelayed, Warning, "it takes more than " + words(DelayedAfter) + "; the message has the provider's last words"},
			{ProviderNoAnswer, Warning, "the provider crashed or its time was over: the message names the setting"},
			{ProviderBackoff, Warning, "so three times: this object is tried again after a pause"},
			{NoProvider, Warning, "the object is left alone: [name a provider](docs/two-clouds.md#an-object-without-a-provider)"},
			{LoadBalancerClassDecides, Warning, "its [class](docs/two-clouds.md#classes) decides, not its annotation"},
			{LoadBalancerNotMoved, Warning, "its load balancer stays with its provider: [move it](docs/two-clouds.md#move-a-service)"},
			{AnnotationNotRead, Warning, "an annotation or label of `wasm-ccm.dev` is misspelt or misplaced"},
			{NodeNotInitialized, Warning, "a Node keeps its taint: its machine is unknown, or `--node-ip` is not one of its addresses"},
			{ProviderMetadataRefused, Warning, "an [address or name](docs/addresses.md) is refused; the previous one stays"},
			{DeletionHeld, Either, "a Node stays although its machine is said to be gone; Normal: by `node-deletion=Never`. `NotYetKnown`: list the machine. With a live kubelet: shut it down"},
			{DeletionBrakeEngaged, Warning, "many Nodes [wait for their deletion](docs/node-deletion.md)"},
			{DeletionBrakeReleased, Normal, "none waits any more"},
			{DeletionBrakeFailing, Warning, "the brake cannot read kubelets' Leases or write its record, so it deletes nothing: run `helm upgrade` again. Or `deletion-brake-lifted-until` is no time"},
			{CannotStart, Warning, "a manager ended at its start, mostly by an invalid [`--config`](docs/configure.md)"},
		}},
	}
}
