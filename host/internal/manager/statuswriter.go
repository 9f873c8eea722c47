package manager

import (
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/rollout"
	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/status"
)

// Types of the conditions in a provider's status.
const (
	conditionServing     = "Serving"
	conditionProgressing = "Progressing"
	conditionDurable     = "Durable"
	// conditionConfigured is there where there is a file of --config.
	conditionConfigured = "Configured"
)

// statusWriter makes the status that kubectl shows of what a rollout reports.
type statusWriter struct {
	object *status.Object
	// providers are all that are configured.
	providers []string

	mu     sync.Mutex
	status status.Status
}

// report publishes where the rollout stands.
func (w *statusWriter) report(x rollout.Report) {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := &w.status
	if s.Phase != string(x.Phase) || s.Reason != x.Reason {
		s.Since = time.Now()
	}
	s.Phase, s.Reason, s.Message = string(x.Phase), x.Reason, x.Message
	s.Generation, s.Paused, s.Providers = x.Generation, x.Paused, w.providers
	s.Offered, s.Serving = (*status.Version)(x.Offered), (*status.Version)(x.Serving)
	s.Candidate, s.Good = (*status.Version)(x.Candidate), (*status.Version)(x.Good)
	w.condition(conditionServing, x.Serving != nil, servingReason(x), "")
	w.condition(conditionProgressing, x.Candidate != nil || x.Phase == rollout.Serving, string(x.Phase), x.Message)
	w.publish()
}

// servingReason is about what serves. The phase is about what is offered.
func servingReason(x rollout.Report) string {
	switch {
	case x.Serving == nil:
		return "NothingServes"
	case x.Good != nil && x.Good.Revision == x.Serving.Revision:
		return "Kept"
	}
	return "Observed"
}

// durable says whether a restart would find what was kept.
func (w *statusWriter) durable(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	reason, message := "Written", ""
	if err != nil {
		reason, message = "NotKept", err.Error()
	}
	w.condition(conditionDurable, err == nil, reason, message)
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
	mended = problem == "" && meta.IsStatusConditionFalse(w.status.Conditions, conditionConfigured)
	w.condition(conditionConfigured, problem == "", reason, problem)
	w.publish()
	return mended
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
}
