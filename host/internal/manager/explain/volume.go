package explain

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/wasm-ccm/wasm-ccm/host/internal/report"
	"github.com/wasm-ccm/wasm-ccm/host/status/v1alpha1"
)

// Volume explains why a PersistentVolume has the labels of its zone or not.
func Volume(v *corev1.PersistentVolume, f Facts) v1alpha1.Explanation {
	e := begin(v1alpha1.KindVolume, "", v.Name, f)
	zone, labelled := v.Labels[corev1.LabelTopologyZone]
	if !labelled {
		zone, labelled = v.Labels[corev1.LabelFailureDomainBetaZone]
	}
	switch {
	case labelled:
		is(&e, v1alpha1.StateDone, "", "it has the label of its zone %s", zone)
	case v.DeletionTimestamp != nil:
		is(&e, v1alpha1.StateDone, "", "it is being deleted, and gets no labels any more")
	case f.Provider == nil:
		is(&e, v1alpha1.StateIgnored, report.NoProvider, "no provider has its CSI driver, or the scheme of its handle (routing.volumes), so it is left alone")
	case f.Provider.Serving != nil && !running(f.Provider, volumeLoop):
		is(&e, v1alpha1.StateIgnored, report.NotImplemented, "the manager labels no volumes for provider %s: its module cannot, or --controllers leaves the loop out", e.Provider)
	case idle(&e, f, volumeLoop), asked(&e, f), heard(&e, f):
	case f.Heard != nil:
		is(&e, v1alpha1.StateDone, "", "provider %s has answered; either it has no zone for the volume, or the log has why its label could not be written", e.Provider)
	default:
		is(&e, v1alpha1.StateProgressing, report.NotAskedYet, "the loop has not reached it yet")
		since(&e, v.CreationTimestamp.Time)
		e.WaitsFor = "its turn"
	}
	return bounded(e)
}
