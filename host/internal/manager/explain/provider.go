package explain

import (
	"fmt"
	"strings"

	"github.com/wasm-ccm/wasm-ccm/host/internal/text"
	"github.com/wasm-ccm/wasm-ccm/host/status/v1alpha1"
)

// Provider explains the serving module of a provider, and why an offered one does not serve.
func Provider(f Facts) v1alpha1.Explanation {
	p := f.Provider
	e := begin(v1alpha1.KindProvider, "", p.Name, f)
	var findings []v1alpha1.Explanation
	for _, look := range []func(*v1alpha1.Explanation, Facts) bool{rollout, rights, breakers, conditions, brakes} {
		one := begin(v1alpha1.KindProvider, "", p.Name, f)
		if look(&one, f) {
			findings = append(findings, one)
		}
	}
	if len(findings) == 0 {
		is(&e, v1alpha1.StateDone, "", "%s serves what is offered: %s", p.Name, describe(p.Serving))
		since(&e, p.Since.Time)
		return bounded(e)
	}
	e = findings[0]
	for _, other := range findings[1:] {
		e.Also = append(e.Also, v1alpha1.Finding{Cause: other.Cause, Message: other.Message})
		if other.Cause != BrakeEngaged { // another problem may be why machines are reported as gone
			e.Next = append(e.Next, other.Next...)
		}
	}
	return bounded(e)
}

func describe(m *v1alpha1.Module) string {
	if m == nil {
		return "nothing"
	}
	return fmt.Sprintf("%s %s (sha256:%s)", m.Name, m.Version, text.Digest(m.Digest))
}

// rollout explains an offered module that does not serve.
func rollout(e *v1alpha1.Explanation, f Facts) bool {
	p := f.Provider
	since(e, p.Since.Time)
	said := fmt.Sprintf("phase %s", p.Phase)
	if p.Reason != "" {
		said += ", reason " + p.Reason
	}
	if p.Message != "" {
		said += ": " + p.Message
	}
	said += ". It serves " + describe(p.Serving)
	switch p.Phase {
	case v1alpha1.PhaseKept:
		if !p.Paused {
			return false
		}
		is(e, v1alpha1.StateStuck, Paused, "somebody paused it: nothing else serves until it is resumed. It serves %s", describe(p.Serving))
		next(e, "ccmctl rollout pause "+p.Name+" --resume", "resume it")
	case v1alpha1.PhaseRejected:
		is(e, v1alpha1.StateStuck, cause(p), "what is offered cannot serve: %s", said)
		rejected(e, f)
	case v1alpha1.PhaseHeld, v1alpha1.PhaseRolledBack:
		is(e, v1alpha1.StateStuck, cause(p), "what is offered does not serve: %s", said)
		if p.Paused {
			next(e, "ccmctl rollout pause "+p.Name+" --resume", "resume it")
		}
		next(e, fmt.Sprintf("ccmctl rollout promote %s %s", p.Name, offered(p)), "let it serve anyway")
		next(e, "", "or offer another module or configuration")
	case "", v1alpha1.PhaseWaiting:
		is(e, v1alpha1.StateStuck, waiting(p), "it has no module to serve: %s", said)
		next(e, eventsOf("ProviderRejected"), "see whether the source of the module, and the Secrets, are there (providers[].source of the values)")
	default:
		is(e, v1alpha1.StateProgressing, p.Phase, "%s", said)
		going(e, p)
	}
	return true
}

// going explains what a running rollout waits for.
func going(e *v1alpha1.Explanation, p *v1alpha1.Provider) {
	e.WaitsFor = "the rollout continues by itself"
	if p.Phase == v1alpha1.PhaseServing {
		e.WaitsFor = "it is observed for rollout.observePeriod (2 minutes by default); then it is kept, or rolled back"
	}
	if p.Paused {
		e.WaitsFor += "; somebody paused the provider, so nothing else serves"
		next(e, "ccmctl rollout pause "+p.Name+" --resume", "resume it")
	}
}

// eventsOf is the command that lists the Events of a reason: their objects are
// the sources of modules, in any namespace.
func eventsOf(reason string) string {
	return "kubectl get events -A --field-selector reason=" + reason
}

func cause(p *v1alpha1.Provider) string {
	if p.Reason == "" {
		return p.Phase
	}
	return p.Reason
}

func waiting(p *v1alpha1.Provider) string {
	if p.Reason == "" {
		return NothingServes
	}
	return p.Reason
}

func offered(p *v1alpha1.Provider) string {
	if p.Offered == nil {
		return "DIGEST"
	}
	return text.Digest(p.Offered.Digest)
}

// rejected suggests the remedy for a rejected module.
func rejected(e *v1alpha1.Explanation, f Facts) {
	p := f.Provider
	switch {
	case p.Reason == "ModuleSuspected":
		next(e, fmt.Sprintf("ccmctl rollout promote %s %s", p.Name, offered(p)), "if the module was not the cause of the manager's end, have it tried once more; else offer another one")
	case p.Reason == "RehearsalFailed":
		next(e, fmt.Sprintf("ccmctl rollout promote %s %s", p.Name, offered(p)), "offer another module; or let this one serve anyway")
	case p.Reason == "ModuleNotMarked":
		next(e, fmt.Sprintf("helm -n %s upgrade ccm deploy/chart --reset-then-reuse-values", f.Namespace), "see that the API server answers, and give the manager the right that the message names")
	case p.Reason == "VersionTooOld":
		next(e, "ccmctl digest MODULE.wasm", "offer a module of a later version, or lower providers[].provenance.minimumVersion")
	case strings.HasPrefix(p.Reason, "Sign"), strings.Contains(p.Reason, "Provenance"), strings.Contains(p.Reason, "Digest"):
		next(e, "ccmctl verify MODULE.wasm --key KEY.pub", "sign it as providers[].provenance requires: with one of its keys, and in its repository; or pin its digest there instead")
	default:
		next(e, eventsOf("ProviderRejected"), "correct what the message names, and offer it again: the module, its configuration, or the grants in the values. A failed probe is tried again by itself")
	}
}

// rights explains a configuration that is not fully in force.
func rights(e *v1alpha1.Explanation, f Facts) bool {
	c := lost(f.Provider.Conditions, v1alpha1.ConditionConfigured)
	if c == nil {
		return false
	}
	is(e, v1alpha1.StateStuck, HostConfiguration, "the manager's configuration is not in force as written; the previous one stays: %s", c.Message)
	since(e, c.LastTransitionTime.Time)
	next(e, fmt.Sprintf("kubectl -n %s get configmap cloud-controller-manager -o yaml", f.Namespace), "correct the field that the message names, before the manager restarts")
	return true
}

func brakes(e *v1alpha1.Explanation, f Facts) bool {
	b := f.Provider.Brake
	if b == nil || !b.Engaged {
		return false
	}
	is(e, v1alpha1.StateStuck, BrakeEngaged, "the provider says that the machines of %d of %d Nodes do not exist, so Nodes wait for permits; %d may be deleted now", b.Gone, b.Nodes, b.Permits)
	if b.Permits > 0 {
		e.WaitsFor = "the next look of the node lifecycle loop: Nodes that have permits go by themselves"
		return true
	}
	unbrake(e, f, "NODE")
	return true
}

func breakers(e *v1alpha1.Explanation, f Facts) bool {
	host := openBreaker(f.Provider)
	if host == nil {
		return false
	}
	breaker(e, host)
	return true
}

// conditions explains the remaining conditions with status False.
func conditions(e *v1alpha1.Explanation, f Facts) bool {
	p := f.Provider
	for _, known := range []struct{ kind, cause, what, command, step string }{
		{v1alpha1.ConditionSource, SourceUnavailable, "the registry is unavailable; the serving module continues", eventsOf("ProviderSourceUnavailable"), "correct what the message names: the registry, its name, or the pull Secret"},
		{v1alpha1.ConditionDurable, NotDurable, "the serving module could not be saved, so a restart begins with the module of the source", "helm -n %[1]s upgrade ccm deploy/chart --reset-then-reuse-values", "give the manager the right that the message names; a module that is too large cannot be saved"},
		{v1alpha1.ConditionTicked, TickFailed, "the last background work of the module (op tick) failed", "kubectl -n %[1]s logs -l app.kubernetes.io/name=cloud-controller-manager --tail=200", "it is tried again at its period; mend what the message names"},
	} {
		c := lost(p.Conditions, known.kind)
		if c == nil {
			continue
		}
		is(e, v1alpha1.StateStuck, known.cause, "%s: %s: %s", known.what, c.Reason, c.Message)
		since(e, c.LastTransitionTime.Time)
		next(e, fmt.Sprintf(known.command+"%[3]s", f.Namespace, p.Name, ""), "%s", known.step)
		return true
	}
	for _, c := range p.Conditions {
		if c.Type == v1alpha1.ConditionServing && c.Reason == NotAdmitted {
			is(e, v1alpha1.StateStuck, NotAdmitted, "%s", c.Message)
			since(e, c.LastTransitionTime.Time)
			next(e, "ccmctl inspect MODULE.wasm", "before the manager restarts, do what the message names: sign or pin the module, or offer a later one")
			return true
		}
	}
	return false
}
