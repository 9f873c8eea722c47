//go:build node

package deploy_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
)

// rollout is a cluster whose controllers and scheduler are the real ones, with
// some nodes and one workload: the manager.
type rollout struct {
	cluster
	whole    *testing.T // nodes outlive the subtest in which they join
	workload string     // as kubectl names it
	nodes    []*standin
	log      string
	images   int    // that were made up
	image    string // of now
	before   string // the one before
}

// On one, two and three control-plane nodes a change of the manager arrives:
// a new image, the correction of one that never becomes ready, and both while a
// node is down. The API server, the controllers and the scheduler are Kubernetes'
// own; the kubelets are stand-ins that only say that pods run.
func TestRollouts(t *testing.T) {
	depend(t)
	r := startRollouts(t)
	r.apply(t, "daemonset/"+manager)
	for n := 1; n <= 3; n++ {
		t.Run(fmt.Sprintf("%d nodes", n), func(t *testing.T) {
			r.nodes = append(r.nodes, join(r.whole, r.cluster, fmt.Sprintf("cp-%d", n)))
			r.settled(t, n)
			r.rollouts(t)
		})
		if t.Failed() {
			return
		}
	}
	r.kubectl(t, "-n", namespace, "delete", "daemonset", manager)
	r.await(t, "the pods of the DaemonSet are gone", func(pods []corev1.Pod) bool { return len(pods) == 0 })
	r.apply(t, "deployment/"+manager, "chart/examples/deployment.yaml")
	t.Run("Deployment on 3 nodes", func(t *testing.T) {
		r.settled(t, 2)
		r.rollouts(t)
	})
}

// rollouts changes the image in the ways that people do.
func (r *rollout) rollouts(t *testing.T) {
	all := len(r.pods(t))
	r.set(t, "good")
	r.settled(t, all)
	r.kubectl(t, "-n", namespace, "rollout", "status", r.workload, "--timeout=1m")
	r.kubectl(t, "-n", namespace, "rollout", "undo", r.workload)
	r.image, r.before = r.before, r.image
	r.settled(t, all)

	r.set(t, broken)
	r.await(t, "a broken manager", func(pods []corev1.Pod) bool { return r.count(pods, corev1.ConditionFalse) > 0 })
	if all > 2 || strings.HasPrefix(r.workload, "deployment") {
		r.remains(t)
	}
	r.set(t, "corrected")
	r.settled(t, all)

	if len(r.nodes) < 2 {
		return
	}
	lost := r.occupied(t)
	lost.down()
	r.await(t, lost.name+" is known to be down", func(pods []corev1.Pod) bool {
		node, err := r.admin.CoreV1().Nodes().Get(t.Context(), lost.name, metav1.GetOptions{})
		return err == nil && len(node.Spec.Taints) > 1 && len(of(pods, lost.name, corev1.ConditionTrue)) == 0
	})
	r.set(t, "down")
	r.await(t, "the nodes that are up have the change", func(pods []corev1.Pod) bool {
		return r.count(pods, corev1.ConditionTrue) >= min(all, len(r.nodes)-1)
	})
	lost.up(r.whole)
	r.settled(t, all)
}

// occupied is a node that has a manager.
func (r *rollout) occupied(t *testing.T) *standin {
	t.Helper()
	name := r.pods(t)[0].Spec.NodeName
	return r.nodes[slices.IndexFunc(r.nodes, func(s *standin) bool { return s.name == name })]
}

// remains checks that the old version goes on somewhere while the new one is
// broken, for as long as the controllers would need to end it.
func (r *rollout) remains(t *testing.T) {
	t.Helper()
	good := func(pods []corev1.Pod) (n int) {
		for i := range pods {
			if pods[i].Spec.Containers[0].Image == r.before && readiness(&pods[i]) == corev1.ConditionTrue && pods[i].DeletionTimestamp == nil {
				n++
			}
		}
		return n
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	err := wait.PollUntilContextCancel(ctx, 100*time.Millisecond, true, func(context.Context) (bool, error) { return good(r.pods(t)) == 0, nil })
	if err == nil {
		t.Error("a broken image has ended every manager")
	}
}

// set changes the image. The name says what becomes of it.
func (r *rollout) set(t *testing.T, kind string) {
	t.Helper()
	r.images++
	r.before, r.image = r.image, fmt.Sprintf("localhost/%s:%d", kind, r.images)
	r.kubectl(t, "-n", namespace, "set", "image", r.workload, manager+"="+r.image)
}

func (r *rollout) apply(t *testing.T, workload string, values ...string) {
	t.Helper()
	r.install(t, values...)
	r.workload = workload
	r.image = podTemplate(t, render(t, values...)).Spec.Containers[0].Image
}

// settled waits until n managers have the image and nothing else is there.
func (r *rollout) settled(t *testing.T, n int) {
	t.Helper()
	r.await(t, fmt.Sprintf("%d managers with the change", n), func(pods []corev1.Pod) bool {
		return len(pods) == n && r.count(pods, corev1.ConditionTrue) == n
	})
}

// count has those with the image of now that are ready, or are not.
func (r *rollout) count(pods []corev1.Pod, status corev1.ConditionStatus) (n int) {
	for i := range pods {
		if pods[i].Spec.Containers[0].Image == r.image && readiness(&pods[i]) == status {
			n++
		}
	}
	return n
}

// of are the pods of a node.
func of(pods []corev1.Pod, node string, status corev1.ConditionStatus) (found []string) {
	for i := range pods {
		if pods[i].Spec.NodeName == node && readiness(&pods[i]) == status {
			found = append(found, pods[i].Name)
		}
	}
	return found
}

func (r *rollout) pods(t *testing.T) []corev1.Pod {
	t.Helper()
	pods, err := r.admin.CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{LabelSelector: "app.kubernetes.io/name=" + manager})
	if err != nil {
		t.Fatal(err)
	}
	return pods.Items
}

// rolloutPatience is what one change may take: seconds, on a busy machine more.
const rolloutPatience = time.Minute

func (r *rollout) await(t *testing.T, what string, condition func(pods []corev1.Pod) bool) {
	t.Helper()
	begun := time.Now()
	err := wait.PollUntilContextTimeout(t.Context(), 100*time.Millisecond, rolloutPatience, true, func(context.Context) (bool, error) {
		return condition(r.pods(t)), nil
	})
	if err == nil {
		t.Logf("%s: after %v", what, time.Since(begun).Round(100*time.Millisecond))
		return
	}
	t.Fatalf("%s: %v\n%s\n%s\nthe controllers' log:\n%s", what, err, r.kubectl(t, "-n", namespace, "get", "pods", "-o", "wide"),
		r.kubectl(t, "-n", namespace, "get", "events", "--sort-by=.lastTimestamp"), tail(readLog(r.log)))
}

func tail(text string) string { return text[max(0, len(text)-8<<10):] }

// startRollouts starts the real controllers and the scheduler.
func startRollouts(t *testing.T) *rollout {
	t.Helper()
	assets := os.Getenv("KUBEBUILDER_ASSETS")
	for _, name := range []string{"kube-controller-manager", "kube-scheduler"} {
		if _, err := os.Stat(filepath.Join(assets, name)); err != nil {
			t.Fatalf("%v: run it by `make test-rollouts`, which builds it", err)
		}
	}
	r := &rollout{cluster: start(t), whole: t, log: filepath.Join(t.TempDir(), "controllers.log")}
	run(t, r.log, filepath.Join(assets, "kube-controller-manager"), []string{
		"--kubeconfig=" + r.kubeconfig, "--leader-elect=false", "--secure-port=0",
		"--controllers=daemonset-controller,deployment-controller,replicaset-controller,node-lifecycle-controller,taint-eviction-controller,pod-garbage-collector-controller,garbage-collector-controller",
		"--node-monitor-period=500ms", "--node-monitor-grace-period=3s",
	})
	run(t, filepath.Join(t.TempDir(), "scheduler.log"), filepath.Join(assets, "kube-scheduler"), []string{"--kubeconfig=" + r.kubeconfig, "--leader-elect=false", "--secure-port=0"})
	return r
}
