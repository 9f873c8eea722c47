package e2e

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
)

// side is a cluster to which something happens, with a cloud of its own: under a
// native manager (host/test/native) or under this project's with the guest faulty.
// To both sides the same happens.
type side struct {
	*rig
	native  bool
	slow    *slowCloud
	builds  [2][]byte // of the guest
	flags   []string
	leader  *manager
	logs    []string // of all managers
	serving []byte   // the build that should serve

	// nodes are those that should be there, with their UIDs.
	nodes map[string]types.UID
	made  int
	waits waits
	joins time.Duration // until the last Node that came was initialised, 0 if it was not taken
}

// newSides starts a native and another side, and Nodes that are initialised.
func newSides(t *testing.T, namespace, providers string, mood func(http.Handler) http.Handler, nodes int) []*side {
	t.Helper()
	sides := []*side{newSide(t, namespace, providers, mood, true), newSide(t, namespace, providers, mood, false)}
	for _, s := range sides {
		s.leader = s.manage(t, s.String()+"-first")
		s.waits.watch(t, s.rig)
		s.join(t.Context(), t, nodes)
	}
	for _, s := range sides {
		s.until(t.Context(), t, s.leader, "it leads", func() (bool, string) { return s.holderOrNone(t.Context(), t) != "", "" })
		s.settled(t)
	}
	return sides
}

func newSide(t *testing.T, namespace, providers string, mood func(http.Handler) http.Handler, native bool) *side {
	t.Helper()
	s := &side{rig: newRig(t, namespace), native: native, nodes: map[string]types.UID{}}
	s.slow = newSlowCloud(t, mood(s.cloud.server.Handler))
	s.slow.byOp = true
	s.flags = []string{
		"--concurrent-service-syncs=5", "--concurrent-node-syncs=5",
		"--node-status-update-frequency=5m", "--node-monitor-period=5s", // the defaults: others would ask more than a cloud of 3 s answers
	}
	if native {
		if _, err := os.Stat(s.nativeBinary()); err != nil {
			t.Fatalf("%v: run make native", err)
		}
		config := filepath.Join(s.dir, "cloud.conf")
		if err := os.WriteFile(config, []byte(s.config()+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		s.flags = append(s.flags, "--cloud-provider=native", "--cloud-config="+config)
		return s
	}
	s.builds = s.rig.builds(t, "faulty.wasm")
	s.serve(t.Context(), t, s.builds[0])
	s.flags = append(s.flags, s.hostConfiguration(t, strings.ReplaceAll(providers, "$CLOUD_PORT", s.slow.port)))
	return s
}

func (s *side) String() string {
	if s.native {
		return "native"
	}
	return "here"
}

// config is the configuration of both providers.
func (s *side) config() string { return "count=http://127.0.0.1:" + s.slow.port + "/standin/a" }

// serve has a build of the guest serve. A native side has none.
func (s *side) serve(ctx context.Context, t *testing.T, build []byte) {
	t.Helper()
	if s.native {
		return
	}
	s.put(ctx, t, configMap, build, s.config())
	s.serving = build
}

func (s *side) nativeBinary() string {
	return filepath.Join(s.build, "native-cloud-controller-manager")
}

// manage starts a manager; the first one leads.
func (s *side) manage(t *testing.T, name string) *manager {
	t.Helper()
	m, usual := s.manager(t, name)
	s.logs = append(s.logs, m.logPath)
	if s.native {
		s.start(t, m, s.nativeBinary(), append(upstreams(usual), s.flags...))
		return m
	}
	s.start(t, m, s.binary(), append(withoutSource(usual, s.flags), s.flags...))
	s.awaitServing(t.Context(), t, m, s.serving)
	return m
}

// upstreams are the flags that upstream's manager has, too.
func upstreams(usual []string) []string {
	return slices.DeleteFunc(usual, func(flag string) bool {
		return strings.HasPrefix(flag, "--provider-") || strings.HasPrefix(flag, "--health-probe") || strings.HasPrefix(flag, "--allocate-node-cidrs")
	})
}

// settled waits until all is as it should be.
func (s *side) settled(t *testing.T) {
	t.Helper()
	s.awaitInitialized(t.Context(), t, s.leader)
	s.awaitRight(t.Context(), t, s.leader, "a")
	s.awaitNodes(t.Context(), t)
	if !s.native {
		s.awaitServing(t.Context(), t, s.leader, s.serving)
	}
}

// waits is how long each Service waited for its first address.
type waits struct {
	mu    sync.Mutex
	begun map[types.UID]time.Time
	took  []time.Duration
}

func (w *waits) watch(t *testing.T, r *rig) {
	t.Helper()
	w.begun = map[types.UID]time.Time{}
	factory := informers.NewSharedInformerFactoryWithOptions(r.client, 0, informers.WithNamespace(r.namespace))
	_, err := factory.Core().V1().Services().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { w.see(o.(*corev1.Service)) },
		UpdateFunc: func(_, o any) { w.see(o.(*corev1.Service)) },
	})
	if err != nil {
		t.Fatal(err)
	}
	factory.StartWithContext(t.Context())
	factory.WaitForCacheSyncWithContext(t.Context())
}

func (w *waits) see(s *corev1.Service) {
	w.mu.Lock()
	defer w.mu.Unlock()
	begun, known := w.begun[s.UID]
	switch {
	case !known:
		w.begun[s.UID] = time.Now()
	case len(s.Status.LoadBalancer.Ingress) > 0 && !begun.IsZero():
		w.took = append(w.took, time.Since(begun))
		w.begun[s.UID] = time.Time{}
	}
}

// quantile is the time within which so many of a hundred had their address.
func (w *waits) quantile(percent int) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.took) == 0 {
		return 0
	}
	return slices.Sorted(slices.Values(w.took))[(len(w.took)-1)*percent/100]
}

// figures are what a side did to come to its state, without any time.
func (s *side) figures(t *testing.T) map[string]int {
	t.Helper()
	all := map[string]int{}
	for op, n := range s.slow.ops() {
		if strings.HasPrefix(op, "lb_") || strings.HasPrefix(op, "instance_") {
			all["op "+op] = n
		}
	}
	events, err := s.client.CoreV1().Events(metav1.NamespaceAll).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range events.Items {
		if e.InvolvedObject.Kind == "Service" && e.InvolvedObject.Namespace == s.namespace || e.InvolvedObject.Kind == "Node" {
			all["Event "+e.Reason] += int(max(e.Count, 1))
		}
	}
	for _, log := range s.logs {
		all["error lines"] += len(errorLine.FindAllString(readFile(log), -1))
	}
	return all
}

var errorLine = regexp.MustCompile(`(?m)^E\d{4} .*$`)

// state is what the cloud has and the cluster says, without what is each cluster's
// own.
func (s *side) state(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	keeps := s.cloud.account("a").list()
	for _, service := range s.services(t.Context(), t) {
		for i := range keeps {
			keeps[i] = strings.ReplaceAll(keeps[i], string(service.UID), service.Name)
		}
		fmt.Fprintln(&b, "Service", service.Name, service.Spec.Type, service.Finalizers, len(service.Status.LoadBalancer.Ingress), service.DeletionTimestamp)
	}
	slices.Sort(keeps) // they were in the order of UIDs
	return strings.Join(keeps, "") + b.String() + s.fromTheCloud(t)
}

// fromTheCloud is what the Nodes have from the cloud.
func (r *rig) fromTheCloud(t *testing.T) string {
	t.Helper()
	nodes, err := r.client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, n := range nodes.Items {
		delete(n.Labels, "wasm-ccm.dev/provider")
		for _, condition := range n.Status.Conditions {
			if condition.Type == corev1.NodeNetworkUnavailable {
				n.Labels["condition"] = string(condition.Status)
			}
		}
		fmt.Fprintln(&b, n.Name, n.Spec.ProviderID, n.Labels, n.Status.Addresses, n.Spec.Taints)
	}
	return b.String()
}

// compare waits until the states of both sides are equal, and prints what they did. No
// figure may be larger than natively by more than this ratio, and some more.
func compareSides(t *testing.T, sides []*side, ratio float64, more int) {
	t.Helper()
	sides[1].until(t.Context(), t, sides[1].leader, "the states are equal (- native, + here)", func() (bool, string) {
		one, other := sides[0].state(t), sides[1].state(t)
		return one == other, difference(one, other)
	})
	native, here := sides[0].figures(t), sides[1].figures(t)
	t.Logf("%24s %24s\n%s%s", sides[0], sides[1], quantiles(sides), sideBySide(native, here))
	delete(here, "op instance_exists") // the deletion brake asks again, on purpose
	for what, n := range here {
		if most := int(float64(native[what])*ratio) + more; n > most {
			t.Errorf("%s: %d, natively %d, want %d at most", what, n, native[what], most)
		}
	}
}

func quantiles(sides []*side) (lines string) {
	for _, percent := range []int{50, 90} {
		one, other := sides[0].waits.quantile(percent).Seconds(), sides[1].waits.quantile(percent).Seconds()
		lines += fmt.Sprintf("%8.2f %8.2f %6.2f %d %% have an address after so many seconds\n", one, other, other/one, percent)
	}
	if one, other := sides[0].joins.Seconds(), sides[1].joins.Seconds(); one > 0 {
		lines += fmt.Sprintf("%8.2f %8.2f %6.2f a new Node is initialised after so many seconds\n", one, other, other/one)
	}
	return lines
}

// sideBySide has a line for each count, with the ratio.
func sideBySide(native, here map[string]int) string {
	var b strings.Builder
	for _, what := range slices.Sorted(maps.Keys(merged(native, here))) {
		fmt.Fprintf(&b, "%8d %8d %6.2f %s\n", native[what], here[what], float64(here[what])/float64(native[what]), what)
	}
	return b.String()
}

func merged(one, other map[string]int) map[string]int {
	both := maps.Clone(one)
	for action := range other {
		both[action] += 0
	}
	return both
}

// difference shows the lines that only one of both has.
func difference(one, other string) string {
	count := map[string]int{}
	for line := range strings.Lines(one) {
		count[line]++
	}
	for line := range strings.Lines(other) {
		count[line]--
	}
	var b bytes.Buffer
	for _, line := range slices.Sorted(maps.Keys(count)) {
		if n := count[line]; n != 0 {
			fmt.Fprintf(&b, "%+d %s\n", -n, strings.TrimSuffix(line, "\n"))
		}
	}
	return b.String()
}
