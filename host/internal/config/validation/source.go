package validation

import (
	"path/filepath"
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/wasm-ccm/wasm-ccm/host/config/v1alpha1"
	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/registry"
)

func validateSource(s v1alpha1.Source, path *field.Path) field.ErrorList {
	given := 0
	for _, is := range []bool{s.ConfigMap != nil, s.Directory != "", s.OCI != nil} {
		if is {
			given++
		}
	}
	switch {
	case given != 1:
		return field.ErrorList{field.Required(path, "give exactly one of configMap, directory and oci")}
	case s.ConfigMap != nil:
		return reference(path.Child("configMap"), *s.ConfigMap)
	case s.OCI != nil:
		return validateOCI(s.OCI, path.Child("oci"))
	case !filepath.IsAbs(s.Directory):
		return field.ErrorList{field.Invalid(path.Child("directory"), s.Directory, "give an absolute path")}
	}
	return nil
}

func validateOCI(o *v1alpha1.OCISource, path *field.Path) (errs field.ErrorList) {
	ref, err := registry.ParseReference(o.Reference)
	if err != nil {
		errs = append(errs, field.Invalid(path.Child("reference"), o.Reference, err.Error()))
	}
	policy := path.Child("pullPolicy")
	switch {
	case o.PullPolicy != v1alpha1.PullAlways && o.PullPolicy != v1alpha1.PullIfNotPresent:
		errs = append(errs, field.NotSupported(policy, o.PullPolicy, []v1alpha1.PullPolicy{v1alpha1.PullAlways, v1alpha1.PullIfNotPresent}))
	case err == nil && ref.Digest() != "" && o.PullPolicy == v1alpha1.PullAlways:
		errs = append(errs, field.Invalid(policy, o.PullPolicy, "a digest stands for one image for ever: remove it, or give the reference by its tag alone"))
	}
	errs = append(errs, between(path.Child("interval"), o.Interval.Duration, 10*time.Second, 24*time.Hour)...)
	if o.PullSecret != nil {
		errs = append(errs, reference(path.Child("pullSecret"), *o.PullSecret)...)
	}
	return append(errs, validateBundle(path.Child("caBundle"), o.CABundle)...)
}
