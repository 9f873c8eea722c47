package manager

import (
	"errors"

	corev1 "k8s.io/api/core/v1"

	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/provenance"
	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/rollout"
	"github.com/wasm-ccm/wasm-ccm/host/internal/report"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/plugin"
)

// eventNotAdmitted is for a serving module that the current provenance no
// longer admits. It is also the reason of the condition.
const eventNotAdmitted = report.ServingModuleNotAdmitted

// admits returns why the current provenance would not admit a generation, or
// nil. It reads the module once per provenance: every report calls it, and none
// may take long. It is for one goroutine.
func (l *providerLoader) admits(g *plugin.Generation) error {
	l.mu.Lock()
	policy, b := l.current.provenance, l.loaded[g]
	l.mu.Unlock()
	if b == nil || policy == nil {
		return nil
	}
	if b.judged != policy {
		b.judged, b.refusal = policy, b.bundle.View(func(module []byte) error { return policy.Check(module, b.bundle.Signature) })
	}
	return b.refusal
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
