package explain

import (
	"fmt"

	"github.com/wasm-ccm/wasm-ccm/host/internal/report"
	"github.com/wasm-ccm/wasm-ccm/host/internal/text"
	"github.com/wasm-ccm/wasm-ccm/host/status/v1alpha1"
)

// Provider explains the serving module of a provider, and why an offered one does not serve.
func Provider(f Facts) v1alpha1.Explanation {
	p := f.Provider
	e := begin(v1alpha1.KindProvider, "", p.Name, f)
	var findings []v1alpha1.Explanation
	for _, look := range []func(*v1alpha1.Explanation, Facts) bool{rollout, rights, breakers, others, brakes} {
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
		if other.Cause != report.DeletionBrakeEngaged { // another problem may be why machines are reported as gone
			e.Next = append(e.Next, other.Next...)
		}
	}
	return bounded(e)
}

func describe(m *v1alpha1.Module) string {
	if m == nil {
		return "nothing"
	}
	return fmt.Sprintf("%s %s (sha256:%s%s)", m.Name, m.Version, text.Digest(m.Digest), text.Config(m.ConfigDigest))
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
		is(e, v1alpha1.StateStuck, report.Paused, "somebody paused it: nothing else serves until it is resumed. It serves %s", describe(p.Serving))
		advise(e, f)
	case v1alpha1.PhaseRejected:
		is(e, v1alpha1.StateStuck, cause(p), "what is offered cannot serve: %s", said)
		rejected(e, f)
	case v1alpha1.PhaseHeld, v1alpha1.PhaseRolledBack:
		is(e, v1alpha1.StateStuck, cause(p), "what is offered does not serve: %s", said)
		if p.Paused {
			resume(e, f)
		}
		next(e, report.Promote(f.Namespace, p.Name, offered(p)), "let it serve anyway")
		next(e, "", "or offer another module or configuration")
	case "", v1alpha1.PhaseWaiting:
		is(e, v1alpha1.StateStuck, waiting(p), "it has no module to serve: %s", said)
		next(e, offers(f), "see whether the source of the module, and the Secrets, are there (providers[].source of the values)")
	default:
		is(e, v1alpha1.StateProgressing, p.Phase, "%s", said)
		going(e, f)
	}
	return true
}

// going explains what a running rollout waits for.
func going(e *v1alpha1.Explanation, f Facts) {
	p := f.Provider
	e.WaitsFor = "the rollout continues by itself"
	if p.Phase == v1alpha1.PhaseServing {
		e.WaitsFor = "it is observed for rollout.observePeriod (2 minutes by default); then it is kept, or rolled back"
	}
	if p.Paused {
		e.WaitsFor += "; somebody paused the provider, so nothing else serves"
		resume(e, f)
	}
}

// resume suggests to end a pause.
func resume(e *v1alpha1.Explanation, f Facts) {
	step := report.Find(report.Paused).Next.Fill(about(e, f))
	next(e, step.Command, "%s", step.What)
}

// offers is the command that shows what is offered, and what became of it. Events may
// be gone: the state is there.
func offers(f Facts) string {
	p := f.Provider
	if s := p.Source; s != nil && s.Kind == v1alpha1.KindConfigMap {
		return fmt.Sprintf("kubectl -n %s describe configmap %s", s.Namespace, s.Name)
	}
	return report.ForManager(f.Namespace, "ccmctl rollout history "+p.Name)
}

func cause(p *v1alpha1.Provider) string {
	if p.Reason == "" {
		return p.Phase
	}
	return p.Reason
}

func waiting(p *v1alpha1.Provider) string {
	if p.Reason == "" {
		return report.NothingServes
	}
	return p.Reason
}

func offered(p *v1alpha1.Provider) string {
	if p == nil || p.Offered == nil {
		return "DIGEST"
	}
	return text.Digest(p.Offered.Digest)
}

// rejected suggests the remedy for a rejected module.
func rejected(e *v1alpha1.Explanation, f Facts) {
	if report.Known(e.Cause) {
		advise(e, f)
		return
	}
	next(e, offers(f), "correct what the message names, and offer it again: the module, its configuration, or the grants in the values. A failed probe is tried again by itself")
}

// rights explains a configuration that is not fully in force.
func rights(e *v1alpha1.Explanation, f Facts) bool {
	return conditions(e, f, v1alpha1.ConditionConfigured)
}

func brakes(e *v1alpha1.Explanation, f Facts) bool {
	b := f.Provider.Brake
	if b == nil || !b.Engaged {
		return false
	}
	is(e, v1alpha1.StateStuck, report.DeletionBrakeEngaged, "the provider says that the machines of %d of %d Nodes do not exist, so Nodes wait for permits; %d may be deleted now", b.Gone, b.Nodes, b.Permits)
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
	breaker(e, f, host)
	return true
}

// conditions explains the first of these conditions with status False.
func conditions(e *v1alpha1.Explanation, f Facts, kinds ...string) bool {
	for _, kind := range kinds {
		c := lost(f.Provider.Conditions, kind)
		if c == nil {
			continue
		}
		cause, state, said := report.OfCondition(kind, c.Reason), v1alpha1.StateStuck, c.Message
		if c.Reason != cause.Reason { // of a registry, or of an earlier release
			said = c.Reason + ": " + said
		}
		if cause.Next.What == "" {
			state, e.WaitsFor = v1alpha1.StateProgressing, "what the message names"
		}
		is(e, state, cause.Reason, "%s: %s", cause.Means, said)
		since(e, c.LastTransitionTime.Time)
		advise(e, f)
		return true
	}
	return false
}

// others explains the remaining conditions.
func others(e *v1alpha1.Explanation, f Facts) bool {
	if conditions(e, f, v1alpha1.ConditionSource, v1alpha1.ConditionDurable, v1alpha1.ConditionTicked) {
		return true
	}
	for _, c := range f.Provider.Conditions {
		if c.Type == v1alpha1.ConditionServing && c.Reason == report.ServingModuleNotAdmitted {
			is(e, v1alpha1.StateStuck, report.ServingModuleNotAdmitted, "%s", c.Message)
			since(e, c.LastTransitionTime.Time)
			advise(e, f)
			return true
		}
	}
	return false
}
