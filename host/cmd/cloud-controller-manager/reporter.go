package main

import (
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"

	"github.com/wasm-ccm/wasm-ccm/host/metrics"
	"github.com/wasm-ccm/wasm-ccm/host/plugin"
	"github.com/wasm-ccm/wasm-ccm/host/source"
)

// Reasons of the Events on the module's ConfigMap.
const (
	eventServing  = "ProviderServing"
	eventRejected = "ProviderRejected"
	eventWarning  = "ProviderConfigurationWarning"
)

// maxEventBytes is the API server's limit for an Event's message.
const maxEventBytes = 1024

// reporter tells of rollouts in the log, by metrics, and by Events on the
// ConfigMap that the module comes from. It implements rollout.Reporter.
type reporter struct {
	logger  klog.Logger
	events  record.EventRecorder
	metrics *metrics.Metrics
	slot    *plugin.Slot
	// signer: it is about a signer, which the metrics of providers leave out.
	signer bool
	// scrub replaces secrets in what a guest says; nil leaves it as it is.
	scrub func(string) string
	// serving is called when a generation has been swapped in; it may be nil.
	serving func()
}

func (r *reporter) Serving(bundle source.Bundle, g *plugin.Generation) {
	digests := g.Digests()
	if r.serving != nil {
		r.serving()
	}
	if !r.signer {
		r.metrics.Serving(g.Name(), g.Version(), digests.Module)
	}
	r.logger.Info("provider is serving", "provider", g.Name(), "version", g.Version(), "digest", "sha256:"+digests.Module,
		"configDigest", "sha256:"+digests.Config, "source", bundle.Origin, "probe", r.clean(g.Summary()))
	r.event(bundle, corev1.EventTypeNormal, eventServing,
		fmt.Sprintf("%s %s is serving, digest sha256:%s: %s", g.Name(), g.Version(), digests.Module, r.clean(g.Summary())))
	for _, warning := range g.Warnings() {
		warning = r.clean(warning)
		r.logger.Info("the provider warns about its configuration", "provider", g.Name(), "warning", warning)
		r.event(bundle, corev1.EventTypeWarning, eventWarning, warning)
	}
}

func (r *reporter) Rejected(bundle source.Bundle, reason string, err error) {
	if !r.signer {
		r.metrics.Rejected(reason)
	}
	still := "no provider is serving yet"
	if g := r.slot.Serving(); g != nil {
		still = fmt.Sprintf("%s %s goes on serving", g.Name(), g.Version())
	}
	text := r.clean(err.Error())
	r.logger.Error(errors.New(text), "provider is rejected", "reason", reason, "source", bundle.Origin, "serving", still)
	r.event(bundle, corev1.EventTypeWarning, eventRejected, fmt.Sprintf("%s: %s; %s", reason, text, still))
}

func (r *reporter) clean(text string) string {
	if r.scrub == nil {
		return text
	}
	return r.scrub(text)
}

func (r *reporter) event(bundle source.Bundle, kind, reason, message string) {
	if bundle.Ref == nil {
		return
	}
	r.events.Event(bundle.Ref, kind, reason, cut(message))
}

// cut bounds the message of an Event, but not within a character: the API
// server refuses text that is not UTF-8.
func cut(message string) string {
	if len(message) <= maxEventBytes {
		return message
	}
	return strings.ToValidUTF8(message[:maxEventBytes-3], "") + "..."
}
