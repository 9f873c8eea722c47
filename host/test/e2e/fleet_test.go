package e2e

import (
	"context"
	"fmt"
	"strconv"

	"github.com/rogpeppe/go-internal/testscript"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// fleetSize is how many Nodes a large cluster has in scripts, of which 20 are
// ready: FLEET of them, GONE that are not, and HELD, the expression for nearly
// all of these. There are fewer where ops are slow: the manager asks about two at
// a time there, and comes back to each.
func fleetSize() map[string]string {
	if slow {
		return map[string]string{"FLEET": "40", "GONE": "20", "HELD": `(1[5-9]|20)`}
	}
	return map[string]string{"FLEET": "200", "GONE": "180", "HELD": `1[78]\d`}
}

// fleet makes many Nodes at once, which are not ready, so that the lifecycle
// controller asks about them, and counts them:
//
//	fleet create COUNT READY   of which so many are ready
//	fleet atleast COUNT        checks that as many are there now
//	fleet left COUNT           waits until so many are
//	fleet services COUNT HOW   makes as many Services with the annotation of guests/faulty
func (h *harness) fleet(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, !neg && len(args) >= 2, "fleet create COUNT READY | fleet left COUNT | fleet services COUNT HOW")
	switch {
	case args[0] == "create" && len(args) == 3:
		count, err := strconv.Atoi(args[1])
		ts.Check(err)
		ready, err := strconv.Atoi(args[2])
		ts.Check(err)
		for i := range count {
			status := corev1.ConditionUnknown
			if i < ready {
				status = corev1.ConditionTrue
			}
			h.createFleetNode(ts, fmt.Sprintf("fleet-%03d", i), status)
		}
	case args[0] == "left" && len(args) == 2:
		want, err := strconv.Atoi(args[1])
		ts.Check(err)
		await(ts, patience, args[1]+" Nodes are left", func() (bool, string) {
			n := h.countNodes(ts)
			return n == want, fmt.Sprintf("%d Nodes", n)
		})
	case args[0] == "services" && len(args) == 3:
		count, err := strconv.Atoi(args[1])
		ts.Check(err)
		for i := range count {
			h.createFleetService(ts, fmt.Sprintf("fleet-%03d", i), args[2])
		}
	default:
		ts.Fatalf("fleet %s: unknown", args[0])
	}
}

func (h *harness) createFleetNode(ts *testscript.TestScript, name string, ready corev1.ConditionStatus) {
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelHostname: name}},
		Spec:       corev1.NodeSpec{ProviderID: "faulty://" + name},
	}
	node, err := h.client.CoreV1().Nodes().Create(context.Background(), node, metav1.CreateOptions{})
	ts.Check(err)
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready, Reason: "Script", Message: "set by the script"}}
	_, err = h.client.CoreV1().Nodes().UpdateStatus(context.Background(), node, metav1.UpdateOptions{})
	ts.Check(err)
}

func (h *harness) createFleetService(ts *testscript.TestScript, name, how string) {
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{"faulty.example.com/ensure": how}},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, Ports: []corev1.ServicePort{{Port: 80}}},
	}
	_, err := h.client.CoreV1().Services(h.namespace).Create(context.Background(), service, metav1.CreateOptions{})
	ts.Check(err)
}

func (h *harness) countNodes(ts *testscript.TestScript) int {
	nodes, err := h.client.CoreV1().Nodes().List(context.Background(), metav1.ListOptions{})
	ts.Check(err)
	return len(nodes.Items)
}
