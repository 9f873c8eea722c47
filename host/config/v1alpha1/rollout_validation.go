package v1alpha1

import (
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/provenance"
)

func validateRollout(r Rollout, path *field.Path) (errs field.ErrorList) {
	errs = append(errs, mode(path.Child("probe"), r.Probe)...)
	errs = append(errs, mode(path.Child("shadow"), r.Shadow)...)
	errs = append(errs, mode(path.Child("observe"), r.Observe)...)
	errs = append(errs, between(path.Child("shadowSamples"), r.ShadowSamples, 1, 1000)...)
	errs = append(errs, between(path.Child("observePeriod"), r.ObservePeriod.Duration, time.Second, 24*time.Hour)...)
	budget := path.Child("errorBudget")
	errs = append(errs, betweenPointer(budget.Child("failures"), r.ErrorBudget.Failures, 0, 1_000_000)...)
	return append(errs, betweenPointer(budget.Child("percent"), r.ErrorBudget.Percent, 0, 100)...)
}

func mode(path *field.Path, m PhaseMode) field.ErrorList {
	switch m {
	case PhaseRequired, PhaseAllowed, PhaseOff:
		return nil
	}
	return field.ErrorList{field.NotSupported(path, m, []PhaseMode{PhaseRequired, PhaseAllowed, PhaseOff})}
}

func betweenPointer(path *field.Path, value *int, low, high int) field.ErrorList {
	if value == nil {
		return field.ErrorList{field.Required(path, "")}
	}
	return between(path, *value, low, high)
}

func validateProvenance(p Provenance, path *field.Path) (errs field.ErrorList) {
	digests, keys := path.Child("digests"), path.Child("publicKeys")
	if len(p.Digests) > maxProvenance {
		return field.ErrorList{field.TooMany(digests, len(p.Digests), maxProvenance)}
	}
	if len(p.PublicKeys) > maxProvenance {
		return field.ErrorList{field.TooMany(keys, len(p.PublicKeys), maxProvenance)}
	}
	for i, digest := range p.Digests {
		errs = append(errs, checked(digests.Index(i), digest, provenance.CheckDigest)...)
	}
	for i, key := range p.PublicKeys {
		// The text is not repeated: it may be a private key by mistake.
		if err := provenance.CheckKey(key); err != nil {
			errs = append(errs, field.Invalid(keys.Index(i), "...", err.Error()))
		}
	}
	return errs
}
