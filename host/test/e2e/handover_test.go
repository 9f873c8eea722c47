package e2e

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
)

const (
	// slowCall is what each call of the cloud takes.
	slowCall = 3 * time.Second
	// handovers are the restarts of the leader.
	handovers = 2
	// A standby looks every 2 s by default, to which client-go adds up to 120 %.
	handoverLimit = 5 * time.Second
	// handoverShared is for a machine that does other things as well.
	handoverShared = 12 * time.Second
)

// slowCloud stands before the cloud, and takes its time for each call.
type slowCloud struct {
	next   http.Handler
	server *http.Server
	port   string
	// byOp: it takes its time for each op of a provider. Of those with two requests
	// the second one is a PUT.
	byOp bool

	mu    sync.Mutex
	takes time.Duration
	calls []*slowOne
}

// slowOne is one call of it.
type slowOne struct {
	what, op     string
	begun, ended time.Time
	cut          bool // whoever asked has not waited for the answer
}

func newSlowCloud(t *testing.T, next http.Handler) *slowCloud {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &slowCloud{next: next}
	_, s.port, _ = net.SplitHostPort(listener.Addr().String())
	s.server = &http.Server{Handler: s}
	go func() { _ = s.server.Serve(listener) }() // ends with Close
	t.Cleanup(func() { _ = s.server.Close() })
	return s
}

func (s *slowCloud) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(io.LimitReader(r.Body, 1<<20)) // only then it is seen that the other side has gone
	if err != nil {
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	call, takes := s.begin(r)
	select {
	case <-time.After(takes):
		s.next.ServeHTTP(w, r)
		s.end(call, r.Context().Err() != nil)
	case <-r.Context().Done():
		s.end(call, true)
	}
}

func (s *slowCloud) begin(r *http.Request) (*slowOne, time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	call := &slowOne{what: r.Method + " " + r.URL.Path, begun: time.Now()}
	s.calls = append(s.calls, call)
	if s.byOp && r.Method == http.MethodPut {
		return call, 0
	}
	call.op = r.Header.Get("X-Op")
	return call, s.takes
}

// ops counts those of a provider by name.
func (s *slowCloud) ops() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := map[string]int{}
	for _, call := range s.calls {
		all[call.op]++
	}
	return all
}

func (s *slowCloud) end(call *slowOne, cut bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	call.ended, call.cut = time.Now(), cut
}

func (s *slowCloud) take(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.takes = d
}

// underway are the calls of a method that have not ended.
func (s *slowCloud) underway(method string) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, call := range s.calls {
		if call.ended.IsZero() && strings.HasPrefix(call.what, method) {
			n++
		}
	}
	return n
}

// judge says which calls that began before a time were cut, or went on after another.
func (s *slowCloud) judge(begun, released time.Time) (cut, late []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, call := range s.calls {
		if call.cut {
			cut = append(cut, call.what)
		}
		if call.begun.Before(begun) && (call.ended.IsZero() || call.ended.After(released)) {
			late = append(late, call.what)
		}
	}
	return cut, late
}

// TestRollingRestart ends the leader by SIGTERM while a slow cloud is writing for
// it, with the shipped times of the lease. The writes end, the lease is given
// back after them, and the standby leads within some seconds.
func TestRollingRestart(t *testing.T) {
	if testing.Short() {
		t.Skip("make test-all runs it")
	}
	t.Parallel() // it has a control plane of its own
	r := newRig(t, "handover")
	ctx := t.Context()
	slow := newSlowCloud(t, r.cloud.server.Handler)
	r.put(ctx, t, configMap, r.wasm(t, "faulty.wasm"), "count=http://127.0.0.1:"+slow.port+"/standin/a")
	flags := []string{
		r.hostConfiguration(t, strings.ReplaceAll(oneProvider, "$CLOUD_PORT", slow.port)), "--concurrent-service-syncs=5",
		"--leader-elect-lease-duration=15s", "--leader-elect-renew-deadline=10s", "--leader-elect-retry-period=2s",
	}
	leader := r.startManager(t, "h0", flags...)
	for i := range 3 {
		r.node(ctx, t, "a", fmt.Sprintf("node-%d", i))
	}
	r.awaitInitialized(ctx, t, leader)
	r.service(ctx, t, r.namespace, "first", nil)
	r.awaitRight(ctx, t, leader, "a")
	r.awaitRecorded(ctx, t, leader, "a", r.wasm(t, "faulty.wasm"))
	for n := range handovers {
		standby := r.startManager(t, fmt.Sprintf("h%d", n+1), flags...)
		r.awaitServing(ctx, t, standby, r.wasm(t, "faulty.wasm"))
		slow.take(slowCall)
		for i := range 3 {
			r.service(ctx, t, r.namespace, fmt.Sprintf("web-%d-%d", n, i), nil)
		}
		r.until(ctx, t, leader, "the cloud is writing", func() (bool, string) { return slow.underway("PUT") > 0, "" })
		leases := r.leases(ctx, t)
		begun := time.Now()
		if err := leader.cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		released, taken := handedOver(t, leases)
		<-leader.done
		gap := taken.Sub(released).Round(time.Millisecond)
		t.Logf("the lease is given back %v after SIGTERM, and %v pass without a leader (to reach: %v)", released.Sub(begun).Round(time.Millisecond), gap, handoverLimit)
		if limit := bound(float64(handoverLimit), float64(handoverShared)); float64(gap) > limit {
			t.Errorf("%v without a leader", gap)
		}
		cut, late := slow.judge(begun, released)
		t.Logf("calls cut: %d", len(cut))
		if len(cut) > 0 || len(late) > 0 {
			t.Errorf("calls that were cut: %q; calls under way when the lease was given back: %q", cut, late)
		}
		slow.take(0)
		r.awaitRight(ctx, t, standby, "a")
		leader = standby
	}
	r.noWarnings(ctx, t)
}

// TestEndsAtAnyPoint ends managers by SIGTERM at points in time that nobody has
// chosen: while they start, take the lease, begin to lead, and as a standby. None
// leaves a lease behind that the next one has to wait for, and none suspects
// what it ran.
func TestEndsAtAnyPoint(t *testing.T) {
	if testing.Short() {
		t.Skip("make test-all runs it")
	}
	r := newRig(t, "ends")
	ctx := t.Context()
	r.put(ctx, t, configMap, r.wasm(t, "faulty.wasm"), "count="+r.url("a"))
	flags := []string{
		r.hostConfiguration(t, oneProvider),
		"--leader-elect-lease-duration=60s", "--leader-elect-renew-deadline=40s", "--leader-elect-retry-period=200ms",
	}
	for n, after := range []time.Duration{20, 100, 200, 300, 400, 500, 700, 1000, 1500} {
		m := r.startManager(t, fmt.Sprintf("e%d", n), flags...)
		time.Sleep(after * time.Millisecond)
		ends(t, m)
		if holder := r.holderOrNone(ctx, t); holder != "" {
			t.Fatalf("after %d ms %s has the lease, and is gone:\n%s", after, holder, m.tail(4<<10))
		}
	}
	leader := r.startManager(t, "leader", flags...)
	r.until(ctx, t, leader, "it leads", func() (bool, string) { return r.holderOrNone(ctx, t) != "", "" })
	r.awaitServing(ctx, t, leader, r.wasm(t, "faulty.wasm"))
	standby := r.startManager(t, "standby", flags...)
	r.until(ctx, t, standby, "it is ready", standby.readyz)
	holder := r.holderOrNone(ctx, t)
	ends(t, standby)
	if now := r.holderOrNone(ctx, t); now != holder {
		t.Errorf("a standby that ends changes the holder %s to %q", holder, now)
	}
	for range 2 { // the second one ends it at once
		_ = leader.cmd.Process.Signal(syscall.SIGTERM)
	}
	<-leader.done
	for _, m := range []string{"once", "again"} {
		// Who was ended by two signals may have kept its lease.
		if err := r.client.CoordinationV1().Leases(r.namespace).Delete(ctx, "cloud-controller-manager", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		next := r.startManager(t, m, flags...)
		r.awaitServing(ctx, t, next, r.wasm(t, "faulty.wasm"))
		r.until(ctx, t, next, "it leads", func() (bool, string) { return r.holderOrNone(ctx, t) != "", "" })
		if text := readFile(next.logPath); strings.Contains(text, "ModuleSuspected") {
			t.Errorf("it suspects what the one before ran:\n%s", next.tail(4<<10))
		}
		ends(t, next)
	}
}

// podGrace is what a pod is given by default.
const podGrace = 30 * time.Second

// TestAnOpThatHangsKeepsTheLease ends the leader while its cloud does not answer
// a write: nobody else may write until that is surely over.
func TestAnOpThatHangsKeepsTheLease(t *testing.T) {
	if testing.Short() {
		t.Skip("make test-all runs it")
	}
	t.Parallel() // it has a control plane of its own
	r := newRig(t, "hangs")
	ctx := t.Context()
	r.put(ctx, t, configMap, r.wasm(t, "faulty.wasm"), "count="+r.url("a"))
	m := r.startManager(t, "m", r.hostConfiguration(t, oneProvider), "--leader-elect-lease-duration=60s", "--leader-elect-renew-deadline=40s")
	r.awaitServing(ctx, t, m, r.wasm(t, "faulty.wasm"))
	r.until(ctx, t, m, "it leads", func() (bool, string) { return r.holderOrNone(ctx, t) != "", "" })
	account := r.cloud.account("a")
	account.hang()
	defer account.resume()
	r.service(ctx, t, r.namespace, "web", nil)
	r.until(ctx, t, m, "the cloud is asked", func() (bool, string) { return account.waiting.Load() > 0, "" })
	begun := time.Now()
	ends(t, m)
	took := time.Since(begun).Round(time.Millisecond)
	t.Logf("it ends %v after SIGTERM (to reach: %v)", took, podGrace)
	if took > podGrace {
		t.Errorf("it ends after %v: the kubelet would have killed it", took)
	}
	if r.holderOrNone(ctx, t) == "" || !strings.Contains(readFile(m.logPath), "The lease is not released") {
		t.Errorf("the lease is given back although a write was under way:\n%s", m.tail(4<<10))
	}
}

// ends has a manager end by SIGTERM.
func ends(t *testing.T, m *manager) {
	t.Helper()
	_ = m.cmd.Process.Signal(syscall.SIGTERM) // it may have ended already
	select {
	case <-m.done:
	case <-time.After(reportPatience):
		t.Fatalf("%s does not end:\n%s", m.name, m.tail(8<<10))
	}
}

// holderOrNone is who holds the Lease, "" for nobody.
func (r *rig) holderOrNone(ctx context.Context, t *testing.T) string {
	t.Helper()
	lease, err := r.client.CoordinationV1().Leases(r.namespace).Get(ctx, "cloud-controller-manager", metav1.GetOptions{})
	if apierrors.IsNotFound(err) || err == nil && lease.Spec.HolderIdentity == nil {
		return ""
	}
	if err != nil {
		t.Fatal(err)
	}
	return *lease.Spec.HolderIdentity
}

// leases hands over each change of the leader's Lease.
func (r *rig) leases(ctx context.Context, t *testing.T) <-chan *coordinationv1.Lease {
	t.Helper()
	watch, err := r.client.CoordinationV1().Leases(r.namespace).Watch(ctx, metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector(metav1.ObjectNameField, "cloud-controller-manager").String(),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(watch.Stop)
	changes := make(chan *coordinationv1.Lease)
	go func() {
		for event := range watch.ResultChan() {
			if lease, ok := event.Object.(*coordinationv1.Lease); ok {
				select {
				case changes <- lease:
				case <-ctx.Done():
				}
			}
		}
	}()
	return changes
}

// handedOver returns when a leader held the Lease last, and when another one
// took it.
func handedOver(t *testing.T, changes <-chan *coordinationv1.Lease) (released, taken time.Time) {
	t.Helper()
	first, deadline := "", time.After(reportPatience)
	for {
		select {
		case lease := <-changes:
			holder := *lease.Spec.HolderIdentity
			if first == "" {
				first = holder
			}
			if holder != "" && holder != first {
				return released, lease.Spec.AcquireTime.Time
			}
			released = lease.Spec.RenewTime.Time
		case <-deadline:
			t.Fatal("nobody takes the lease")
		}
	}
}

// noWarnings: the end of a manager is no fault of a Service.
func (r *rig) noWarnings(ctx context.Context, t *testing.T) {
	t.Helper()
	events, err := r.client.CoreV1().Events(r.namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range events.Items {
		ends := strings.Contains(e.Message, "has stopped") || strings.Contains(e.Message, "shutting down") || strings.Contains(e.Message, "canceled")
		if e.Type == corev1.EventTypeWarning && ends {
			t.Errorf("a Warning on %s %s: %s: %s", e.InvolvedObject.Kind, e.InvolvedObject.Name, e.Reason, e.Message)
		}
	}
}
