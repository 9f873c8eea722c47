package provider

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/wasm-ccm/wasm-ccm/abi"
)

func TestOpsOnOneServiceAreSerialised(t *testing.T) {
	var running, most atomic.Int32
	entered, release := make(chan struct{}, 100), make(chan struct{})
	p := New(&fakeInvoker{invoke: func(_ context.Context, _ abi.Op, _, _ abi.Message) error {
		most.Store(max(most.Load(), running.Add(1)))
		entered <- struct{}{}
		<-release
		running.Add(-1)
		return errors.New("enough")
	}})
	var group sync.WaitGroup
	for _, op := range []abi.Op{abi.OpLoadBalancerGet, abi.OpLoadBalancerEnsure, abi.OpLoadBalancerUpdate, abi.OpLoadBalancerDelete} {
		group.Go(func() { _, _ = call(t.Context(), p, op) })
	}
	<-entered
	// Another Service is not held up by the one that hangs.
	other := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "other"}}
	group.Go(func() { _, _ = p.loadBalancer.EnsureLoadBalancer(t.Context(), "c", other, nil) })
	<-entered
	// A waiter leaves when its context ends.
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := call(ctx, p, abi.OpLoadBalancerEnsure); !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled waiter got %v", err)
	}
	close(release)
	group.Wait()
	if most.Load() != 2 {
		t.Errorf("%d ops at once on two Services", most.Load())
	}
	if n := len(p.loadBalancer.services.keys); n != 0 {
		t.Errorf("%d keys are left", n)
	}
}

func TestKeyedMutex(t *testing.T) {
	var m keyedMutex
	unlock, err := m.lock(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	waiting := make(chan error, 1)
	go func() {
		_, err := m.lock(ctx, "a")
		waiting <- err
	}()
	cancel()
	if err := <-waiting; !errors.Is(err, context.Canceled) {
		t.Errorf("waiter got %v", err)
	}
	unlock()
	var sum int // guarded by key b
	var group sync.WaitGroup
	for range 50 {
		group.Go(func() {
			unlock, err := m.lock(t.Context(), "b")
			if err != nil {
				t.Error(err)
				return
			}
			defer unlock()
			sum++
		})
	}
	group.Wait()
	if sum != 50 || len(m.keys) != 0 {
		t.Errorf("sum %d, %d keys left", sum, len(m.keys))
	}
}
