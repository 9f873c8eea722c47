package explain

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/wasm-ccm/wasm-ccm/host/internal/report"
	"github.com/wasm-ccm/wasm-ccm/host/status/v1alpha1"
)

// heard explains the control loop's last result. It reports whether that was an
// error.
func heard(e *v1alpha1.Explanation, f Facts) bool {
	h := f.Heard
	if h == nil || h.Cause == "" {
		return false
	}
	since(e, h.Since)
	if h.Cause == report.NotAskedYet {
		is(e, v1alpha1.StateProgressing, report.NotAskedYet, "it failed under the previous generation; generation %d serves and has not been asked yet", f.Provider.Generation)
		e.WaitsFor = "its turn: what failed is asked again within seconds, a few objects per second"
		return true
	}
	e.WaitsFor = "the control loop tries again, at the latest 5 minutes after the last time, and at once when the provider or its configuration changes"
	if h.Cause == report.Postponed {
		postponed(e, f, h)
		return true
	}
	is(e, v1alpha1.StateStuck, h.Cause, "%s", h.Message)
	if host := openBreaker(f.Provider); host != nil && h.Cause == report.CloudUnavailable {
		breaker(e, f, host)
		e.Message += "; " + h.Message
		return true
	}
	advise(e, f)
	return true
}

func postponed(e *v1alpha1.Explanation, f Facts, h *Heard) {
	state := v1alpha1.StateProgressing
	if f.Now.Sub(h.Since) >= report.SlowAfter {
		state = v1alpha1.StateStuck
	}
	cause := report.Postponed
	if h.Code == "throttled" {
		cause = report.Throttled
	}
	is(e, state, cause, "%s", h.Message)
	e.WaitsFor = fmt.Sprintf("it is tried again after %v, at %s", h.RetryAfter.Round(time.Second), clock(h.At.Add(h.RetryAfter)))
	advise(e, f)
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
func breaker(e *v1alpha1.Explanation, f Facts, host *v1alpha1.Host) {
	is(e, v1alpha1.StateStuck, report.Breaker, "nothing is sent to %s, because requests to it failed (the breaker is %s); the last: %s", host.Host, host.Breaker, orNone(host.LastFault))
	if !host.Until.IsZero() {
		e.WaitsFor = "one request is let through at " + clock(host.Until.Time)
	}
	advise(e, f)
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
