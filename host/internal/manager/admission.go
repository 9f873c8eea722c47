package manager

import (
	"errors"

	corev1 "k8s.io/api/core/v1"

	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/provenance"
	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/rollout"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/plugin"
)

// eventNotAdmitted is of a module that serves, and that no manager would load by
// the provenance that is demanded now. It is also the reason of the condition.
const eventNotAdmitted = "ServingModuleNotAdmitted"

// admits returns why a generation could not be loaded by the provenance of now,
// or nil.
func (l *providerLoader) admits(g *plugin.Generation) error {
	l.mu.Lock()
	policy, b := l.current.provenance, l.loaded[g]
	l.mu.Unlock()
	if b == nil || policy == nil {
		return nil
	}
	return b.bundle.View(func(module []byte) error { return policy.Check(module, b.bundle.Signature) })
}

// admission tells once that what serves ends with the manager, as nothing else
// shows it until then.
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
