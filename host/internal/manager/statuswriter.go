package manager

import (
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/rollout"
	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/status"
	"github.com/wasm-ccm/wasm-ccm/host/internal/report"
	"github.com/wasm-ccm/wasm-ccm/host/internal/version"
	"github.com/wasm-ccm/wasm-ccm/host/status/v1alpha1"
)

// statusWriter builds the status that kubectl shows from a rollout's reports.
type statusWriter struct {
	object *status.Object
	// told receives the status, too; nil: nobody.
	told func(status.Status)
	// providers are all configured ones.
	providers []string

	mu     sync.Mutex
	status status.Status
}

// report publishes the state of the rollout; unadmitted is why the serving
// module would not be loaded now.
func (w *statusWriter) report(x rollout.Report, unadmitted string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := &w.status
	if s.Phase != string(x.Phase) || s.Reason != x.Reason {
		if s.Since.Time = x.Since; s.Since.IsZero() {
			s.Since = metav1.Now()
		}
	}
	s.Phase, s.Reason, s.Message = string(x.Phase), x.Reason, x.Message
	if s.Generation != x.Generation { // the previous generation's ticks say nothing about this one
		meta.RemoveStatusCondition(&s.Conditions, v1alpha1.ConditionTicked)
	}
	s.Generation, s.Paused, s.Providers = x.Generation, x.Paused, w.providers
	s.Manager = version.Release()
	s.Offered, s.Serving, s.Candidate, s.Good = x.Offered, x.Serving, x.Candidate, x.Good
	w.condition(v1alpha1.ConditionServing, x.Serving != nil, servingReason(x, unadmitted), unadmitted)
	w.condition(v1alpha1.ConditionProgressing, x.Candidate != nil || x.Phase == rollout.Serving, string(x.Phase), x.Message)
	w.publish()
}

// eventNotAdmitted is for a serving module that the current provenance no
// longer admits. It is also the reason of the condition.
const eventNotAdmitted = report.ServingModuleNotAdmitted

// servingReason is about the serving module. The phase is about the offered one.
func servingReason(x rollout.Report, unadmitted string) string {
	switch {
	case x.Serving == nil:
		return report.NothingServes
	case unadmitted != "":
		return eventNotAdmitted
	case x.Good != nil && x.Good.Revision == x.Serving.Revision:
		return report.Kept
	}
	return report.Observed
}

// among sets the names of the configured providers.
func (w *statusWriter) among(providers []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.providers, w.status.Providers = providers, providers
	w.publish()
}

// durable sets whether the stored record is complete, so that a restart could use it.
func (w *statusWriter) durable(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	reason, message := report.Written, ""
	if err != nil {
		reason, message = report.NotDurable, err.Error()
	}
	w.condition(v1alpha1.ConditionDurable, err == nil, reason, message)
	w.publish()
}

// configured sets whether the present HostConfiguration is in force: report.Accepted,
// or the reason why not. It reports whether it was not before.
func (w *statusWriter) configured(reason, problem string) (mended bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	mended = reason == report.Accepted && meta.IsStatusConditionFalse(w.status.Conditions, v1alpha1.ConditionConfigured)
	w.condition(v1alpha1.ConditionConfigured, reason == report.Accepted, reason, problem)
	w.publish()
	return mended
}

// source sets whether the registry can be reached; a reason is set if not. It
// reports whether it could not be reached before.
func (w *statusWriter) source(reason, message string) (mended bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	mended = reason == "" && meta.IsStatusConditionFalse(w.status.Conditions, v1alpha1.ConditionSource)
	available := reason == ""
	if available {
		reason = report.Reached
	}
	w.condition(v1alpha1.ConditionSource, available, reason, message)
	w.publish()
	return mended
}

// ticked sets the result of the last op tick; a problem is its error. A change
// is written to the status.
func (w *statusWriter) ticked(problem string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	reason := report.Done
	if problem != "" {
		reason = report.TickFailed
	}
	w.condition(v1alpha1.ConditionTicked, problem == "", reason, problem)
	w.publish()
}

// sourceReplaced drops the state of a registry.
func (w *statusWriter) sourceReplaced() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if meta.RemoveStatusCondition(&w.status.Conditions, v1alpha1.ConditionSource) {
		w.publish()
	}
}

func (w *statusWriter) condition(kind string, yes bool, reason, message string) {
	c := metav1.Condition{Type: kind, Status: metav1.ConditionFalse, Reason: reason, Message: message}
	if yes {
		c.Status = metav1.ConditionTrue
	}
	meta.SetStatusCondition(&w.status.Conditions, c)
}

func (w *statusWriter) publish() {
	if w.status.Phase == "" {
		return // the first report of the rollout publishes the status
	}
	s := w.status
	s.Conditions = slices.Clone(s.Conditions)
	w.object.Publish(s)
	if w.told != nil {
		w.told(s)
	}
}
