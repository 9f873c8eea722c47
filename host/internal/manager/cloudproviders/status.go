package cloudproviders

import (
	"regexp"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/wasm-ccm/wasm-ccm/host/config/v1alpha1"
	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/rollout"
	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/status"
	"github.com/wasm-ccm/wasm-ccm/host/internal/text"
)

// maxMessage bounds a message, in bytes.
const maxMessage = 2 << 10

// reasonStarting: nothing was told of the provider yet.
const reasonStarting = "Starting"

// statusOf says what became of an object of that generation, whose status was
// before. Known is what its provider has told last, nil when nothing is known.
func statusOf(generation int64, before v1alpha1.CloudProviderStatus, v verdict, known *status.Status) v1alpha1.CloudProviderStatus {
	s := v1alpha1.CloudProviderStatus{ObservedGeneration: generation, Conditions: slices.Clone(before.Conditions)}
	if known == nil {
		s.Phase, s.Reason = string(rollout.Waiting), reasonStarting
	} else {
		s.Phase, s.Reason, s.Message = known.Phase, known.Reason, text.Line(known.Message, maxMessage)
		s.Generation, s.Paused = known.Generation, known.Paused
		s.Offered, s.Serving = versionOf(known.Offered), versionOf(known.Serving)
	}
	if v.reason != "" {
		message := v.message
		if known != nil {
			message += "; the previous spec stays in force"
		}
		s.Phase, s.Reason, s.Message = string(rollout.Rejected), v.reason, text.Line(message, maxMessage)
	}
	if known == nil && v.reason == reasonInvalid {
		// What is the provider's stays its own, also for the managers that begin later: miss.
		s.Generation, s.Serving = before.Generation, before.Serving
	}
	setConditions(&s, v, known)
	return s
}

func versionOf(v *status.Version) *v1alpha1.ModuleVersion {
	if v == nil {
		return nil
	}
	return &v1alpha1.ModuleVersion{Name: v.Name, Version: v.Version, Digest: v.Digest, ConfigDigest: v.ConfigDigest, Engine: v.Engine}
}

// setConditions fits what kstatus makes of conditions: an object is done when
// neither Reconciling nor Stalled is there and Ready is true.
func setConditions(s *v1alpha1.CloudProviderStatus, v verdict, known *status.Status) {
	reason := conditionReason(s.Reason, s.Phase)
	degraded := isFailure(s.Phase)
	// A source that holds no module may do so at any time, as after an apply that
	// has not come to it yet.
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

// conditionReason returns the first that the API server takes for a reason.
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
