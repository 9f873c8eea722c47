package report

import "slices"

// Causes of what does not go on, in the CamelCase of Events: ccmctl status, why and
// check and the metric wasm_ccm_stuck have the same. A rollout's causes are its own
// reasons.
const (
	NotALoadBalancer     = "NotALoadBalancer"
	OtherController      = "OtherController"
	NothingServes        = "NothingServes"
	LoopNotRunning       = "LoopNotRunning"
	RoutesOff            = "RoutesOff"
	InProgress           = "InProgress"
	NotAskedYet          = "NotAskedYet"
	BackedOff            = "BackedOff"
	NoAnswer             = "NoAnswer"
	Postponed            = "Postponed"
	Breaker              = "Breaker"
	AddressRefused       = "AddressRefused"
	Forbidden            = "Forbidden"
	NotGranted           = "NotGranted"
	CredentialsRefused   = "CredentialsRefused"
	CloudUnavailable     = "CloudUnavailable"
	Throttled            = "Throttled"
	Refused              = "Refused"
	Failed               = "Failed"
	ImplementedElsewhere = "ImplementedElsewhere"
	NotImplemented       = "NotImplemented"
	NoNodes              = "NoNodes"
	MachineUnknown       = "MachineUnknown"
	NotHandedOver        = "NotHandedOver"
	Shutdown             = "Shutdown"
	NoPodCIDR            = "NoPodCIDR"
	Paused               = "Paused"
	SourceUnavailable    = "SourceUnavailable"
	NotDurable           = "NotDurable"
	TickFailed           = "TickFailed"
	ModuleSuspected      = "ModuleSuspected"
	ModuleNotMarked      = "ModuleNotMarked"
	RehearsalFailed      = "RehearsalFailed"
	VersionTooOld        = "VersionTooOld"
	DigestNotPinned      = "DigestNotPinned"
	SignatureMissing     = "SignatureMissing"
	SignatureInvalid     = "SignatureInvalid"
	ConditionFalse       = "ConditionFalse"
)

// Cause is why something does not go on.
type Cause struct {
	Reason string
	// Means says it in a line of the documents.
	Means string
	// Next is the first thing to do; "" if it goes on by itself.
	Next Step
	Tell
}

// Tell is how a cause is told.
type Tell struct {
	// Whole: it holds back each object of its provider, and is told once.
	Whole bool
	// Warning: no object is held back now, so it is no error.
	Warning bool
}

// Causes are those of what does not go on, in the order of the documents.
func Causes() []Cause { return slices.Clone(causes) }

// Findings are what only ccmctl check finds, which says it whole.
func Findings() []Cause { return slices.Clone(findings) }

// Find returns a cause of the register. Others' reasons have the next step of Failed.
func Find(reason string) Cause {
	for _, all := range [][]Cause{causes, findings} {
		for i := range all {
			if all[i].Reason == reason {
				return all[i]
			}
		}
	}
	return Cause{Reason: reason, Next: Find(Failed).Next}
}

// Known reports whether a reason is in the register.
func Known(reason string) bool { return Find(reason).Means != "" }

const (
	logs      = "kubectl -n {manager} logs -l app.kubernetes.io/name=cloud-controller-manager --tail=200"
	written   = "kubectl -n {manager} logs -l app.kubernetes.io/name=cloud-controller-manager --tail=-1 | grep 'provider=\"{provider}\"'"
	values    = "helm -n {manager} get values ccm"
	upgrade   = "helm -n {manager} upgrade ccm deploy/chart --reset-then-reuse-values"
	promote   = "ccmctl rollout promote {provider} {digest}"
	whyItself = "ccmctl why provider {provider}"
	verify    = "ccmctl verify MODULE.wasm --key KEY.pub"
	signed    = "sign it as providers[].provenance requires: with one of its keys, and in its repository; or pin its digest there instead"
)

var causes = []Cause{
	{NothingServes, "no module of the provider serves", Step{"see why the provider serves nothing", whyItself}, Tell{Whole: true}},
	{LoopNotRunning, "the control loop does not run for this provider", Step{"see what its module can do, and the manager's flags", whyItself}, Tell{Whole: true}},
	{Breaker, "requests to a host of the cloud failed, and none is sent but one from time to time", Step{"look at the cloud's own console: the manager sends again when a request succeeds", "ccmctl calls --provider {provider}"}, Tell{Whole: true}},
	{HostConfigurationRejected, "the manager's configuration is not in force as it is written", Step{"do what the message says, before the manager restarts", "kubectl -n {manager} get configmap cloud-controller-manager -o yaml"}, Tell{Whole: true}},
	{HostConfigurationPending, "the manager's configuration is valid, and waits for something; it is tried every 10 seconds", Step{}, Tell{Whole: true, Warning: true}},
	{DeletionBrakeEngaged, "the machines of many Nodes are said to be gone, and the Nodes wait", Step{"compare the provider's words with the cloud's own console", whyItself}, Tell{Whole: true}},
	{NoProvider, "no provider has the object", Step{What: "name one"}, Tell{}},
	{NotHandedOver, "the kubelet of the Node runs without `--cloud-provider=external`", Step{"add the taint, and set the kubelet's flag for the next time", "kubectl taint node {name} node.cloudprovider.kubernetes.io/uninitialized=true:NoSchedule"}, Tell{}},
	{MachineUnknown, "the provider knows no machine of this name or provider ID", Step{"compare these with what the cloud, or the provider's inventory, has: add the machine there, or correct its hostname or its kubelet's --provider-id", "kubectl get node {name} -o custom-columns=NAME:.metadata.name,PROVIDERID:.spec.providerID"}, Tell{}},
	{DeletionHeld, "the machine is said to be gone, and the Node stays for now", Step{"if the machine is really gone, wait, or delete the Node; otherwise correct the provider's data", "kubectl delete node {name}"}, Tell{}},
	{Shutdown, "the machine is shut down", Step{}, Tell{}},
	{NoPodCIDR, "the Node has no pod CIDR, so it gets no route", Step{"start kube-controller-manager with --allocate-node-cidrs=true and the same --cluster-cidr", "kubectl -n kube-system get pods -l component=kube-controller-manager -o jsonpath='{..command}'"}, Tell{}},
	{NoNodes, "no Node of the provider is Ready and may be behind a load balancer", Step{"see why no Node is Ready, or why it keeps its taint: ccmctl why node NAME", "kubectl get nodes -l '!node.kubernetes.io/exclude-from-external-load-balancers'"}, Tell{}},
	{NotAskedYet, "its turn has not come", Step{}, Tell{}},
	{InProgress, "an op runs", Step{}, Tell{}},
	{Postponed, "the provider asks for patience, for more than " + words(SlowAfter), Step{"wait; if it takes too long, look at the cloud's own console, and at the provider", whyItself}, Tell{}},
	{Throttled, "the cloud limits requests", Step{"lower providers[].requests of the values, or have the limit raised", values}, Tell{}},
	{CloudUnavailable, "the cloud cannot be reached, or fails", Step{"look at its own console, and at the calls that fail", "ccmctl calls --provider {provider}"}, Tell{}},
	{CredentialsRefused, "the cloud does not accept the credentials", Step{"correct the Secret that providers[].credentials names; it is taken up at once", values}, Tell{}},
	{NotGranted, "the module asks for what is not granted", Step{"if it should have it, add it to providers[].grants (or capabilities) of the values", values}, Tell{}},
	{Forbidden, "the manager lacks a right", Step{"give it the right that the message names; with the chart, install this release again", upgrade}, Tell{}},
	{Refused, "the provider refuses what is asked", Step{"correct what the message names (an annotation, a port, the provider's configuration)", "kubectl get events -A --field-selector type=Warning"}, Tell{}},
	{AddressRefused, "an answer would redirect the cluster's traffic", Step{"if the address is right, allow it in providers[].addresses.allow of the values; else mend the provider or the inventory", values}, Tell{}},
	{NoAnswer, "the module crashed, or its time was over", Step{"read what it wrote; providers[].ops.timeouts of the values gives an op more time", written}, Tell{}},
	{BackedOff, "so three times: the object is tried again after a pause", Step{"read what it wrote, and mend it or its cloud", written}, Tell{}},
	{Failed, "the provider failed", Step{"correct what the message names; the log has more", logs}, Tell{}},
	{NotImplemented, "the module cannot do this", Step{What: "offer another module"}, Tell{}},
	{ImplementedElsewhere, "another controller makes this load balancer", Step{What: "look at that one"}, Tell{}},
	{LoadBalancerNotMoved, "the load balancer stays with its provider", Step{What: "move it, or take the mark of the other provider away"}, Tell{}},
	{OtherController, "the class of the Service is another controller's", Step{"if a provider should serve it, add the class to providers[].routing.services.classes of the values", values}, Tell{}},
	{NotALoadBalancer, "the Service asks for no load balancer", Step{"if it should have one, change its type", "kubectl -n {namespace} patch service {name} -p '{\"spec\":{\"type\":\"LoadBalancer\"}}'"}, Tell{}},
	{RoutesOff, "the manager makes no routes", Step{What: "if the cloud is to route the pod network, set routes.enabled and routes.clusterCIDR in the values"}, Tell{}},
	{Paused, "somebody has paused the provider's rollouts", Step{"resume it", "ccmctl rollout pause {provider} --resume"}, Tell{Warning: true}},
	{SourceUnavailable, "the registry cannot be asked for another module", Step{"correct what the message names: the registry, its name, or the pull Secret", values}, Tell{Warning: true}},
	{NotDurable, "what serves could not be saved: a restart begins with the module of the source", Step{"give the manager the right that the message names; a module that is too large cannot be saved", upgrade}, Tell{}},
	{TickFailed, "the background work of the module failed, and is tried again at its period", Step{"mend what the message names", logs}, Tell{Warning: true}},
	{ServingModuleNotAdmitted, "what serves does not satisfy `provenance`: a restart would not load it", Step{"before the manager restarts, do what the message names: sign or pin the module, or offer a later one", "ccmctl inspect MODULE.wasm"}, Tell{}},
	{ModuleSuspected, "a manager ended while it ran this module and configuration", Step{"if the module was not the cause, have it tried once more; else offer another one", promote}, Tell{}},
	{ModuleNotMarked, "a module is not loaded, as the load cannot be recorded", Step{"see that the API server answers, and give the manager the right that the message names", upgrade}, Tell{}},
	{RehearsalFailed, "the module failed the questions that the host asked it before it serves", Step{"offer another module; or let this one serve anyway", promote}, Tell{}},
	{VersionTooOld, "the module is older than `provenance.minimumVersion`", Step{"offer a module of a later version, or lower providers[].provenance.minimumVersion", "ccmctl digest MODULE.wasm"}, Tell{}},
	{DigestNotPinned, "the module is not pinned", Step{signed, verify}, Tell{}},
	{SignatureMissing, "the module has no signature", Step{signed, verify}, Tell{}},
	{SignatureInvalid, "no key that is demanded has signed the module", Step{signed, verify}, Tell{}},
	{ConditionFalse, "a condition of the provider is False", Step{"see what its message names", whyItself}, Tell{}},
}

// EventsOf is the command that lists the Events of a reason: their objects are in any
// namespace.
func EventsOf(reason string) string {
	return "kubectl get events -A --field-selector reason=" + reason
}
