package explain

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/wasm-ccm/wasm-ccm/host/status/v1alpha1"
)

// postponedFor is how long a provider may postpone an object before it counts
// as stuck, as with the manager's Events.
const postponedFor = time.Minute

// heard explains the control loop's last result. It reports whether that was an
// error.
func heard(e *v1alpha1.Explanation, f Facts) bool {
	h := f.Heard
	if h == nil || h.Cause == "" {
		return false
	}
	since(e, h.Since)
	if h.Cause == NotAskedYet {
		is(e, v1alpha1.StateProgressing, NotAskedYet, "it failed under the previous generation; generation %d serves and has not been asked yet", f.Provider.Generation)
		e.WaitsFor = "its turn: what failed is asked again within seconds, a few objects per second"
		return true
	}
	e.WaitsFor = "the control loop tries again, at the latest 5 minutes after the last time, and at once when the provider or its configuration changes"
	if h.Cause == Postponed {
		postponed(e, f, h)
		return true
	}
	is(e, v1alpha1.StateStuck, h.Cause, "%s", h.Message)
	if host := openBreaker(f.Provider); host != nil && h.Cause == CloudUnavailable {
		breaker(e, host)
		e.Message += "; " + h.Message
		return true
	}
	step := remedies[h.Cause]
	if step.What == "" {
		step = remedies[Failed]
	}
	if step.Command != "" {
		step.Command = fmt.Sprintf(step.Command, f.Namespace)
	}
	e.Next = append(e.Next, step)
	return true
}

func postponed(e *v1alpha1.Explanation, f Facts, h *Heard) {
	state := v1alpha1.StateProgressing
	if f.Now.Sub(h.Since) >= postponedFor {
		state = v1alpha1.StateStuck
	}
	cause := Postponed
	if h.Code == "throttled" {
		cause = Throttled
	}
	is(e, state, cause, "%s", h.Message)
	e.WaitsFor = fmt.Sprintf("it is tried again after %v, at %s", h.RetryAfter.Round(time.Second), clock(h.At.Add(h.RetryAfter)))
	next(e, "ccmctl why provider "+f.Provider.Name, "wait; if it takes too long, look at the cloud's own console, and at the provider")
}

// remedies are a person's options for each cause; %s is the manager's namespace.
var remedies = map[string]v1alpha1.Step{
	AddressRefused: {What: "the provider's answer would redirect the cluster's traffic. If the address is right, allow it in providers[].addresses.allow of the values; else mend the provider or the inventory",
		Command: "helm -n %s get values ccm"},
	Forbidden: {What: "give the manager the right that the message names; with the chart, install this release again",
		Command: "helm -n %s upgrade ccm deploy/chart --reset-then-reuse-values"},
	NotGranted: {What: "the module asks for what is not granted. If it should have it, add it to providers[].grants (or capabilities) of the values",
		Command: "helm -n %s get values ccm"},
	CredentialsRefused: {What: "the cloud does not accept the credentials: correct the Secret that providers[].credentials names; it is taken up at once",
		Command: "helm -n %s get values ccm"},
	CloudUnavailable: {What: "the cloud cannot be reached, or fails: look at its own console, and at the calls that fail",
		Command: "ccmctl --manager-namespace %s status -o wide"},
	Throttled: {What: "the cloud limits requests: lower providers[].requests of the values, or have the limit raised",
		Command: "helm -n %s get values ccm"},
	Refused: {What: "the provider refuses what is asked: correct what the message names (an annotation, a port, the provider's configuration)",
		Command: "kubectl -n %s get events --field-selector type=Warning"},
	MachineUnknown: {What: "the provider knows no machine of this name or provider ID: add it to the inventory, or correct the Node's name or its kubelet's --provider-id",
		Command: "kubectl -n %s get configmap -l wasm-ccm.dev/provider"},
	NoAnswer: {What: "the module crashed, or its time was over: read what it wrote; providers[].ops.timeouts of the values gives an op more time",
		Command: "kubectl -n %s logs -l app.kubernetes.io/name=cloud-controller-manager --tail=200"},
	ImplementedElsewhere: {What: "the provider says that another controller makes this load balancer: look at that one"},
	NotImplemented:       {What: "the module cannot do this: another one may"},
	NothingServes:        {What: "see why the provider serves nothing", Command: "kubectl -n %s get configmap -l wasm-ccm.dev/provider -L wasm-ccm.dev/phase,wasm-ccm.dev/reason"},
	Failed: {What: "correct what the message names; the log has more",
		Command: "kubectl -n %s logs -l app.kubernetes.io/name=cloud-controller-manager --tail=200"},
}

// openBreaker is a host of the provider's cloud with an open breaker, or nil.
func openBreaker(p *v1alpha1.Provider) *v1alpha1.Host {
	for i := range p.Hosts {
		if p.Hosts[i].Breaker != "closed" {
			return &p.Hosts[i]
		}
	}
	return nil
}

// breaker explains the effect of an open breaker.
func breaker(e *v1alpha1.Explanation, host *v1alpha1.Host) {
	is(e, v1alpha1.StateStuck, Breaker, "nothing is sent to %s, because requests to it failed (the breaker is %s); the last: %s", host.Host, host.Breaker, orNone(host.LastFault))
	if !host.Until.IsZero() {
		e.WaitsFor = "one request is let through at " + clock(host.Until.Time)
	}
	next(e, "ccmctl status -o wide", "look at the cloud's own console: the manager sends again when a request succeeds")
}

// lost is a condition with status False, or nil.
func lost(conditions []metav1.Condition, kind string) *metav1.Condition {
	for i := range conditions {
		if conditions[i].Type == kind && conditions[i].Status == metav1.ConditionFalse {
			return &conditions[i]
		}
	}
	return nil
}
