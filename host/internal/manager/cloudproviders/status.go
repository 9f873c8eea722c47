package cloudproviders

import (
	"regexp"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/wasm-ccm/wasm-ccm/host/config/v1alpha1"
	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/rollout"
	"github.com/wasm-ccm/wasm-ccm/host/internal/text"
	status "github.com/wasm-ccm/wasm-ccm/host/status/v1alpha1"
)

// maxMessage bounds a message, in bytes.
const maxMessage = 2 << 10

// reasonStarting: there is no report about the provider yet.
const reasonStarting = "Starting"

// statusOf returns the new status of an object of that generation, after the
// status before. Known is its provider's last report, nil without one.
func statusOf(generation int64, before v1alpha1.CloudProviderStatus, v verdict, known *status.Provider) v1alpha1.CloudProviderStatus {
	s := v1alpha1.CloudProviderStatus{ObservedGeneration: generation, Conditions: slices.Clone(before.Conditions)}
	if known == nil {
		s.Phase, s.Reason = string(rollout.Waiting), reasonStarting
	} else {
		s.Phase, s.Reason, s.Message = known.Phase, known.Reason, text.Line(known.Message, maxMessage)
		s.Generation, s.Paused = known.Generation, known.Paused
		s.Offered, s.Serving = moduleVersion(known.Offered), moduleVersion(known.Serving)
	}
	if v.reason != "" {
		message := v.message
		if known != nil {
			message += "; the previous spec stays in force"
		}
		s.Phase, s.Reason, s.Message = string(rollout.Rejected), v.reason, text.Line(message, maxMessage)
	}
	if known == nil && v.reason == reasonInvalid {
		// A later manager needs the serving module of an object with a mistake: miss.
		s.Generation, s.Serving = before.Generation, before.Serving
	}
	setConditions(&s, v, known)
	return s
}

// moduleVersion leaves the revision out: metadata.generation and the digests say enough.
func moduleVersion(m *status.Module) *v1alpha1.ModuleVersion {
	if m == nil {
		return nil
	}
	return &v1alpha1.ModuleVersion{
		Name: m.Name, Version: m.Version, Digest: m.Digest, ConfigDigest: m.ConfigDigest, ImageDigest: m.ImageDigest, Engine: m.Engine,
	}
}

// setConditions follows kstatus: an object is complete when neither Reconciling
// nor Stalled is present and Ready is true.
func setConditions(s *v1alpha1.CloudProviderStatus, v verdict, known *status.Provider) {
	reason := conditionReason(s.Reason, s.Phase)
	degraded := isFailure(s.Phase)
	// An empty source is no final failure: its module may follow later, as
	// after an apply in progress.
	stalled := degraded && v.reason != reasonNotApplied && (v.reason != "" || s.Phase != string(rollout.Rejected) || s.Offered != nil)
	progressing := !stalled && s.Phase != string(rollout.Kept)
	ready := metav1.Condition{Type: v1alpha1.ConditionReady, Status: metav1.ConditionUnknown, Reason: reason, Message: s.Message}
	switch {
	case s.Serving != nil && known != nil:
		ready.Status, ready.Reason, ready.Message = metav1.ConditionTrue, "Serving", servingMessage(s.Serving)
	case known != nil || v.reason != "":
		ready.Status = metav1.ConditionFalse
	}
	set := func(c metav1.Condition) {
		c.ObservedGeneration = s.ObservedGeneration
		meta.SetStatusCondition(&s.Conditions, c)
	}
	set(ready)
	set(condition(v1alpha1.ConditionProgressing, progressing, reason, s.Message))
	set(condition(v1alpha1.ConditionDegraded, degraded, reason, s.Message))
	for kind, is := range map[string]bool{v1alpha1.ConditionReconciling: progressing, v1alpha1.ConditionStalled: stalled} {
		if is {
			set(condition(kind, true, reason, s.Message))
		} else {
			meta.RemoveStatusCondition(&s.Conditions, kind)
		}
	}
	slices.SortFunc(s.Conditions, byType)
}

func servingMessage(v *v1alpha1.ModuleVersion) string {
	return "module " + v.Name + " " + v.Version + " serves"
}

func isFailure(phase string) bool {
	return slices.Contains([]string{string(rollout.Rejected), string(rollout.Held), string(rollout.RolledBack)}, phase)
}

func condition(kind string, is bool, reason, message string) metav1.Condition {
	c := metav1.Condition{Type: kind, Status: metav1.ConditionFalse, Reason: reason, Message: message}
	if is {
		c.Status = metav1.ConditionTrue
	}
	return c
}

// conditionReason returns the first reason that the API server accepts.
func conditionReason(reasons ...string) string {
	for _, reason := range reasons {
		if regexp.MustCompile(`^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$`).MatchString(reason) && len(reason) <= 256 {
			return reason
		}
	}
	return reasonStarting
}

func byType(a, b metav1.Condition) int {
	order := []string{v1alpha1.ConditionReady, v1alpha1.ConditionProgressing, v1alpha1.ConditionDegraded, v1alpha1.ConditionReconciling, v1alpha1.ConditionStalled}
	return slices.Index(order, a.Type) - slices.Index(order, b.Type)
}
