package explain_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/wasm-ccm/wasm-ccm/host/internal/manager/explain"
	"github.com/wasm-ccm/wasm-ccm/host/internal/report"
	"github.com/wasm-ccm/wasm-ccm/host/status/v1alpha1"
)

// A volume is stuck while its provider fails, and never one that needs nothing.
func TestVolume(t *testing.T) {
	bare := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "data"}}
	labelled, leaving := bare.DeepCopy(), bare.DeepCopy()
	labelled.Labels = map[string]string{corev1.LabelFailureDomainBetaZone: "a"}
	leaving.DeletionTimestamp = &metav1.Time{Time: time.Now()}
	serves := &v1alpha1.Provider{Name: "p", Serving: &v1alpha1.Module{}, Loops: []v1alpha1.Loop{{Name: "persistentvolume-label", Running: true}}}
	failed := explain.Facts{Provider: serves, Heard: &explain.Heard{Cause: report.Refused, Message: "no such zone"}}
	for name, test := range map[string]struct {
		volume *corev1.PersistentVolume
		facts  explain.Facts
		state  v1alpha1.State
		cause  string
	}{
		"it failed":               {bare, failed, v1alpha1.StateStuck, report.Refused},
		"labelled since":          {labelled, failed, v1alpha1.StateDone, ""},
		"being deleted":           {leaving, failed, v1alpha1.StateDone, ""},
		"another cloud's":         {bare, explain.Facts{Provider: serves, Heard: &explain.Heard{}}, v1alpha1.StateDone, ""},
		"not asked":               {bare, explain.Facts{Provider: serves}, v1alpha1.StateProgressing, report.NotAskedYet},
		"nobody's":                {bare, explain.Facts{}, v1alpha1.StateIgnored, report.NoProvider},
		"a module without ops":    {bare, explain.Facts{Provider: &v1alpha1.Provider{Serving: &v1alpha1.Module{}}}, v1alpha1.StateIgnored, report.NotImplemented},
		"nothing serves":          {bare, explain.Facts{Provider: &v1alpha1.Provider{}}, v1alpha1.StateStuck, report.NothingServes},
		"an op without an answer": {bare, explain.Facts{Provider: serves, Failing: &explain.Failing{Failures: 1}}, v1alpha1.StateStuck, report.NoAnswer},
	} {
		if e := explain.Volume(test.volume, test.facts); e.State != test.state || e.Cause != test.cause || e.Object.Kind != v1alpha1.KindVolume {
			t.Errorf("%s: %+v", name, e)
		}
	}
}
