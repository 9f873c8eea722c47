package e2e

import (
	"context"
	"fmt"
	"strconv"

	"github.com/rogpeppe/go-internal/testscript"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// fleet makes many Nodes at once, which are not ready, so that the lifecycle
// controller asks about them, and counts them:
//
//	fleet create COUNT
//	fleet atleast COUNT   checks that as many are there now
//	fleet gone            waits until none is
func (h *harness) fleet(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, !neg && len(args) >= 1, "fleet create|atleast COUNT | fleet gone")
	switch {
	case args[0] == "create" && len(args) == 2:
		count, err := strconv.Atoi(args[1])
		ts.Check(err)
		for i := range count {
			h.createFleetNode(ts, fmt.Sprintf("fleet-%03d", i))
		}
	case args[0] == "atleast" && len(args) == 2:
		want, err := strconv.Atoi(args[1])
		ts.Check(err)
		if got := h.countNodes(ts); got < want {
			ts.Fatalf("%d Nodes are left, want %d at least", got, want)
		}
	case args[0] == "gone":
		await(ts, patience, "no Node is left", func() (bool, string) {
			n := h.countNodes(ts)
			return n == 0, fmt.Sprintf("%d Nodes", n)
		})
	default:
		ts.Fatalf("fleet %s: unknown", args[0])
	}
}

func (h *harness) createFleetNode(ts *testscript.TestScript, name string) {
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelHostname: name}},
		Spec:       corev1.NodeSpec{ProviderID: "faulty://" + name},
	}
	node, err := h.client.CoreV1().Nodes().Create(context.Background(), node, metav1.CreateOptions{})
	ts.Check(err)
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionUnknown, Reason: "Script", Message: "set by the script"}}
	_, err = h.client.CoreV1().Nodes().UpdateStatus(context.Background(), node, metav1.UpdateOptions{})
	ts.Check(err)
}

func (h *harness) countNodes(ts *testscript.TestScript) int {
	nodes, err := h.client.CoreV1().Nodes().List(context.Background(), metav1.ListOptions{})
	ts.Check(err)
	return len(nodes.Items)
}
