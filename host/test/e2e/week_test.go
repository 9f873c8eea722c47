package e2e

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
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
	// weekRatio and weekMore bound what it costs, beside a native manager.
	weekRatio, weekMore = 1.5, 10
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

// TestAnOrdinaryWeek is without any attack and without any mistake: machines come,
// are replaced by an upgrade and removed by an autoscaler; charts are installed,
// upgraded and uninstalled; the provider gets a new version twice, the manager is
// rolled; the cloud takes its time for an answer, and asks for patience now and then.
// Only what somebody removed goes, nothing is stuck, and nobody is warned. A native
// manager that goes through the same comes to the same, for as many calls and Events.
func TestAnOrdinaryWeek(t *testing.T) {
	if testing.Short() {
		t.Skip("make test-all runs it")
	}
	for _, takes := range []time.Duration{20 * time.Millisecond, 300 * time.Millisecond, slowCall} {
		t.Run(takes.String(), func(t *testing.T) {
			t.Parallel() // it has control planes of its own
			w := &week{newSides(t, "week", oneProvider, moody, 0)}
			w.passes(t, takes)
			compareSides(t, w.sides, weekRatio, weekMore)
			w.sides[1].nobodyIsWarned(t)
		})
	}
}

// week is what happens to both sides.
type week struct{ sides []*side }

func (w *week) passes(t *testing.T, takes time.Duration) {
	t.Helper()
	for _, s := range w.sides {
		s.slow.take(takes)
	}
	w.day(t, "Monday: machines join, and charts are installed", func(ctx context.Context, s *side) {
		s.join(ctx, t, weekNodes)
		for _, service := range objects.Services(t) {
			s.install(ctx, t, service)
		}
	})
	here := w.sides[1]
	begun := here.metrics(t, here.leader)
	for _, batch := range slices.Collect(slices.Chunk(here.names(), weekBatch)) {
		w.day(t, "Tuesday: machines with a new Kubernetes join", func(ctx context.Context, s *side) { s.join(ctx, t, len(batch)) })
		w.day(t, "Tuesday: and take the place of others, one after the other", func(ctx context.Context, s *side) {
			for _, name := range batch {
				s.drain(ctx, t, name)
			}
		})
	}
	w.day(t, "Wednesday: a new version of the provider, while charts are upgraded", func(ctx context.Context, s *side) {
		s.serve(ctx, t, s.builds[1])
		s.upgrade(ctx, t, "3.2.1")
	})
	w.day(t, "Thursday: the autoscaler removes idle machines", func(ctx context.Context, s *side) {
		for _, name := range s.names()[:weekIdle] {
			s.shrink(ctx, t, name)
		}
	})
	w.day(t, "Friday: the manager is rolled, and the provider goes back", func(ctx context.Context, s *side) {
		standby := s.manage(t, s.String()+"-friday")
		s.serve(ctx, t, s.builds[0])
		ends(t, s.leader)
		s.leader = standby
		s.upgrade(ctx, t, "3.2.2")
	})
	w.day(t, "Saturday: a chart is uninstalled, machines come back for the load", func(ctx context.Context, s *side) {
		if err := s.client.CoreV1().Services(s.namespace).Delete(ctx, s.services(ctx, t)[0].Name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		s.join(ctx, t, weekIdle)
	})
	if now, before := here.metrics(t, here.leader)["go_goroutines"], begun["go_goroutines"]; now > before*weekGrowth {
		t.Errorf("%.0f goroutines after the week, %.0f on Monday", now, before)
	}
}

// day lets something happen to both sides and waits until all is as it should be.
func (w *week) day(t *testing.T, what string, happens func(context.Context, *side)) {
	t.Helper()
	begun := time.Now()
	for _, s := range w.sides {
		happens(t.Context(), s)
	}
	for _, s := range w.sides {
		s.settled(t)
	}
	t.Logf("%s: %v", what, time.Since(begun).Round(100*time.Millisecond))
}

func (s *side) names() (all []string) {
	for name := range s.nodes {
		all = append(all, name)
	}
	slices.Sort(all)
	return all
}

// join has new machines, whose kubelets register them as kubeadm has told them.
func (s *side) join(ctx context.Context, t *testing.T, count int) {
	t.Helper()
	for range count {
		s.made++
		name := fmt.Sprintf("worker-%03d", s.made)
		s.node(ctx, t, "a", name)
		node, err := s.client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		s.nodes[name] = node.UID
	}
}

func (s *side) patchNode(ctx context.Context, t *testing.T, name, patch string, subresources ...string) {
	t.Helper()
	if _, err := s.client.CoreV1().Nodes().Patch(ctx, name, types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{}, subresources...); err != nil {
		t.Fatal(err)
	}
}

// drain takes a machine out as an upgrade does: kubectl drain, the machine's end,
// kubectl delete node. The manager may have been the first to delete it.
func (s *side) drain(ctx context.Context, t *testing.T, name string) {
	t.Helper()
	delete(s.nodes, name)
	s.patchNode(ctx, t, name, `{"spec":{"unschedulable":true}}`)
	s.cloud.account("a").removeServer(name)
	if err := s.client.CoreV1().Nodes().Delete(ctx, name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		t.Fatal(err)
	}
}

// shrink removes a machine as an autoscaler does, which leaves the Node to the
// manager: it is tainted, its machine ends, and its kubelet is heard no more.
func (s *side) shrink(ctx context.Context, t *testing.T, name string) {
	t.Helper()
	delete(s.nodes, name)
	s.patchNode(ctx, t, name, `{"spec":{"taints":[{"key":"ToBeDeletedByClusterAutoscaler","value":"1","effect":"NoSchedule"}]}}`)
	s.cloud.account("a").removeServer(name)
	s.patchNode(ctx, t, name, `{"status":{"conditions":[{"type":"Ready","status":"Unknown","reason":"NodeStatusUnknown","message":"Kubelet stopped posting node status."}]}}`, "status")
}

// install has a chart's Service, with all that the chart writes.
func (s *side) install(ctx context.Context, t *testing.T, service *corev1.Service) {
	t.Helper()
	if !objects.Balanced(service) {
		return
	}
	if _, err := s.client.CoreV1().Services(s.namespace).Create(ctx, objects.NewService(service, s.namespace), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func (s *side) services(ctx context.Context, t *testing.T) []corev1.Service {
	t.Helper()
	list, err := s.client.CoreV1().Services(s.namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return list.Items
}

// upgrade changes what helm upgrade changes: the labels of each chart.
func (s *side) upgrade(ctx context.Context, t *testing.T, version string) {
	t.Helper()
	patch := fmt.Sprintf(`{"metadata":{"labels":{"helm.sh/chart":"web-%s","app.kubernetes.io/version":%q},"annotations":{"meta.helm.sh/release-version":%q}}}`, version, version, version)
	for _, service := range s.services(ctx, t) {
		if _, err := s.client.CoreV1().Services(s.namespace).Patch(ctx, service.Name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
}

// awaitNodes waits until there are the Nodes that should be, which are the same as
// ever: none was deleted and came back.
func (s *side) awaitNodes(ctx context.Context, t *testing.T) {
	t.Helper()
	s.until(ctx, t, s.leader, "the Nodes are those of the machines", func() (bool, string) {
		list, err := s.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, err.Error()
		}
		var there []string
		for i := range list.Items {
			node := &list.Items[i]
			there = append(there, node.Name)
			if uid := s.nodes[node.Name]; uid != "" && uid != node.UID {
				t.Fatalf("Node %s was deleted", node.Name)
			}
		}
		slices.Sort(there)
		for _, name := range s.names() {
			if !slices.Contains(there, name) {
				t.Fatalf("Node %s is gone, and its machine is not", name)
			}
		}
		return slices.Equal(there, s.names()), fmt.Sprint(there)
	})
}

// nobodyIsWarned: in a week like this nothing is anybody's fault.
func (s *side) nobodyIsWarned(t *testing.T) {
	t.Helper()
	events, err := s.client.CoreV1().Events(metav1.NamespaceAll).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range events.Items {
		if e.Type == corev1.EventTypeWarning && cmp.Or(e.ReportingController, e.Source.Component) != "ipallocator-repair-controller" { // kube-apiserver's own
			t.Errorf("a Warning on %s %s: %s: %s", e.InvolvedObject.Kind, e.InvolvedObject.Name, e.Reason, e.Message)
		}
	}
}
