package validation

import (
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/wasm-ccm/wasm-ccm/host/config/v1alpha1"
	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/provenance"
)

func validateRollout(r v1alpha1.Rollout, path *field.Path) (errs field.ErrorList) {
	errs = append(errs, mode(path.Child("probe"), r.Probe)...)
	errs = append(errs, mode(path.Child("shadow"), r.Shadow)...)
	errs = append(errs, mode(path.Child("observe"), r.Observe)...)
	errs = append(errs, between(path.Child("shadowSamples"), r.ShadowSamples, 1, 1000)...)
	errs = append(errs, between(path.Child("observePeriod"), r.ObservePeriod.Duration, time.Second, 24*time.Hour)...)
	budget := path.Child("errorBudget")
	errs = append(errs, betweenPointer(budget.Child("failures"), r.ErrorBudget.Failures, 0, 1_000_000)...)
	return append(errs, betweenPointer(budget.Child("percent"), r.ErrorBudget.Percent, 0, 100)...)
}

func mode(path *field.Path, m v1alpha1.PhaseMode) field.ErrorList {
	switch m {
	case v1alpha1.PhaseRequired, v1alpha1.PhaseAllowed, v1alpha1.PhaseOff:
		return nil
	}
	return field.ErrorList{field.NotSupported(path, m, []v1alpha1.PhaseMode{v1alpha1.PhaseRequired, v1alpha1.PhaseAllowed, v1alpha1.PhaseOff})}
}

func betweenPointer(path *field.Path, value *int, low, high int) field.ErrorList {
	if value == nil {
		return field.ErrorList{field.Required(path, "")}
	}
	return between(path, *value, low, high)
}

func validateProvenance(p v1alpha1.Provenance, path *field.Path) (errs field.ErrorList) {
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
		// The error does not quote the text: it may be a private key by mistake.
		if err := provenance.CheckKey(key); err != nil {
			errs = append(errs, field.Invalid(keys.Index(i), "...", err.Error()))
		}
	}
	errs = append(errs, demanded(path.Child("repository"), p, p.Repository, provenance.CheckRepository)...)
	return append(errs, demanded(path.Child("minimumVersion"), p, p.MinimumVersion, provenance.CheckMinimum)...)
}

// demanded checks a value that only a signature can prove.
func demanded(path *field.Path, p v1alpha1.Provenance, value string, check func(string) error) field.ErrorList {
	switch {
	case value == "":
		return nil
	case len(p.PublicKeys) == 0:
		return field.ErrorList{field.Invalid(path, value, "only a signature makes it true: add publicKeys")}
	}
	return checked(path, value, check)
}
