package main

import (
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/wasm-ccm/wasm-ccm/host/rollout"
	"github.com/wasm-ccm/wasm-ccm/host/status"
)

// Types of the conditions in a provider's status.
const (
	conditionServing     = "Serving"
	conditionProgressing = "Progressing"
	conditionDurable     = "Durable"
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
	s.Serving, s.Candidate, s.Good = (*status.Version)(x.Serving), (*status.Version)(x.Candidate), (*status.Version)(x.Good)
	w.condition(conditionServing, x.Serving != nil, string(x.Phase), "")
	w.condition(conditionProgressing, x.Candidate != nil || x.Phase == rollout.Serving, string(x.Phase), x.Message)
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
	w.condition(conditionDurable, err == nil, reason, message)
	w.publish()
}

func (w *statusWriter) condition(kind string, yes bool, reason, message string) {
	c := metav1.Condition{Type: kind, Status: metav1.ConditionFalse, Reason: reason, Message: message}
	if yes {
		c.Status = metav1.ConditionTrue
	}
	meta.SetStatusCondition(&w.status.Conditions, c)
}

func (w *statusWriter) publish() {
	s := w.status
	s.Conditions = slices.Clone(s.Conditions)
	w.object.Publish(s)
}
