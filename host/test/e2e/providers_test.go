package e2e

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	crowd     = 120 // Services of the one that is measured
	stuck     = 40  // of the one that hangs
	turns     = 4
	leastRate = 0.95
	// leastRateShared is for a machine that does other things as well.
	leastRateShared = 0.7
)

const twoProviders = `
- name: good
  source: {configMap: {namespace: $NS, name: good}}
  store: good
  grants: [{scheme: http, host: 127.0.0.1, port: $CLOUD_PORT}]
  requests: {perSecond: 100000, burst: 100000, concurrent: 64}
  routing: {services: {default: true}}
- name: slow
  source: {configMap: {namespace: $NS, name: slow}}
  store: slow
  grants: [{scheme: http, host: 127.0.0.1, port: $CLOUD_PORT}]
  requests: {perSecond: 100000, burst: 100000, concurrent: 64}
`

// TestTwoProvidersOneHangs: the time that the Services of one provider take is
// the same beside another one whose cloud never answers, in one run, by turns.
func TestTwoProvidersOneHangs(t *testing.T) {
	if testing.Short() {
		t.Skip("make test-all runs it")
	}
	t.Parallel() // it has a control plane of its own
	r := newRig(t, "two")
	ctx := t.Context()
	other := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "two-slow"}}
	if _, err := r.client.CoreV1().Namespaces().Create(ctx, other, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	guest := r.wasm(t, "faulty.wasm")
	for _, name := range []string{"good", "slow"} {
		r.put(ctx, t, name, guest, "scheme="+name+"\ncount="+r.url(name))
	}
	m := r.startManager(t, "a", r.hostConfiguration(t, twoProviders), "--kube-api-qps=1000", "--kube-api-burst=1000")
	for i := range 5 {
		r.node(ctx, t, "good", fmt.Sprintf("good-%d", i))
		r.node(ctx, t, "slow", fmt.Sprintf("slow-%d", i))
	}
	r.awaitInitialized(ctx, t, m)
	slow := &rig{report: r.report, namespace: other.Name, dir: r.dir, scrape: r.scrape}
	for i := range stuck {
		r.service(ctx, t, slow.namespace, fmt.Sprintf("slow-%02d", i), map[string]string{"wasm-ccm.dev/provider": "slow"})
	}
	r.turn(ctx, t, m) // to warm up
	var alone, beside []time.Duration
	for turn := range turns {
		slow.awaitRight(ctx, t, m, "slow")
		alone = append(alone, r.turn(ctx, t, m))
		r.cloud.account("slow").hang()
		slow.change(ctx, t, 1000+turn)
		r.awaitHanging(ctx, t, m)
		beside = append(beside, r.turn(ctx, t, m))
		r.cloud.account("slow").resume()
	}
	ratio := float64(mean(alone)) / float64(mean(beside))
	t.Logf("%d Services alone: %v, mean %v", crowd, alone, mean(alone))
	t.Logf("beside a provider that hangs: %v, mean %v, throughput %.3f (to reach: %.2f)", beside, mean(beside), ratio, leastRate)
	if ratio < bound(leastRate, leastRateShared) {
		t.Errorf("one that hangs leaves the other %.3f of its throughput", ratio)
	}
}

// change changes every Service of the namespace.
func (r *rig) change(ctx context.Context, t *testing.T, port int) {
	t.Helper()
	l := newLoad(r)
	for i := range stuck {
		if err := l.patch(ctx, fmt.Sprintf("slow-%02d", i), fmt.Sprintf(`{"spec":{"ports":[{"port":%d,"protocol":"TCP"}]}}`, port)); err != nil {
			t.Fatal(err)
		}
	}
}

// awaitHanging waits until as many requests at the cloud hang as will: for two
// seconds it has been the same number.
func (r *rig) awaitHanging(ctx context.Context, t *testing.T, m *manager) {
	t.Helper()
	const steady = 2 * time.Second
	last, since := int64(0), time.Now()
	r.until(ctx, t, m, "requests hang", func() (bool, string) {
		n := r.cloud.account("slow").waiting.Load()
		if n != last {
			last, since = n, time.Now()
		}
		return n > 1 && time.Since(since) > steady, fmt.Sprint(n)
	})
}

// turn is the time that a crowd of Services takes to get their load balancers
// and to lose them.
func (r *rig) turn(ctx context.Context, t *testing.T, m *manager) time.Duration {
	t.Helper()
	services := r.client.CoreV1().Services(r.namespace)
	begin := time.Now()
	for i := range crowd {
		r.service(ctx, t, r.namespace, fmt.Sprintf("good-%02d", i), nil)
	}
	r.awaitRight(ctx, t, m, "good")
	for i := range crowd {
		if err := services.Delete(ctx, fmt.Sprintf("good-%02d", i), metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	r.until(ctx, t, m, "the Services are gone", func() (bool, string) {
		list, err := services.List(ctx, metav1.ListOptions{})
		return err == nil && len(list.Items) == 0, fmt.Sprint(err)
	})
	return time.Since(begin).Round(time.Millisecond)
}
