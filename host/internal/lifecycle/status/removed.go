package status

import (
	"context"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/yaml"

	"github.com/wasm-ccm/wasm-ccm/host/internal/report"
)

const (
	// PhaseRemoved is the phase of a provider that is no longer configured.
	PhaseRemoved = "Removed"
	// maxProviders bounds the names in a status.
	maxProviders = 64
)

// Providers returns the names of the providers configured at the last write of the status;
// none if it is missing or unreadable.
func (o *Object) Providers(ctx context.Context) ([]string, error) {
	cm, err := o.get(ctx, o.Name())
	if err != nil || cm == nil {
		return nil, err
	}
	return parseStatus(cm.Data[keyStatus]).Providers, nil
}

// Remove marks the provider in its status as no longer configured, and reports whether that
// was a change. It does not create a missing status.
func (o *Object) Remove(ctx context.Context, message string) (removed bool, err error) {
	cm, err := o.get(ctx, o.Name())
	if err != nil || cm == nil || cm.Data[keyStatus] == "" || cm.Labels[LabelPhase] == PhaseRemoved {
		return false, err
	}
	s := parseStatus(cm.Data[keyStatus])
	s.Phase, s.Reason, s.Message, s.Since.Time = PhaseRemoved, report.NotConfigured, message, o.clock.Now()
	s.Offered, s.Serving, s.Candidate, s.Generation, s.Providers = nil, nil, nil, 0, nil
	for i := range s.Conditions {
		s.Conditions[i].Status, s.Conditions[i].Reason, s.Conditions[i].Message = metav1.ConditionFalse, report.NotConfigured, ""
	}
	s = s.bounded()
	text, err := yaml.Marshal(s)
	if err != nil {
		return false, err
	}
	err = o.apply(ctx, o.config().WithLabels(s.labels()).WithData(map[string]string{keyStatus: string(text)}), managerStatus)
	return err == nil, err
}

// parseStatus returns the readable fields of a status: others may write it, too.
func parseStatus(text string) (s Status) {
	if len(text) > maxRecord || yaml.Unmarshal([]byte(text), &s) != nil {
		return Status{}
	}
	return s.bounded()
}

// names returns the valid names of providers, sorted.
func names(providers []string) []string {
	valid := slices.DeleteFunc(slices.Clone(providers), func(name string) bool { return len(validation.IsDNS1123Label(name)) > 0 })
	slices.SortFunc(valid, strings.Compare)
	valid = slices.Compact(valid)
	return valid[:min(len(valid), maxProviders)]
}
