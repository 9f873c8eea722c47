package report

import "slices"

// Reasons of conditions that are True.
const (
	Accepted = "Accepted" // Configured
	Reached  = "Reached"  // SourceAvailable
	Written  = "Written"  // Durable
	Done     = "Done"     // Ticked
	Kept     = "Kept"     // Serving
	Observed = "Observed" // Serving
)

// NotConfigured is the reason of each condition of a removed provider.
const NotConfigured = "NotConfigured"

// Condition is a condition of a provider that should be True.
type Condition struct {
	// Type is as in host/status/v1alpha1, True its reason while it is.
	Type, True string
	// False are the causes while it is not, the usual one first. The reason of the
	// condition is one of them, or, of a registry, that of its answer.
	False []string
}

// Conditions are all of them, besides those of a rollout.
func Conditions() []Condition {
	return []Condition{
		{"Configured", Accepted, []string{HostConfigurationRejected, HostConfigurationPending}},
		{"SourceAvailable", Reached, []string{SourceUnavailable}},
		{"Durable", Written, []string{NotDurable}},
		{"Ticked", Done, []string{TickFailed}},
	}
}

// OfCondition returns the cause of a condition that is False for a reason. Managers of
// earlier releases have other reasons.
func OfCondition(kind, reason string) Cause {
	for _, c := range Conditions() {
		if c.Type == kind && slices.Contains(c.False, reason) {
			return Find(reason)
		} else if c.Type == kind {
			return Find(c.False[0])
		}
	}
	return Find(ConditionFalse)
}
