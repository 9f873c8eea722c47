package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// comings is how often a provider comes, is renamed and goes. The manager is as
// it should be after the last one when it has seen firstComings.
const (
	comings      = 12
	firstComings = 3
)

// guestProvider is one that comes and goes: its objects are in a namespace of
// their own.
const guestProvider = `
- name: $NAME
  source: {configMap: {namespace: $NS, name: guest}}
  store: guest
  grants: [{scheme: http, host: 127.0.0.1, port: $CLOUD_PORT}]
  rollout: {observePeriod: 1s}
  routing: {nodes: {schemes: [guest]}}
`

// TestProvidersComeAndGoUnderLoad: a provider is added, renamed and removed again
// and again while another one's Services change. No op of the other one fails,
// and nothing is left of the one that goes but its objects as they were, and its
// status, which says so.
func TestProvidersComeAndGoUnderLoad(t *testing.T) {
	if testing.Short() {
		t.Skip("make test-all runs it")
	}
	t.Parallel() // it has a control plane of its own
	r, ctx := newRig(t, "come"), t.Context()
	others := &rig{report: r.report, namespace: "come-guest", dir: r.dir, scrape: r.scrape}
	if _, err := r.client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: others.namespace}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	module := r.wasm(t, "faulty.wasm")
	r.put(ctx, t, configMap, module, "count="+r.url("a"))
	r.put(ctx, t, "guest", module, "scheme=guest\ncount="+r.url("guest"))
	alone := strings.Replace(oneProvider, "- name: a\n", "- name: a\n  store: a\n", 1)
	m := r.startManager(t, "a", r.hostConfiguration(t, alone), "--kube-api-qps=2000", "--kube-api-burst=2000", "--concurrent-service-syncs=5")
	r.awaitServing(ctx, t, m, module)
	load := newLoad(r)
	load.start(ctx)
	load.warmUp(t)
	var before footprint
	for n := 1; n <= comings; n++ {
		r.comeAndGo(ctx, t, m, others, alone, n)
		if n != firstComings && n != comings {
			continue
		}
		load.end(ctx, t)
		r.awaitRight(ctx, t, m, "a")
		now := r.footprint(ctx, t, m)
		t.Logf("after %d times: %v", n, now)
		if n == comings {
			now.noMoreGoroutines(t, before)
			break
		}
		before = now
		load.start(ctx)
	}
	r.nothingFailed(t, m, "a")
}

// comeAndGo adds a provider, renames it and removes it.
func (r *rig) comeAndGo(ctx context.Context, t *testing.T, m *manager, others *rig, alone string, n int) {
	t.Helper()
	node := fmt.Sprintf("guest-%d", n)
	r.hostConfiguration(t, alone+strings.ReplaceAll(guestProvider, "$NAME", "guest"))
	r.node(ctx, t, "guest", node)
	others.serves(ctx, t, m, "guest", n)
	r.awaitInitialized(ctx, t, m)

	r.hostConfiguration(t, alone+strings.ReplaceAll(guestProvider, "$NAME", "renamed"))
	others.serves(ctx, t, m, "renamed", n)
	r.awaitRemoved(ctx, t, m, "guest")

	r.hostConfiguration(t, alone)
	r.awaitRemoved(ctx, t, m, "renamed")
	for _, provider := range []string{"guest", "renamed"} {
		others.isLeft(ctx, t, provider, n)
	}
	if _, err := r.client.CoreV1().Nodes().Get(ctx, node, metav1.GetOptions{}); err != nil {
		t.Error(err)
	}
}

func nameOf(provider string, n int) string { return fmt.Sprintf("%s-%d", provider, n) }

// serves waits until a new Service of a provider has its load balancer, and
// until the one that waited for the provider is gone.
func (r *rig) serves(ctx context.Context, t *testing.T, m *manager, provider string, n int) {
	t.Helper()
	services, name, before := r.client.CoreV1().Services(r.namespace), nameOf(provider, n), nameOf(provider, n-1)
	r.service(ctx, t, r.namespace, name, map[string]string{"wasm-ccm.dev/provider": provider})
	r.until(ctx, t, m, name+" is served", func() (bool, string) {
		s, err := services.Get(ctx, name, metav1.GetOptions{})
		return err == nil && len(s.Status.LoadBalancer.Ingress) > 0, fmt.Sprint(s.Status, err)
	})
	r.until(ctx, t, m, before+" is gone", func() (bool, string) {
		_, err := services.Get(ctx, before, metav1.GetOptions{})
		return apierrors.IsNotFound(err), fmt.Sprint(err)
	})
}

// isLeft: a Service of a provider that is gone has its load balancer, its
// finalizer and its label, also when its user deletes it.
func (r *rig) isLeft(ctx context.Context, t *testing.T, provider string, n int) {
	t.Helper()
	services, name := r.client.CoreV1().Services(r.namespace), nameOf(provider, n)
	if err := services.Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	s, err := services.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if len(s.Finalizers) != 1 || s.Labels["wasm-ccm.dev/load-balancer-provider"] != provider || len(s.Status.LoadBalancer.Ingress) != 1 {
		t.Errorf("%s: finalizers %v, labels %v, status %v", name, s.Finalizers, s.Labels, s.Status)
	}
	if !strings.Contains(r.cloud.account("guest").String(), string(s.UID)) {
		t.Errorf("%s: its load balancer is gone", name)
	}
}

// awaitRemoved waits until a provider's status says that it is not configured,
// and nothing is shown of it.
func (r *rig) awaitRemoved(ctx context.Context, t *testing.T, m *manager, provider string) {
	t.Helper()
	r.until(ctx, t, m, provider+" is removed", func() (bool, string) {
		cm, err := r.client.CoreV1().ConfigMaps(r.namespace).Get(ctx, "wasm-ccm-provider-"+provider, metav1.GetOptions{})
		if err != nil || cm.Labels["wasm-ccm.dev/phase"] != "Removed" {
			return false, fmt.Sprint(cm.Labels, err)
		}
		for name := range r.metrics(t, m) {
			if strings.Contains(name, `provider="`+provider+`"`) {
				return false, name
			}
		}
		return true, ""
	})
}

// nothingFailed: every op of a provider was answered, and well.
func (r *rig) nothingFailed(t *testing.T, m *manager, provider string) {
	t.Helper()
	ops := 0.0
	for name, value := range r.metrics(t, m) {
		if !strings.HasPrefix(name, "wasm_ccm_provider_op_duration_seconds_count{") || !strings.Contains(name, `provider="`+provider+`"`) {
			continue
		}
		if ops += value; !strings.Contains(name, `code="ok"`) && value > 0 {
			t.Errorf("%s: %.0f", name, value)
		}
	}
	t.Logf("%.0f ops of provider %s, all answered well; %d times another one came, was renamed and went", ops, provider, comings)
	if ops < loadServices {
		t.Error("there was no load")
	}
}

// noMoreGoroutines compares with an earlier time.
func (u footprint) noMoreGoroutines(t *testing.T, first footprint) {
	t.Helper()
	if u.lasting() <= leakRatioShared*first.lasting() {
		return
	}
	t.Errorf("%.0f goroutines, and %.0f before", u.goroutines, first.goroutines)
	for where, n := range u.stacks {
		if n > first.stacks[where] {
			t.Logf("begun by %s: %d, and %d before", where, n, first.stacks[where])
		}
	}
}
