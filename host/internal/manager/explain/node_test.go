package explain_test

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cloudproviderapi "k8s.io/cloud-provider/api"

	"github.com/wasm-ccm/wasm-ccm/host/internal/cloud/brake"
	"github.com/wasm-ccm/wasm-ccm/host/internal/manager/explain"
	"github.com/wasm-ccm/wasm-ccm/host/internal/report"
	"github.com/wasm-ccm/wasm-ccm/host/status/v1alpha1"
)

// Of an unknown machine the next step shows what the provider was asked about.
func TestTheNextStepOfAnUnknownMachineHelps(t *testing.T) {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}, Spec: corev1.NodeSpec{Taints: []corev1.Taint{{Key: cloudproviderapi.TaintExternalCloudProvider}}}}
	e := explain.Node(node, explain.Facts{
		Provider: &v1alpha1.Provider{Name: "static", Serving: &v1alpha1.Module{}, Loops: []v1alpha1.Loop{{Name: "cloud-node-controller", Running: true}}},
		Heard:    &explain.Heard{Cause: report.MachineUnknown, Message: "no"},
	})
	const want = "kubectl get node n1 -o custom-columns=NAME:.metadata.name,PROVIDERID:.spec.providerID"
	if len(e.Next) != 1 || e.Next[0].Command != want {
		t.Errorf("next is %+v, want %s", e.Next, want)
	}
}

// A list of instances refreshes a Node without an op about it, also from a newer generation.
func TestWhenTheAddressesWereTold(t *testing.T) {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}, Spec: corev1.NodeSpec{ProviderID: "static://n1"}}
	e := explain.Node(node, explain.Facts{
		Provider: &v1alpha1.Provider{Name: "static", Serving: &v1alpha1.Module{}, Loops: []v1alpha1.Loop{{Name: "cloud-node-controller", Running: true}}},
		Asked:    &v1alpha1.Op{Name: "instance_metadata", At: metav1.Unix(0, 0), Generation: 1},
		Heard:    &explain.Heard{Op: "metadata", At: time.Unix(60, 0)},
	})
	if want := "provider static has initialised it as static://n1, and told its addresses last at 1970-01-01T00:01:00Z"; e.State != v1alpha1.StateDone || !strings.HasPrefix(e.Message, want) {
		t.Errorf("%s: %s", e.State, e.Message)
	}
}

// The next step for a held Node is always a helpful one: lifting the brake for all
// Nodes comes last, and only if the brake holds this one. The time is the brake's.
func TestTheNextStepOfAHeldNodeHelps(t *testing.T) {
	source, err := os.ReadFile("../../cloud/brake/observer.go")
	if err != nil {
		t.Fatal(err)
	}
	until := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}, Spec: corev1.NodeSpec{ProviderID: "x://1"}}
	all := regexp.MustCompile(`Reason = "(\w+)"`).FindAllSubmatch(source, -1)
	for _, match := range all {
		reason := brake.Reason(match[1])
		e := explain.Node(node, explain.Facts{Namespace: "kube-system", Provider: &v1alpha1.Provider{Name: "static"}, Held: &explain.Held{
			Reason: string(reason), Message: "why", Until: until, Lifts: reason.Lifts(),
		}})
		lift := slices.IndexFunc(e.Next, func(s v1alpha1.Step) bool { return strings.Contains(s.Command, "deletion-brake-lifted-until") })
		own := slices.IndexFunc(e.Next, func(s v1alpha1.Step) bool {
			return strings.Contains(s.Command, "node n1 wasm-ccm.dev/node-deletion=Unbraked")
		})
		switch {
		case len(e.Next) == 0:
			t.Errorf("%s: no next step", reason)
		case reason.Lifts() && (own != 0 || lift != 1), !reason.Lifts() && max(own, lift) >= 0:
			t.Errorf("%s: the brake holds it: %v, next is %+v", reason, reason.Lifts(), e.Next)
		case reason == brake.ReasonNoPermit && !strings.Contains(e.WaitsFor, "2026-01-02T03:04:05Z"):
			t.Errorf("%s: waits for %s", reason, e.WaitsFor)
		}
	}
	if len(all) < 12 {
		t.Errorf("found are %d reasons", len(all))
	}
}

// A Node that is not initialised is stuck throughout: its grace period ends no taint.
// Without the taint the grace period is awaited.
func TestNodeInItsGracePeriod(t *testing.T) {
	taint := []corev1.Taint{{Key: cloudproviderapi.TaintExternalCloudProvider}}
	for state, taints := range map[v1alpha1.State][]corev1.Taint{v1alpha1.StateStuck: taint, v1alpha1.StateProgressing: nil} {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}, Spec: corev1.NodeSpec{Taints: taints}}
		e := explain.Node(node, explain.Facts{Provider: &v1alpha1.Provider{Name: "static"}, Held: &explain.Held{}})
		if e.State != state || e.WaitsFor == "" {
			t.Errorf("with the taints %v it is %s and waits for %q, want %s", taints, e.State, e.WaitsFor, state)
		}
	}
}
