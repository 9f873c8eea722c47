package manager

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"

	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/rollout"
	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/source"
	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/status"
	"github.com/wasm-ccm/wasm-ccm/host/internal/manager/metrics"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/plugin"
)

// Reasons of Events. Those of phases are eventPrefix and the phase.
const (
	eventPrefix     = "Provider"
	eventServing    = eventPrefix + "Serving"
	eventRejected   = eventPrefix + "Rejected"
	eventWarning    = "ProviderConfigurationWarning"
	eventJournal    = "ProviderNotDurable"
	eventDisobeyed  = "ProviderCommandRefused"
	eventDifference = "ProviderPhaseFailed"
	// Of the file of --config.
	eventConfiguration = "HostConfigurationRejected"
	eventReconfigured  = "HostConfigurationAccepted"
)

// maxEventBytes is the API server's limit for an Event's message.
const maxEventBytes = 1024

// teller tells of rollouts in the log and by Events.
type teller struct {
	logger klog.Logger
	events record.EventRecorder
	// scrub replaces secrets in what a guest says; nil leaves it as it is.
	scrub func(string) string
	// object is what Events are about where a module comes from no ConfigMap;
	// nil: there are none then.
	object *corev1.ObjectReference
}

func (t *teller) clean(text string) string {
	if t.scrub != nil {
		text = t.scrub(text)
	}
	return oneLine(text)
}

// oneLine replaces line breaks, and what else cannot be printed: klog writes a
// value of several lines as it is, with whatever a terminal makes of it.
func oneLine(text string) string {
	text = strings.ReplaceAll(strings.TrimSpace(strings.ToValidUTF8(text, "?")), "\n", "; ")
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return ' '
	}, text)
}

func (t *teller) event(bundle source.Bundle, kind, reason, message string) {
	ref := bundle.Ref
	if ref == nil {
		ref = t.object
	}
	if ref != nil {
		t.events.Event(ref, kind, reason, cut(message))
	}
}

// serving tells of a generation that has been swapped in.
func (t *teller) serving(bundle source.Bundle, g *plugin.Generation) {
	digests := g.Digests()
	t.logger.Info("provider is serving", "provider", g.Name(), "version", g.Version(), "digest", "sha256:"+digests.Module,
		"configDigest", "sha256:"+digests.Config, "source", bundle.Origin, "probe", t.clean(g.Summary()))
	text := fmt.Sprintf("%s %s is serving, digest sha256:%s", g.Name(), g.Version(), digests.Module)
	if summary := t.clean(g.Summary()); summary != "" {
		text += ": " + summary
	}
	t.event(bundle, corev1.EventTypeNormal, eventServing, text)
	for _, warning := range g.Warnings() {
		warning = t.clean(warning)
		t.logger.Info("the provider warns about its configuration", "provider", g.Name(), "warning", warning)
		t.event(bundle, corev1.EventTypeWarning, eventWarning, warning)
	}
}

func (t *teller) rejected(bundle source.Bundle, reason, text, offered, still string) {
	text = t.clean(text)
	t.logger.Error(errors.New(text), "provider is rejected", "reason", reason, "source", bundle.Origin, "offered", offered, "serving", still)
	if offered != "" {
		offered = " (offered: " + offered + ")"
	}
	t.event(bundle, corev1.EventTypeWarning, eventRejected, fmt.Sprintf("%s%s: %s; %s", reason, offered, text, still))
}

// offeredOf names the module that the source holds, "" where it holds none.
func offeredOf(x rollout.Report) string {
	if x.Offered == nil {
		return ""
	}
	return "sha256:" + short(x.Offered.Digest)
}

// still says what serves.
func still(v *rollout.Version) string {
	if v == nil {
		return "no provider is serving yet"
	}
	return fmt.Sprintf("%s %s goes on serving", v.Name, v.Version)
}

// signerReporter tells of a signer, which has no status and no metrics.
type signerReporter struct{ teller }

// Report is rollout.Reporter's.
func (r *signerReporter) Report(x rollout.Report) {
	switch x.Phase {
	case rollout.Serving:
		r.serving(x.Bundle, x.Subject)
	case rollout.Rejected:
		r.rejected(x.Bundle, x.Reason, x.Message, offeredOf(x), still(x.Serving))
	}
}

// Commanded is rollout.Reporter's: nobody commands signers.
func (r *signerReporter) Commanded(rollout.Command, error) {}

// Journalled is rollout.Reporter's: signers have no journal.
func (r *signerReporter) Journalled(error) {}

// providerReporter tells of a provider by its status, metrics, Events and log.
// It implements rollout.Reporter.
type providerReporter struct {
	teller
	metrics *metrics.Rollout
	status  *statusWriter
	// replaced is called when another generation serves.
	replaced func()
	last     rollout.Report // that was told of
	waits    string         // what it was said to wait for
	inVain   []string       // entries of the HostConfiguration that were told of
}

func newProviderReporter(m *managed, events record.EventRecorder, namespace string) *providerReporter {
	object := &corev1.ObjectReference{APIVersion: "v1", Kind: "ConfigMap", Namespace: namespace, Name: m.status.Name()}
	return &providerReporter{
		teller:  teller{logger: m.logger, events: events, scrub: m.allowed.scrub, object: object},
		metrics: m.metrics.Rollout(), status: &statusWriter{object: m.status, providers: m.configured},
		replaced: func() {
			m.loader.proved(m.slot.Serving())
			m.invoker.Reset()
			m.listing.Reset()
			m.recorder.Reset()
			m.changes.tell() // once more: what they asked may have been answered by what was known before
		},
	}
}

// Report is rollout.Reporter's.
func (r *providerReporter) Report(x rollout.Report) {
	x.Message = r.clean(x.Message)
	r.status.report(x)
	r.metrics.Phase(string(x.Phase))
	r.metrics.Generation(x.Generation)
	if r.last.Generation != x.Generation {
		r.replaced()
	}
	same := r.last.Phase == x.Phase && r.last.Reason == x.Reason && r.last.Message == x.Message && r.last.Bundle.Revision == x.Bundle.Revision
	r.last = x
	r.last.Bundle = source.Bundle{Revision: x.Bundle.Revision}
	r.last.Subject = nil
	if same && x.Phase != rollout.Serving && x.Phase != rollout.Rejected {
		return
	}
	r.tell(x)
}

func (r *providerReporter) tell(x rollout.Report) {
	switch x.Phase {
	case rollout.Loading:
	case rollout.Waiting:
		r.waiting(x)
	case rollout.Rejected:
		r.metrics.Rejected(x.Reason)
		r.rejected(x.Bundle, x.Reason, x.Message, offeredOf(x), still(x.Serving))
	case rollout.Serving:
		if x.Reason == rollout.ReasonErrorBudget {
			r.phase(x, corev1.EventTypeWarning)
			return
		}
		r.metrics.Serving(x.Serving.Name, x.Serving.Version, x.Serving.Digest)
		r.metrics.Took(x.Took)
		r.serving(x.Bundle, x.Subject)
	case rollout.Held:
		r.serves(x.Serving)
		r.metrics.Held(x.Reason)
		r.phase(x, corev1.EventTypeWarning)
	case rollout.RolledBack:
		r.serves(x.Serving)
		r.metrics.RolledBack(x.Reason)
		r.phase(x, corev1.EventTypeWarning)
	case rollout.Kept:
		r.serves(x.Serving) // also after the source went from good to bad and back
		r.metrics.Kept()
		r.phase(x, corev1.EventTypeNormal)
	case rollout.Probed, rollout.Shadowed:
		if x.Err != nil || x.Phase == rollout.Shadowed && x.Allowed {
			r.log(x)
			r.event(x.Bundle, corev1.EventTypeWarning, eventDifference, string(x.Phase)+", which is allowed to fail: "+x.Message)
			return
		}
		r.phase(x, corev1.EventTypeNormal)
	default:
		r.phase(x, corev1.EventTypeNormal)
	}
}

// waiting says once what an offer waits for, in the log: a standby that waits
// for its leader is no event.
func (r *providerReporter) waiting(x rollout.Report) {
	about := x.Bundle.Revision + x.Message
	if x.Message != "" && r.waits != about {
		r.waits = about
		r.logger.Info("rollout", "phase", x.Phase, "reason", x.Reason, "message", x.Message, "source", x.Bundle.Origin, "serving", still(x.Serving))
	}
}

// serves records what serves, where something does.
func (r *providerReporter) serves(v *rollout.Version) {
	if v != nil {
		r.metrics.Serves(v.Name, v.Version, v.Digest)
	}
}

// phase tells of a phase in the words that are the same for all.
func (r *providerReporter) phase(x rollout.Report, kind string) {
	r.log(x)
	r.event(x.Bundle, kind, eventPrefix+string(x.Phase), describe(x))
}

func (r *providerReporter) log(x rollout.Report) {
	r.logger.Info("rollout", "phase", x.Phase, "reason", x.Reason, "message", x.Message, "generation", x.Generation, "source", x.Bundle.Origin, "took", x.Took.String())
}

// meaning says what a phase has shown that is told of before the module is
// loaded.
func meaning(p rollout.Phase) string {
	switch p {
	case rollout.Verified:
		return "it is well-formed, asks for nothing that it is not granted, and is signed if it has to be"
	case rollout.Compiled:
		return "it is machine code"
	case rollout.Described:
		return "it has said what it can do"
	case rollout.Configured:
		return "it has taken its configuration"
	}
	return ""
}

// subject names what a report is about: a generation, or before there is one
// the module that the source offers.
func subject(x rollout.Report) string {
	switch {
	case x.Subject != nil:
		return fmt.Sprintf("%s %s, digest sha256:%s", x.Subject.Name(), x.Subject.Version(), x.Subject.Digests().Module)
	case x.Offered != nil:
		return "module sha256:" + x.Offered.Digest
	}
	return ""
}

// describe says what a phase means and what a person can do.
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
		text += "; " + still(x.Serving) + "; to let it through, annotate the provider's ConfigMap with " + status.AnnotationPromote + "=" + promotable(x.Subject)
	}
	return text
}

// promoteDigits of a digest are what messages tell people to repeat.
const promoteDigits = 12

// short is as much of a digest as a person has to repeat.
func short(digest string) string { return digest[:min(len(digest), promoteDigits)] }

// promotable is the argument that promotes what was just told of and nothing
// else.
func promotable(g *plugin.Generation) string {
	if g == nil {
		return "true"
	}
	return short(g.Digests().Module)
}

// Commanded is rollout.Reporter's: it is the audit of what people do.
func (r *providerReporter) Commanded(c rollout.Command, err error) {
	by := oneLine(c.By)
	if by == "" {
		by = "somebody"
	}
	past := map[string]string{rollout.CommandPause: "Paused", rollout.CommandResume: "Resumed", rollout.CommandPromote: "Promoted", rollout.CommandRollback: "RollbackRequested"}[c.Kind]
	if err != nil {
		r.logger.Error(errors.New(oneLine(err.Error())), "A command is refused", "command", c.Kind, "by", by)
		r.events.Event(r.object, corev1.EventTypeWarning, eventDisobeyed, cut(fmt.Sprintf("%s by %s: %v", c.Kind, by, err)))
		return
	}
	if c.Kind == rollout.CommandPromote {
		r.metrics.Promoted()
	}
	r.logger.Info("A command is obeyed", "command", c.Kind, "argument", oneLine(c.Argument), "by", by)
	r.events.Event(r.object, corev1.EventTypeNormal, eventPrefix+past, cut(fmt.Sprintf("%s %s, by %s", c.Kind, c.Argument, by)))
}

// Journalled is rollout.Reporter's.
func (r *providerReporter) Journalled(err error) {
	if err == nil {
		r.status.durable(nil)
		return
	}
	err = errors.New(r.clean(err.Error())) // it may hold what a guest said
	r.status.durable(err)
	r.logger.Error(err, "What a restart would need is not kept")
	r.events.Event(r.object, corev1.EventTypeWarning, eventJournal, cut(err.Error()))
}

// configuration tells what became of the HostConfiguration: an error says which
// field is wrong. What the file said before holds then, in this process; the
// next one cannot start with a file that is not valid.
func (r *providerReporter) configuration(err error) {
	if err == nil {
		if r.status.configured("") {
			r.event(source.Bundle{}, corev1.EventTypeNormal, eventReconfigured, "the file of --config is in force")
		}
		return
	}
	message := r.clean(err.Error())
	r.status.configured(message)
	r.event(source.Bundle{}, corev1.EventTypeWarning, eventConfiguration,
		message+"; what the file of --config said before holds. Mend it before a manager is started anew: it does not start with a file that is not valid")
}

// idle tells of entries that the administrator wrote in vain.
func (r *providerReporter) idle(entries []string) {
	said := slices.Equal(entries, r.inVain)
	if r.inVain = entries; said || len(entries) == 0 {
		return
	}
	const why = "opens nothing: it lies in no network, and is no name, that is refused by default, or deny has it. Private and public networks need no entry, " +
		"and one that is wider than a refused network does not open it. Remove it, or write what is meant"
	r.logger.Info("The HostConfiguration allows in vain", "entries", entries, "field", "providers[].addresses.allow", "why", why)
	r.event(source.Bundle{}, corev1.EventTypeWarning, eventWarning, "providers[].addresses.allow "+strings.Join(entries, ", ")+" "+why)
}

// cut makes a message fit for an Event: one line without what a terminal
// obeys, bounded, but not within a character, as the API server refuses text
// that is not UTF-8.
func cut(message string) string {
	message = oneLine(message)
	if len(message) <= maxEventBytes {
		return message
	}
	return strings.ToValidUTF8(message[:maxEventBytes-3], "") + "..."
}
