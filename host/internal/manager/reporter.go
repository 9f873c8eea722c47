package manager

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"

	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/provenance"
	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/registry"
	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/rollout"
	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/source"
	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/status"
	"github.com/wasm-ccm/wasm-ccm/host/internal/manager/metrics"
	"github.com/wasm-ccm/wasm-ccm/host/internal/report"
	"github.com/wasm-ccm/wasm-ccm/host/internal/text"
	"github.com/wasm-ccm/wasm-ccm/host/status/v1alpha1"
)

// instead names the serving generation in place of a held or rolled back one.
// It has its own earlier configuration, not the one in the source.
func instead(x rollout.Report) string {
	if x.Phase != rollout.RolledBack || x.Serving == nil {
		return stillServing(x.Serving)
	}
	said := fmt.Sprintf("%s %s serves again with its previous configuration", x.Serving.Name, x.Serving.Version)
	if x.Serving.ConfigDigest != "" {
		said += ", sha256:" + text.Digest(x.Serving.ConfigDigest)
	}
	return said
}

// providerReporter reports a provider by its status, metrics, Events and log.
// It implements rollout.Reporter.
type providerReporter struct {
	teller
	provider string
	metrics  *metrics.Rollout
	status   *statusWriter
	// generation is the number of takeovers, for other parts.
	generation *atomic.Int64
	// replaced is called when another generation serves.
	replaced func()
	// reconfigured is called when the serving configuration differs from the
	// previous one.
	reconfigured func()
	// configured identifies the serving configuration, even a private one: the
	// result is kept here, and never shown.
	configured func() string
	config     string // its last result; "": nothing has served
	// admits returns why the serving module would not be loaded now; nil: no check.
	admits     func() error
	unadmitted string         // the last message about that
	last       rollout.Report // the last one reported
	waits      string         // the last reported reason to wait
	inVain     []string       // reported useless entries of the HostConfiguration
}

// Report implements rollout.Reporter.
func (r *providerReporter) Report(x rollout.Report) {
	x.Message = r.said(x)
	r.admission(x)
	r.status.report(x, r.unadmitted)
	r.metrics.Phase(string(x.Phase))
	r.metrics.Generation(x.Generation)
	r.generation.Store(x.Generation)
	if r.last.Generation != x.Generation {
		r.replaced()
	}
	r.configures(x.Serving)
	same := r.last.Phase == x.Phase && r.last.Reason == x.Reason && r.last.Message == x.Message && r.last.Bundle.Revision == x.Bundle.Revision
	r.last = x
	r.last.Bundle = source.Bundle{Revision: x.Bundle.Revision}
	r.last.Subject = nil
	if same && x.Phase != rollout.Serving && x.Phase != rollout.Rejected {
		return
	}
	r.tell(x)
}

// said is the message with the way out, which an Event's limit does not cut off.
func (r *providerReporter) said(x rollout.Report) string {
	out := r.wayOut(x)
	if out == "" {
		return r.clean(x.Message)
	}
	return text.Line(r.clean(x.Message), maxBeforeWayOut) + out
}

// wayOut is the one command that admits a refused or held module. Every report
// of a phase has it, as part of its message.
func (r *providerReporter) wayOut(x rollout.Report) string {
	switch {
	case x.Phase == rollout.Held && x.Reason == rollout.ReasonPaused:
		return "to go on: " + report.Find(report.Paused).Next.Fill(report.Of{Manager: r.object.Namespace, Provider: r.provider}).Command
	case x.Promotable && x.Offered != nil && (x.Phase == rollout.Held || x.Phase == rollout.RolledBack || x.Phase == rollout.Rejected):
		return "; to let it serve anyway: " + report.Promote(r.object.Namespace, r.provider, text.Digest(x.Offered.Digest))
	}
	return ""
}

func (r *providerReporter) tell(x rollout.Report) {
	switch x.Phase {
	case rollout.Loading:
	case rollout.Waiting:
		r.waiting(x)
	case rollout.Rejected:
		r.metrics.Rejected(x.Reason)
		r.rejected(x.Bundle, x.Reason, x.Message, offeredOf(x), stillServing(x.Serving))
	case rollout.Serving:
		if x.Reason != "" && x.Reason != rollout.ReasonStandby { // it is not proven
			r.phase(x, corev1.EventTypeWarning)
			return
		}
		r.metrics.Serving(x.Serving.Name, x.Serving.Version, x.Serving.Digest, x.Serving.Engine)
		r.metrics.Took(x.Took)
		r.serving(x.Bundle, x.Subject)
	case rollout.Held:
		r.serves(x.Serving)
		r.metrics.Held(x.Reason)
		r.phase(x, corev1.EventTypeWarning)
	case rollout.RolledBack:
		r.serves(x.Serving)
		r.metrics.RolledBack(x.Reason)
		kind := corev1.EventTypeWarning
		if x.Reason == rollout.ReasonByOperator { // the administrator wanted it
			kind = corev1.EventTypeNormal
		}
		r.phase(x, kind)
	case rollout.Kept:
		r.serves(x.Serving) // also after the source went from good to bad and back
		r.metrics.Kept()
		r.phase(x, corev1.EventTypeNormal)
	case rollout.Probed, rollout.Shadowed:
		if x.Err != nil || x.Phase == rollout.Shadowed && x.Allowed {
			r.log(x)
			r.event(x.Bundle, corev1.EventTypeWarning, eventDifference, string(x.Phase)+" is not required, so the rollout continues: "+x.Message)
			return
		}
		r.phase(x, corev1.EventTypeNormal)
	default:
		r.phase(x, corev1.EventTypeNormal)
	}
}

// waiting logs once what an offer waits for: a standby that waits for its
// leader is no Event.
func (r *providerReporter) waiting(x rollout.Report) {
	about := x.Bundle.Revision + x.Message
	if x.Message != "" && r.waits != about {
		r.waits = about
		r.logger.Info("rollout", "phase", x.Phase, "reason", x.Reason, "message", x.Message, "source", x.Bundle.Origin, "serving", stillServing(x.Serving))
	}
}

// serves records the serving module, if there is one.
func (r *providerReporter) serves(v *v1alpha1.Module) {
	if v != nil {
		r.metrics.Serves(v.Name, v.Version, v.Digest, v.Engine)
	}
}

// phase reports a phase in the common words.
func (r *providerReporter) phase(x rollout.Report, kind string) {
	r.log(x)
	r.event(x.Bundle, kind, report.OfPhase(string(x.Phase)), describe(x))
}

func (r *providerReporter) log(x rollout.Report) {
	r.logger.Info("rollout", "phase", x.Phase, "reason", x.Reason, "message", x.Message, "generation", x.Generation, "source", x.Bundle.Origin, "took", x.Took.String())
}

// meaning explains a phase before the module is loaded.
func meaning(p rollout.Phase) string {
	switch p {
	case rollout.Verified:
		return "it is well-formed, needs no more than the grants, and has the required signatures"
	case rollout.Compiled:
		return "it is compiled"
	case rollout.Described:
		return "it has described its ops"
	case rollout.Configured:
		return "it has accepted its configuration"
	}
	return ""
}

// subject names a report's generation, or before there is one the offered
// module.
func subject(x rollout.Report) string {
	switch {
	case x.Subject != nil:
		return fmt.Sprintf("%s %s, %s", x.Subject.Name(), x.Subject.Version(), digestsOf(x.Bundle, x.Subject))
	case x.Offered != nil:
		return "module sha256:" + x.Offered.Digest + text.Config(x.Offered.ConfigDigest)
	}
	return ""
}

// describe explains a phase and a person's options.
func describe(x rollout.Report) string {
	parts := []string{}
	if text := subject(x); text != "" {
		parts = append(parts, text)
	}
	if text := meaning(x.Phase); text != "" {
		parts = append(parts, text)
	}
	if x.Reason != "" {
		parts = append(parts, x.Reason)
	}
	if x.Message != "" {
		parts = append(parts, x.Message)
	}
	text := strings.Join(parts, ": ")
	switch x.Phase {
	case rollout.Held, rollout.RolledBack:
		text += "; " + instead(x)
	}
	return text
}

// Commanded implements rollout.Reporter: it is the audit log of people's commands.
func (r *providerReporter) Commanded(c rollout.Command, err error) {
	by := text.Line(cmp.Or(c.By, "somebody whom the API server does not name"), maxLogBytes)
	if c.Kind == rollout.CommandResume {
		by = "the removal of the annotation " + status.AnnotationPause
	}
	past := map[string]string{rollout.CommandPause: "Paused", rollout.CommandResume: "Resumed", rollout.CommandPromote: "Promoted", rollout.CommandRollback: "RollbackRequested"}[c.Kind]
	if err != nil {
		r.logger.Error(errors.New(text.Line(err.Error(), maxLogBytes)), "A command is refused", "command", c.Kind, "by", by)
		r.events.Event(r.object, corev1.EventTypeWarning, eventDisobeyed, text.Line(fmt.Sprintf("%s by %s: %v", c.Kind, by, err), maxEventBytes))
		return
	}
	if c.Kind == rollout.CommandPromote {
		r.metrics.Promoted()
	}
	r.logger.Info("A command is obeyed", "command", c.Kind, "argument", text.Line(c.Argument, maxLogBytes), "by", by)
	command := strings.TrimSpace(c.Kind + " " + c.Argument)
	r.events.Event(r.object, corev1.EventTypeNormal, report.OfPhase(past), text.Line(fmt.Sprintf("%s, by %s", command, by), maxEventBytes))
}

// Journalled implements rollout.Reporter.
func (r *providerReporter) Journalled(err error) {
	if err == nil {
		r.status.durable(nil)
		return
	}
	err = errors.New(r.clean(err.Error())) // it may contain a guest's text
	r.status.durable(err)
	r.logger.Error(err, "The serving module is not saved for a restart")
	r.events.Event(r.object, corev1.EventTypeWarning, eventJournal, text.Line(err.Error(), maxEventBytes))
}

// configuration reports the result of a HostConfiguration: an error names the
// wrong field. This process then keeps the previous one; the next process
// cannot start with an invalid file.
func (r *providerReporter) configuration(err error) {
	if err == nil {
		if r.status.configured(report.Accepted, "") {
			r.event(source.Bundle{}, corev1.EventTypeNormal, eventReconfigured, "the file of --config is in force")
		}
		return
	}
	problem := r.clean(err.Error())
	message := problem + "; the previous configuration stays in force"
	kind, reason := corev1.EventTypeWarning, eventConfiguration
	switch {
	case errors.As(err, &notYet{}):
		kind, reason = corev1.EventTypeNormal, eventPending
		message += fmt.Sprintf(" until then; it is tried again every %v", reloadRetry)
	case !errors.Is(err, errObjects): // a restart mends that one
		message += ". Correct it before the next restart: a manager does not start with an invalid file"
	}
	r.status.configured(reason, problem)
	r.event(source.Bundle{}, kind, reason, message)
}

// ticked reports the end of an op tick: the metrics have each one, the status
// the last result, and the log the failures.
func (r *providerReporter) ticked(err error) {
	message := ""
	if err != nil {
		r.logger.Error(err, "The op tick failed")
		message = text.Line(err.Error(), 512)
	}
	r.status.ticked(message)
}

// admission reports once that a restart would end the serving module, since
// nothing else shows that.
func (r *providerReporter) admission(x rollout.Report) {
	said := r.unadmitted
	r.unadmitted = ""
	if x.Serving == nil || r.admits == nil {
		return
	}
	err := r.admits()
	if err == nil {
		return
	}
	reason := ""
	var refused *provenance.Error
	if errors.As(err, &refused) {
		reason = refused.Reason + ": "
	}
	r.unadmitted = r.clean("the serving module would not be admitted now, and serves until the manager restarts: " + reason + err.Error())
	if r.unadmitted != said {
		r.logger.Error(err, "The serving module would not be admitted now; it serves until the manager restarts")
		r.event(x.Bundle, corev1.EventTypeWarning, eventNotAdmitted, r.unadmitted)
	}
}

// configures compares the configuration of the serving generation with the previous one's.
// The control loops read everything at their start, so the first one is no change.
func (r *providerReporter) configures(serving *v1alpha1.Module) {
	if serving == nil {
		return
	}
	now := r.configured()
	if r.config != "" && now != r.config {
		r.reconfigured()
	}
	r.config = now
}

// reached reports that the registry cannot be reached, or can be again. The
// serving module does not change.
func (r *providerReporter) reached(err error) {
	if err == nil {
		r.metrics.SourceUnavailable("")
		if r.status.source("", "") {
			r.logger.Info("The registry answers again")
			r.event(source.Bundle{}, corev1.EventTypeNormal, eventSourceAvailable, "the registry answers again")
		}
		return
	}
	reason := registry.ReasonUnavailable
	var known *registry.Error
	if errors.As(err, &known) {
		reason = known.Reason
	}
	message := r.clean(err.Error())
	r.status.source(reason, message)
	r.metrics.SourceUnavailable(reason)
	r.unreached(reason, message)
}

// sourceReplaced drops the state of a registry: the next source reports its
// own.
func (r *providerReporter) sourceReplaced() {
	r.status.sourceReplaced()
	r.metrics.SourceUnavailable("")
}

// idle reports useless entries of the administrator.
func (r *providerReporter) idle(entries []string) {
	said := slices.Equal(entries, r.inVain)
	if r.inVain = entries; said || len(entries) == 0 {
		return
	}
	const why = "has no effect: nothing in it is refused by default, or deny lists it. Private and public networks need no entry, " +
		"and an entry wider than a refused network does not allow that network. Remove or correct the entry"
	r.logger.Info("Entries of the HostConfiguration have no effect", "entries", entries, "field", "providers[].addresses.allow", "why", why)
	r.event(source.Bundle{}, corev1.EventTypeWarning, eventWarning, "providers[].addresses.allow "+strings.Join(entries, ", ")+" "+why)
}
