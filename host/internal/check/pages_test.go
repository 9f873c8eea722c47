package check

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	restclient "k8s.io/client-go/rest"
)

// largeCluster is an API server that lists by pages and refuses a page without
// a bound. The last of its Nodes and Pods have mistakes.
type largeCluster struct {
	size, bare int
	// expires is the path whose second page has expired.
	expires string
	pages   map[string]int
}

func (l *largeCluster) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	switch path := r.URL.Path; path {
	case "/version":
		_, _ = w.Write([]byte(`{"gitVersion": "v1.37.0"}`))
	case "/api/v1/nodes":
		l.page(w, r, "Node", "v1", l.node)
	case "/api/v1/pods":
		l.page(w, r, "Pod", "v1", l.pod)
	case "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases":
		l.page(w, r, "Lease", "coordination.k8s.io/v1", func(i int) any { return &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: nodeName(i)}} })
	case "/apis/apps/v1/namespaces/kube-system/daemonsets/cloud-controller-manager":
		port := []corev1.ContainerPort{{ContainerPort: 10258}}
		_ = json.NewEncoder(w).Encode(&appsv1.DaemonSet{TypeMeta: metav1.TypeMeta{Kind: "DaemonSet", APIVersion: "apps/v1"}, Spec: appsv1.DaemonSetSpec{
			Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{HostNetwork: true, Containers: []corev1.Container{{Name: managerName, Ports: port}}}},
		}})
	default:
		refuse(w, http.StatusNotFound, "NotFound")
	}
}

func refuse(w http.ResponseWriter, code int, reason metav1.StatusReason) {
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(&metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure, Reason: reason, Message: string(reason), Code: int32(code)})
}

func (l *largeCluster) page(w http.ResponseWriter, r *http.Request, kind, version string, object func(int) any) {
	limit, _ := strconv.Atoi(r.URL.Query().Get("limit"))
	from, _ := strconv.Atoi(r.URL.Query().Get("continue"))
	if limit == 0 || limit > 500 {
		refuse(w, http.StatusBadRequest, "NoLimit")
		return
	}
	if from > 0 && r.URL.Path == l.expires {
		refuse(w, http.StatusGone, metav1.StatusReasonExpired)
		return
	}
	l.pages[r.URL.Path]++
	to := min(from+limit, l.size)
	items := []any{}
	for i := from; i < to; i++ {
		items = append(items, object(i))
	}
	next := ""
	if to < l.size {
		next = strconv.Itoa(to)
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"kind": kind + "List", "apiVersion": version, "metadata": map[string]any{"continue": next}, "items": items})
}

func nodeName(i int) string { return "n" + strconv.Itoa(i) }

func (l *largeCluster) node(i int) any {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: nodeName(i)}, Spec: corev1.NodeSpec{ProviderID: fmt.Sprintf("cloud://%d", i)}}
	node.Status.Images = []corev1.ContainerImage{{Names: []string{strings.Repeat("image", 10)}}}
	if i >= l.size-l.bare {
		node.Spec.ProviderID = ""
	}
	return node
}

func (l *largeCluster) pod(i int) any {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p" + strconv.Itoa(i), Namespace: "default"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "example.com/c"}}}}
	switch i {
	case l.size - 1:
		pod.Spec.Containers[0].Image = "example.com/other-cloud-controller-manager:v1"
	case l.size - 2:
		pod.Spec.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 80, HostPort: 10258}}
	case l.size - 3: // a port without a conflict
		pod.Spec.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 80, HostPort: 80}}
	}
	return pod
}

func (l *largeCluster) start(t *testing.T) *restclient.Config {
	t.Helper()
	l.pages = map[string]int{}
	server := httptest.NewServer(l)
	t.Cleanup(server.Close)
	return &restclient.Config{Host: server.URL}
}

func largeOptions() Options { return Options{Namespace: "kube-system", Patience: time.Minute} }

// A large cluster is read page by page to its end, and irrelevant objects are not kept.
func TestALargeCluster(t *testing.T) {
	l := &largeCluster{size: 1201, bare: 1}
	config := l.start(t)
	findings, err := Run(t.Context(), config, largeOptions())
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []Finding{
		{Severity: Error, Reason: "NotHandedOver", Where: "node n1200"},
		{Severity: Error, Reason: "TwoManagers", Where: "pod default/p1200"},
		{Severity: Error, Reason: "PortTaken", Where: "pod default/p1199", What: "port 10258"},
	} {
		if !found(findings, want) {
			t.Errorf("%+v is not in %+v", want, findings)
		}
	}
	for path, n := range l.pages {
		if n != 3 {
			t.Errorf("%s was asked for %d pages", path, n)
		}
	}
	if len(l.pages) != 3 {
		t.Errorf("by pages were asked %v", l.pages)
	}
	c, err := newChecker(config, largeOptions())
	if err != nil {
		t.Fatal(err)
	}
	c.read(t.Context())
	if len(c.seen.nodes) != l.size || len(c.seen.nodeLeases) != l.size || len(c.seen.pods) != 2 || c.seen.nodes[0].Status.Images != nil {
		t.Errorf("kept are %d Nodes (%+v), %d Leases and %d Pods", len(c.seen.nodes), c.seen.nodes[0], len(c.seen.nodeLeases), len(c.seen.pods))
	}
}

// A list whose end was unreadable gives no OK finding.
func TestAPageThatIsMissing(t *testing.T) {
	l := &largeCluster{size: 1201, expires: "/api/v1/nodes"}
	findings, err := Run(t.Context(), l.start(t), largeOptions())
	if err != nil {
		t.Fatal(err)
	}
	if !found(findings, Finding{Severity: Unknown, Reason: "NotReadable", Where: "nodes", What: "not checked"}) || found(findings, Finding{Severity: OK, Reason: "Nodes"}) {
		t.Errorf("findings: %+v", findings)
	}
}

// A mistake of a thousand Nodes is not reported a thousand times.
func TestManyMistakesOfOneKind(t *testing.T) {
	l := &largeCluster{size: 1201, bare: 1000}
	findings, err := Run(t.Context(), l.start(t), largeOptions())
	if err != nil {
		t.Fatal(err)
	}
	last, n := Finding{}, 0
	for _, f := range findings {
		if f.Reason == "NotHandedOver" {
			last, n = f, n+1
		}
	}
	if n != maxAlike+1 || last.What != "and 980 more of these" {
		t.Errorf("%d findings, the last is %+v", n, last)
	}
}
