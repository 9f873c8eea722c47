package status

import (
	"context"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/yaml"
)

const (
	// PhaseRemoved is that of a provider which is not configured any more.
	PhaseRemoved = "Removed"
	// reasonNotConfigured is its reason.
	reasonNotConfigured = "NotConfigured"
	// maxProviders bounds the names in a status.
	maxProviders = 64
)

// Providers returns the names of the providers that were configured when the
// status was written last; none when it is not there or cannot be read.
func (o *Object) Providers(ctx context.Context) ([]string, error) {
	cm, err := o.get(ctx, o.Name())
	if err != nil || cm == nil {
		return nil, err
	}
	return parseStatus(cm.Data[keyStatus]).Providers, nil
}

// Remove says in the status that the provider is not configured any more, and
// reports whether the status said otherwise before. It makes no status where
// there is none.
func (o *Object) Remove(ctx context.Context, message string) (removed bool, err error) {
	cm, err := o.get(ctx, o.Name())
	if err != nil || cm == nil || cm.Data[keyStatus] == "" || cm.Labels[LabelPhase] == PhaseRemoved {
		return false, err
	}
	s := parseStatus(cm.Data[keyStatus])
	s.Phase, s.Reason, s.Message, s.Since = PhaseRemoved, reasonNotConfigured, message, o.clock.Now()
	s.Offered, s.Serving, s.Candidate, s.Generation, s.Providers = nil, nil, nil, 0, nil
	for i := range s.Conditions {
		s.Conditions[i].Status, s.Conditions[i].Reason, s.Conditions[i].Message = metav1.ConditionFalse, reasonNotConfigured, ""
	}
	s = s.bounded()
	text, err := yaml.Marshal(s)
	if err != nil {
		return false, err
	}
	err = o.apply(ctx, o.config().WithLabels(s.labels()).WithData(map[string]string{keyStatus: string(text)}), managerStatus)
	return err == nil, err
}

// parseStatus returns what can be read of a status: others may write it, too.
func parseStatus(text string) (s Status) {
	if len(text) > maxRecord || yaml.Unmarshal([]byte(text), &s) != nil {
		return Status{}
	}
	return s.bounded()
}

// names returns those of providers that are names, in order.
func names(providers []string) []string {
	valid := slices.DeleteFunc(slices.Clone(providers), func(name string) bool { return len(validation.IsDNS1123Label(name)) > 0 })
	slices.SortFunc(valid, strings.Compare)
	valid = slices.Compact(valid)
	return valid[:min(len(valid), maxProviders)]
}
