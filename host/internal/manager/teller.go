package manager

import (
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"

	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/rollout"
	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/source"
	"github.com/wasm-ccm/wasm-ccm/host/internal/report"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/plugin"
	"github.com/wasm-ccm/wasm-ccm/host/internal/text"
	"github.com/wasm-ccm/wasm-ccm/host/status/v1alpha1"
)

// Reasons of Events.
const (
	eventServing    = report.ProviderServing
	eventRejected   = report.ProviderRejected
	eventWarning    = report.ProviderConfigurationWarning
	eventJournal    = report.ProviderNotDurable
	eventDisobeyed  = report.ProviderCommandRefused
	eventDifference = report.ProviderPhaseFailed
	// About the file of --config.
	eventConfiguration = report.HostConfigurationRejected
	eventPending       = report.HostConfigurationPending
	eventReconfigured  = report.HostConfigurationAccepted
)

// Reasons of Events about registries.
const (
	eventSourceUnavailable = report.ProviderSourceUnavailable
	eventSourceAvailable   = report.ProviderSourceAvailable
)

const (
	// maxEventBytes is the API server's limit for an Event's message.
	maxEventBytes = 1024
	// maxBeforeWayOut leaves room in an Event for the command of the way out.
	maxBeforeWayOut = 512
	// maxLogBytes is the longest error of a module that does not load.
	maxLogBytes = 8 << 10
)

// teller reports rollouts in the log and by Events.
type teller struct {
	logger klog.Logger
	events record.EventRecorder
	// scrub removes secrets from a guest's texts; nil leaves them unchanged.
	scrub func(string) string
	// object is the Events' object for modules without a ConfigMap; nil: there
	// are no Events then.
	object *corev1.ObjectReference
}

// clean turns a foreign text into one printable line: klog writes values of
// several lines unchanged, control characters included.
func (t *teller) clean(said string) string {
	if t.scrub != nil {
		said = t.scrub(said)
	}
	return text.Line(said, maxLogBytes)
}

func (t *teller) event(bundle source.Bundle, kind, reason, message string) {
	ref := bundle.Ref
	if ref == nil {
		ref = t.object
	}
	if ref != nil {
		t.events.Event(ref, kind, reason, text.Line(message, maxEventBytes))
	}
}

// digestsOf a generation, without that of a private configuration.
func digestsOf(bundle source.Bundle, g *plugin.Generation) string {
	d := g.Digests()
	if bundle.ConfigPrivate {
		d.Config = ""
	}
	return "digest sha256:" + d.Module + text.Config(d.Config)
}

// serving reports a takeover by a new generation.
func (t *teller) serving(bundle source.Bundle, g *plugin.Generation) {
	digests, config := g.Digests(), "private"
	if !bundle.ConfigPrivate {
		config = "sha256:" + digests.Config
	}
	t.logger.Info("provider is serving", "module", g.Name(), "version", g.Version(), "digest", "sha256:"+digests.Module,
		"configDigest", config, "source", bundle.Origin, "probe", t.clean(g.Summary()))
	said := fmt.Sprintf("%s %s is serving, %s", g.Name(), g.Version(), digestsOf(bundle, g))
	if summary := t.clean(g.Summary()); summary != "" {
		said += ": " + summary
	}
	t.event(bundle, corev1.EventTypeNormal, eventServing, said)
	for _, warning := range g.Warnings() {
		warning = t.clean(warning)
		t.logger.Info("the provider warns about its configuration", "module", g.Name(), "warning", warning)
		t.event(bundle, corev1.EventTypeWarning, eventWarning, warning)
	}
}

func (t *teller) rejected(bundle source.Bundle, reason, why, offered, still string) {
	why = t.clean(why)
	t.logger.Error(errors.New(why), "provider is rejected", "reason", reason, "source", bundle.Origin, "offered", offered, "serving", still)
	if offered != "" {
		offered = " (offered: " + offered + ")"
	}
	message := fmt.Sprintf("%s%s: %s; %s", reason, offered, why, still)
	t.event(bundle, corev1.EventTypeWarning, eventRejected, message)
	if bundle.ConfigRef != nil && source.InConfig(reason) { // whoever edits it looks there
		t.events.Event(bundle.ConfigRef, corev1.EventTypeWarning, eventRejected, text.Line(message, maxEventBytes))
	}
}

// offeredOf names the module in the source; "" for an empty source.
func offeredOf(x rollout.Report) string {
	if x.Offered == nil {
		return ""
	}
	return "sha256:" + text.Digest(x.Offered.Digest) + text.Config(x.Offered.ConfigDigest)
}

// stillServing names the serving module.
func stillServing(v *v1alpha1.Module) string {
	if v == nil {
		return "no provider is serving yet"
	}
	return fmt.Sprintf("%s %s continues to serve", v.Name, v.Version)
}

// unreached reports a source that cannot be reached.
func (t *teller) unreached(reason, message string) {
	t.logger.Error(errors.New(message), "The source cannot be read; its last module stays, and it is tried again", "reason", reason)
	t.event(source.Bundle{}, corev1.EventTypeWarning, eventSourceUnavailable, reason+": "+message+"; the serving module continues, and the source is tried again")
}
