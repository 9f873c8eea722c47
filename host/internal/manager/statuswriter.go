package manager

import (
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/rollout"
	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/status"
	"github.com/wasm-ccm/wasm-ccm/host/internal/version"
	"github.com/wasm-ccm/wasm-ccm/host/status/v1alpha1"
)

// statusWriter makes the status that kubectl shows of what a rollout reports.
type statusWriter struct {
	object *status.Object
	// told is who else shows the status; nil: nobody.
	told func(status.Status)
	// providers are all that are configured.
	providers []string

	mu     sync.Mutex
	status status.Status
}

// report publishes where the rollout stands; unadmitted says why what serves would
// not be loaded now.
func (w *statusWriter) report(x rollout.Report, unadmitted string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := &w.status
	if s.Phase != string(x.Phase) || s.Reason != x.Reason {
		if s.Since = x.Since; s.Since.IsZero() {
			s.Since = time.Now()
		}
	}
	s.Phase, s.Reason, s.Message = string(x.Phase), x.Reason, x.Message
	if s.Generation != x.Generation { // how the one before has ticked says nothing of this one
		meta.RemoveStatusCondition(&s.Conditions, v1alpha1.ConditionTicked)
	}
	s.Generation, s.Paused, s.Providers = x.Generation, x.Paused, w.providers
	s.Manager = version.Release()
	s.Offered, s.Serving = (*status.Version)(x.Offered), (*status.Version)(x.Serving)
	s.Candidate, s.Good = (*status.Version)(x.Candidate), (*status.Version)(x.Good)
	w.condition(v1alpha1.ConditionServing, x.Serving != nil, servingReason(x, unadmitted), unadmitted)
	w.condition(v1alpha1.ConditionProgressing, x.Candidate != nil || x.Phase == rollout.Serving, string(x.Phase), x.Message)
	w.publish()
}

// servingReason is about what serves. The phase is about what is offered.
func servingReason(x rollout.Report, unadmitted string) string {
	switch {
	case x.Serving == nil:
		return "NothingServes"
	case unadmitted != "":
		return eventNotAdmitted
	case x.Good != nil && x.Good.Revision == x.Serving.Revision:
		return "Kept"
	}
	return "Observed"
}

// among says which providers are configured.
func (w *statusWriter) among(providers []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.providers, w.status.Providers = providers, providers
	w.publish()
}

// durable says whether a restart would find what was kept.
func (w *statusWriter) durable(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	reason, message := "Written", ""
	if err != nil {
		reason, message = "NotKept", err.Error()
	}
	w.condition(v1alpha1.ConditionDurable, err == nil, reason, message)
	w.publish()
}

// configured says whether the HostConfiguration is in force as it is written; a
// problem says why it is not. It reports whether there was one before.
func (w *statusWriter) configured(problem string) (mended bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	reason := "Accepted"
	if problem != "" {
		reason = "Rejected"
	}
	mended = problem == "" && meta.IsStatusConditionFalse(w.status.Conditions, v1alpha1.ConditionConfigured)
	w.condition(v1alpha1.ConditionConfigured, problem == "", reason, problem)
	w.publish()
	return mended
}

// source says whether the registry can be asked; a reason says why not. It
// reports whether it could not be asked before.
func (w *statusWriter) source(reason, message string) (mended bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	mended = reason == "" && meta.IsStatusConditionFalse(w.status.Conditions, v1alpha1.ConditionSource)
	available := reason == ""
	if available {
		reason = "Reached"
	}
	w.condition(v1alpha1.ConditionSource, available, reason, message)
	w.publish()
	return mended
}

// ticked says how the last op tick ended; a problem says why it failed. The
// status is written when that changes.
func (w *statusWriter) ticked(problem string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	reason := "Done"
	if problem != "" {
		reason = "Failed"
	}
	w.condition(v1alpha1.ConditionTicked, problem == "", reason, problem)
	w.publish()
}

// sourceReplaced forgets what was said of a registry.
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
		return // where the rollout stands comes with its first report
	}
	s := w.status
	s.Conditions = slices.Clone(s.Conditions)
	w.object.Publish(s)
	if w.told != nil {
		w.told(s)
	}
}
