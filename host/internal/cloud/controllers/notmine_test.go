package controllers

import (
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cloudproviderapi "k8s.io/cloud-provider/api"
)

// TestNodesThatAreAnothersStayAsTheyAre: upstream lets an uninitialised Node be
// when a provider has no metadata and no error for it, and does not survive the
// same for an initialised one.
func TestNodesThatAreAnothersStayAsTheyAre(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		young := node("a-young", "", corev1.ConditionTrue)
		young.Spec.Taints = []corev1.Taint{{Key: cloudproviderapi.TaintExternalCloudProvider, Value: "true", Effect: corev1.TaintEffectNoSchedule}}
		old := node("a-old", "other://1", corev1.ConditionTrue)
		old.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "10.1.2.3"}}
		w := newWorld(t, young, old)
		a := newCloud("a")
		a.notMine = true
		w.start(a.provider())
		for range 20 {
			time.Sleep(time.Minute)
		}
		synctest.Wait()
		for _, want := range []*corev1.Node{young, old} {
			got, err := w.api.CoreV1().Nodes().Get(t.Context(), want.Name, metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if len(got.Spec.Taints) != len(want.Spec.Taints) || got.Spec.ProviderID != want.Spec.ProviderID || len(got.Status.Addresses) != len(want.Status.Addresses) {
				t.Errorf("%s has changed: %v, %v", want.Name, got.Spec, got.Status.Addresses)
			}
		}
		if n := a.count("metadata a-young"); n < 1 || n > 2 {
			t.Errorf("it was asked %d times about the uninitialised one; nothing has changed since the first", n)
		}
		if n := a.count("metadata a-old"); n < 2 {
			t.Errorf("it was asked %d times about the initialised one", n)
		}
		w.stop()
	})
}
