package e2e

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/wasm-ccm/wasm-ccm/testdata/objects"
)

const (
	weekNodes = 16
	weekBatch = 8 // of Nodes that are replaced at once
	weekIdle  = 4 // that an autoscaler removes
	// weekGrowth is how many more goroutines there may be after the week.
	weekGrowth = 1.5
)

// moody is a cloud that is busy now and then: of the reads each thirteenth is
// answered 503, and of all requests each seventeenth 429.
func moody(next http.Handler) http.Handler {
	var n atomic.Int64
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch count := n.Add(1); {
		case count%17 == 0:
			w.Header().Set("Retry-After", "1")
			http.Error(w, "slow down", http.StatusTooManyRequests)
		case count%13 == 0 && r.Method == http.MethodGet:
			http.Error(w, "try again", http.StatusServiceUnavailable)
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// week is a cluster to which happens what happens to all of them.
type week struct {
	*rig
	leader *manager
	// nodes are those that should be there, with their UIDs.
	nodes map[string]types.UID
	made  int
}

// TestAnOrdinaryWeek is without any attack and without any mistake: machines come,
// are replaced by an upgrade and removed by an autoscaler; charts are installed,
// upgraded and uninstalled; the provider gets a new version twice, the manager is
// rolled; the cloud takes 3 s for an answer, and asks for patience now and then. Only
// what somebody removed goes, nothing is stuck, and nobody is warned.
func TestAnOrdinaryWeek(t *testing.T) {
	if testing.Short() {
		t.Skip("make test-all runs it")
	}
	t.Parallel() // it has a control plane of its own
	r := newRig(t, "week")
	slow := newSlowCloud(t, moody(r.cloud.server.Handler))
	builds := r.builds(t, "faulty.wasm")
	config := "count=http://127.0.0.1:" + slow.port + "/standin/a"
	r.put(t.Context(), t, configMap, builds[0], config)
	flags := []string{
		r.hostConfiguration(t, strings.ReplaceAll(oneProvider, "$CLOUD_PORT", slow.port)),
		"--concurrent-service-syncs=5", "--concurrent-node-syncs=5",
		"--node-status-update-frequency=5m", "--node-monitor-period=5s", // the defaults: others would ask more than a cloud of 3 s answers
	}
	w := &week{rig: r, nodes: map[string]types.UID{}}
	w.leader = r.startManager(t, "monday", flags...)
	r.awaitServing(t.Context(), t, w.leader, builds[0])
	slow.take(slowCall)

	w.day(t, "Monday: machines join, and charts are installed", func(ctx context.Context) {
		w.join(ctx, t, weekNodes)
		for _, s := range objects.Services(t) {
			w.install(ctx, t, s)
		}
	})
	begun := r.metrics(t, w.leader)
	w.day(t, "Tuesday: Kubernetes is upgraded, a machine after the other", func(ctx context.Context) {
		for _, batch := range slices.Collect(slices.Chunk(w.names(), weekBatch)) {
			w.join(ctx, t, len(batch))
			w.awaitInitialized(ctx, t, w.leader)
			for _, name := range batch {
				w.drain(ctx, t, name)
			}
		}
	})
	w.day(t, "Wednesday: a new version of the provider, while charts are upgraded", func(ctx context.Context) {
		r.put(ctx, t, configMap, builds[1], config)
		w.upgrade(ctx, t, "3.2.1")
		w.awaitServing(ctx, t, w.leader, builds[1])
	})
	w.day(t, "Thursday: the autoscaler removes idle machines", func(ctx context.Context) {
		for _, name := range w.names()[:weekIdle] {
			w.shrink(ctx, t, name)
		}
	})
	w.day(t, "Friday: the manager is rolled, and the provider goes back", func(ctx context.Context) {
		standby := r.startManager(t, "friday", flags...)
		r.awaitServing(ctx, t, standby, builds[1])
		r.put(ctx, t, configMap, builds[0], config)
		ends(t, w.leader)
		w.leader = standby
		w.upgrade(ctx, t, "3.2.2")
		r.awaitServing(ctx, t, w.leader, builds[0])
	})
	w.day(t, "Saturday: a chart is uninstalled, machines come back for the load", func(ctx context.Context) {
		if err := r.client.CoreV1().Services(r.namespace).Delete(ctx, w.services(ctx, t)[0].Name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		w.join(ctx, t, weekIdle)
	})
	if now, before := r.metrics(t, w.leader)["go_goroutines"], begun["go_goroutines"]; now > before*weekGrowth {
		t.Errorf("%.0f goroutines after the week, %.0f on Monday", now, before)
	}
	w.nobodyIsWarned(t)
}

// day lets something happen and waits until all is as it should be.
func (w *week) day(t *testing.T, what string, happens func(context.Context)) {
	t.Helper()
	begun := time.Now()
	happens(t.Context())
	w.awaitInitialized(t.Context(), t, w.leader)
	w.awaitRight(t.Context(), t, w.leader, "a")
	w.awaitNodes(t.Context(), t)
	t.Logf("%s: %v", what, time.Since(begun).Round(100*time.Millisecond))
}

func (w *week) names() (all []string) {
	for name := range w.nodes {
		all = append(all, name)
	}
	slices.Sort(all)
	return all
}

// join has new machines, whose kubelets register them as kubeadm has told them.
func (w *week) join(ctx context.Context, t *testing.T, count int) {
	t.Helper()
	for range count {
		w.made++
		name := fmt.Sprintf("worker-%03d", w.made)
		w.node(ctx, t, "a", name)
		node, err := w.client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		w.nodes[name] = node.UID
	}
}

func (w *week) patchNode(ctx context.Context, t *testing.T, name, patch string, subresources ...string) {
	t.Helper()
	if _, err := w.client.CoreV1().Nodes().Patch(ctx, name, types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{}, subresources...); err != nil {
		t.Fatal(err)
	}
}

// drain takes a machine out as an upgrade does: kubectl drain, the machine's end,
// kubectl delete node. The manager may have been the first to delete it.
func (w *week) drain(ctx context.Context, t *testing.T, name string) {
	t.Helper()
	delete(w.nodes, name)
	w.patchNode(ctx, t, name, `{"spec":{"unschedulable":true}}`)
	w.cloud.account("a").removeServer(name)
	if err := w.client.CoreV1().Nodes().Delete(ctx, name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		t.Fatal(err)
	}
}

// shrink removes a machine as an autoscaler does, which leaves the Node to the
// manager: it is tainted, its machine ends, and its kubelet is heard no more.
func (w *week) shrink(ctx context.Context, t *testing.T, name string) {
	t.Helper()
	delete(w.nodes, name)
	w.patchNode(ctx, t, name, `{"spec":{"taints":[{"key":"ToBeDeletedByClusterAutoscaler","value":"1","effect":"NoSchedule"}]}}`)
	w.cloud.account("a").removeServer(name)
	w.patchNode(ctx, t, name, `{"status":{"conditions":[{"type":"Ready","status":"Unknown","reason":"NodeStatusUnknown","message":"Kubelet stopped posting node status."}]}}`, "status")
}

// install has a chart's Service, with all that the chart writes.
func (w *week) install(ctx context.Context, t *testing.T, s *corev1.Service) {
	t.Helper()
	if !objects.Balanced(s) {
		return
	}
	if _, err := w.client.CoreV1().Services(w.namespace).Create(ctx, objects.NewService(s, w.namespace), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func (w *week) services(ctx context.Context, t *testing.T) []corev1.Service {
	t.Helper()
	list, err := w.client.CoreV1().Services(w.namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return list.Items
}

// upgrade changes what helm upgrade changes: the labels of each chart.
func (w *week) upgrade(ctx context.Context, t *testing.T, version string) {
	t.Helper()
	patch := fmt.Sprintf(`{"metadata":{"labels":{"helm.sh/chart":"web-%s","app.kubernetes.io/version":%q},"annotations":{"meta.helm.sh/release-version":%q}}}`, version, version, version)
	for _, s := range w.services(ctx, t) {
		if _, err := w.client.CoreV1().Services(w.namespace).Patch(ctx, s.Name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
}

// awaitNodes waits until there are the Nodes that should be, which are the same as
// ever: none was deleted and came back.
func (w *week) awaitNodes(ctx context.Context, t *testing.T) {
	t.Helper()
	w.until(ctx, t, w.leader, "the Nodes are those of the machines", func() (bool, string) {
		list, err := w.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, err.Error()
		}
		var there []string
		for i := range list.Items {
			node := &list.Items[i]
			there = append(there, node.Name)
			if uid := w.nodes[node.Name]; uid != "" && uid != node.UID {
				t.Fatalf("Node %s was deleted", node.Name)
			}
		}
		slices.Sort(there)
		for _, name := range w.names() {
			if !slices.Contains(there, name) {
				t.Fatalf("Node %s is gone, and its machine is not", name)
			}
		}
		return slices.Equal(there, w.names()), fmt.Sprint(there)
	})
}

// nobodyIsWarned: in a week like this nothing is anybody's fault.
func (w *week) nobodyIsWarned(t *testing.T) {
	t.Helper()
	events, err := w.client.CoreV1().Events(metav1.NamespaceAll).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range events.Items {
		if e.Type == corev1.EventTypeWarning && cmp.Or(e.ReportingController, e.Source.Component) != "ipallocator-repair-controller" { // kube-apiserver's own
			t.Errorf("a Warning on %s %s: %s: %s", e.InvolvedObject.Kind, e.InvolvedObject.Name, e.Reason, e.Message)
		}
	}
}
