package e2e

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
)

const (
	loadNodes    = 20
	loadServices = 200 // each of which is created, changed and deleted again and again
	loadQuiet    = 20  // which nobody touches
	replacements = 200
	// firstMeasure is the replacement after which the manager is as it should
	// be after the last one.
	firstMeasure = 10
	// secondMeasure is where client-go's bounded caches of Events have filled.
	secondMeasure = 100
	// keptEvery: after so many replacements one is observed to its end. The
	// others are replaced while they are observed.
	keptEvery = 10
	leakRatio = 1.05
	// leakRatioShared is for a machine that does other things as well: 190
	// replacements that each leaked a thousandth would be seen.
	leakRatioShared = 1.15
)

// oneProvider has the probe, the shadow and the observation. Neither the rate at
// the cloud nor the number of instances is a limit here: on a busy machine an op
// may take so long that it goes on in the background, for which there has to be
// room.
const oneProvider = `
- name: a
  source: {configMap: {namespace: $NS, name: provider}}
  grants: [{scheme: http, host: 127.0.0.1, port: $CLOUD_PORT}]
  limits: {instances: 64}
  requests: {perSecond: 100000, burst: 100000, concurrent: 64}
  rollout: {observePeriod: 1s}
  routing: {nodes: {schemes: [faulty]}, services: {default: true}}
`

// TestReplacementsUnderLoad replaces the provider two hundred times while all
// controllers are busy with it. No op fails or is lost, the cloud is asked to
// write nothing because of it, and the manager is no larger afterwards.
func TestReplacementsUnderLoad(t *testing.T) {
	if testing.Short() {
		t.Skip("make test-all runs it")
	}
	t.Parallel() // it has a control plane of its own
	r := newRig(t, "load")
	ctx := t.Context()
	builds := r.builds(t, "faulty.wasm")
	config := "count=" + r.url("a")
	r.put(ctx, t, configMap, builds[0], config)
	m := r.startManager(t, "a", r.hostConfiguration(t, oneProvider), "--node-status-update-frequency=20ms",
		"--kube-api-qps=2000", "--kube-api-burst=2000", "--concurrent-service-syncs=5")
	r.awaitServing(ctx, t, m, builds[0])
	for i := range loadNodes {
		r.node(ctx, t, "a", fmt.Sprintf("node-%02d", i))
	}
	r.awaitInitialized(ctx, t, m)
	for i := range loadQuiet {
		r.service(ctx, t, r.namespace, fmt.Sprintf("quiet-%02d", i), nil)
	}
	r.awaitRight(ctx, t, m, "a")
	quiet := r.cloud.account("a").counts()

	load := newLoad(r)
	load.start(ctx)
	load.warmUp(t)
	var first, second footprint
	for n := 1; n <= replacements; n++ {
		r.put(ctx, t, configMap, builds[n%2], config)
		r.awaitServing(ctx, t, m, builds[n%2])
		if n%keptEvery == 0 {
			r.awaitKept(ctx, t, m, "a", builds[n%2])
		}
		if n != firstMeasure && n != secondMeasure && n != replacements {
			continue
		}
		load.end(ctx, t)
		r.awaitRight(ctx, t, m, "a")
		// One more: the pool of a generation has as many instances as there were
		// ops at once.
		r.put(ctx, t, configMap, builds[(n+1)%2], config)
		r.awaitServing(ctx, t, m, builds[(n+1)%2])
		r.awaitKept(ctx, t, m, "a", builds[(n+1)%2])
		now := r.footprint(ctx, t, m)
		t.Logf("after %3d replacements: %v", n, now)
		switch n {
		case firstMeasure:
			first = now
		case secondMeasure:
			second = now
		default:
			now.compare(t, first, second)
		}
		if n < replacements {
			load.start(ctx)
		}
	}
	r.checkOps(t, m)
	r.checkCloud(t, load, quiet)
}

// checkOps: every op of every controller was answered, and well.
func (r *rig) checkOps(t *testing.T, m *manager) {
	t.Helper()
	all := r.metrics(t, m)
	for _, op := range []string{"instance_metadata", "lb_ensure", "lb_delete"} {
		n := all.sum(`^wasm_ccm_provider_op_duration_seconds_count\{.*op="` + op + `"`)
		t.Logf("%s: %.0f ops", op, n)
		if n < replacements {
			t.Errorf("%s ran %.0f times: there was no load", op, n)
		}
	}
	for name, value := range all {
		if strings.HasPrefix(name, "wasm_ccm_provider_op_duration_seconds_count{") && !strings.Contains(name, `code="ok"`) && value > 0 {
			t.Errorf("%s: %.0f", name, value)
		}
	}
}

// checkCloud: each write was asked for by a change of a Service. The quiet Services
// are looked at by each generation a few times at most, to prove it.
func (r *rig) checkCloud(t *testing.T, load *load, before counts) {
	t.Helper()
	after := r.cloud.account("a").counts()
	for path := range before.writes {
		writes, reads := after.writes[path]-before.writes[path], after.reads[path]-before.reads[path]
		if writes != 0 || reads > 2*replacements {
			t.Errorf("%s, which nobody touched: %d writes and %d reads because of %d replacements", path, writes, reads, replacements)
		}
	}
	writes := 0
	for path, n := range after.writes {
		if before.writes[path] == 0 {
			writes += n
			if asked := load.changes(path); n > asked {
				t.Errorf("%s: %d writes, %d changes of its Service", path, n, asked)
			}
		}
	}
	t.Logf("%d changes of Services, %d writes at the cloud", load.total(), writes)
}

// load changes Services, from start to end.
type load struct {
	rig     *rig
	cancel  context.CancelFunc
	workers sync.WaitGroup
	warm    sync.WaitGroup // the first rounds of all workers

	mu    sync.Mutex
	asked map[string]int // changes by path at the cloud
	errs  []error
}

const (
	loadWorkers = 8
	warmRounds  = 4
)

func newLoad(r *rig) *load { return &load{rig: r, asked: map[string]int{}} }

func (l *load) start(ctx context.Context) {
	ctx, l.cancel = context.WithCancel(ctx)
	l.warm.Add(loadWorkers)
	for w := range loadWorkers {
		l.workers.Go(func() {
			for round := 0; ctx.Err() == nil || round < warmRounds; round++ {
				if round == warmRounds {
					l.warm.Done()
				}
				for i := w; i < loadServices && ctx.Err() == nil; i += loadWorkers {
					l.step(ctx, i, round)
				}
			}
		})
	}
}

// warmUp waits until each Service was created, changed and deleted once: from
// then on the manager knows everything that it will ever know.
func (l *load) warmUp(t *testing.T) {
	t.Helper()
	l.warm.Wait()
}

// end takes the load balancers away, so that the manager has the same to do each
// time that it is measured.
func (l *load) end(ctx context.Context, t *testing.T) {
	t.Helper()
	l.cancel()
	l.workers.Wait()
	services := l.rig.client.CoreV1().Services(l.rig.namespace)
	list, err := services.List(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range list.Items {
		if s := &list.Items[i]; strings.HasPrefix(s.Name, "busy-") && s.DeletionTimestamp == nil {
			if err := l.patch(ctx, s.Name, toClusterIP); err != nil {
				t.Error(err)
			}
		}
	}
	for _, err := range l.errs {
		t.Error(err)
	}
}

// step is one change of a Service: the first makes a load balancer, the next two
// change it, the fourth takes it away. For every hundredth Service that is
// creating and deleting it. The others remain, of another type: client-go
// remembers thousands of objects that it has made Events on, and what the
// manager takes would grow by each new one, replacements or not.
func (l *load) step(ctx context.Context, i, round int) {
	name := fmt.Sprintf("busy-%03d", i)
	// With the end of the load nothing is torn off.
	ctx = context.WithoutCancel(ctx)
	services := l.rig.client.CoreV1().Services(l.rig.namespace)
	var err error
	switch {
	case round%4 == 0:
		err = l.create(ctx, name)
	case round%4 < 3:
		err = l.patch(ctx, name, fmt.Sprintf(`{"spec":{"ports":[{"port":%d,"protocol":"TCP"}]}}`, 1000+round%60000))
	case i%100 == 0:
		if err = l.patch(ctx, name, `{}`); err == nil {
			err = services.Delete(ctx, name, metav1.DeleteOptions{})
		}
	default:
		err = l.patch(ctx, name, toClusterIP)
	}
	if err != nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.errs = append(l.errs, fmt.Errorf("%s, round %d: %w", name, round, err))
	}
}

const (
	toClusterIP    = `{"spec":{"type":"ClusterIP"}}`
	toLoadBalancer = `{"spec":{"type":"LoadBalancer"}}`
)

// create waits until a Service of that name that is being deleted is gone.
func (l *load) create(ctx context.Context, name string) error {
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, Ports: []corev1.ServicePort{{Port: 80}}},
	}
	services := l.rig.client.CoreV1().Services(l.rig.namespace)
	return wait.PollUntilContextTimeout(ctx, 10*time.Millisecond, reportPatience, true, func(ctx context.Context) (bool, error) {
		created, err := services.Create(ctx, service, metav1.CreateOptions{})
		if err == nil {
			l.add(created)
			return true, nil
		}
		old, getErr := services.Get(ctx, name, metav1.GetOptions{})
		switch {
		case !apierrors.IsAlreadyExists(err):
			return false, err
		case getErr != nil || old.DeletionTimestamp != nil:
			return false, nil // it is gone soon
		}
		return true, l.patch(ctx, name, toLoadBalancer)
	})
}

// patch changes a Service and counts that.
func (l *load) patch(ctx context.Context, name, patch string) error {
	services := l.rig.client.CoreV1().Services(l.rig.namespace)
	service, err := services.Patch(ctx, name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	if err == nil {
		l.add(service)
	}
	return err
}

func (l *load) add(service *corev1.Service) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.asked["lb/"+string(service.UID)]++
}

func (l *load) changes(path string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.asked[path]
}

func (l *load) total() (sum int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, n := range l.asked {
		sum += n
	}
	return sum
}
