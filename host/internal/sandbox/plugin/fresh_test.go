package plugin_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/engine"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/plugin"
)

func existsFresh(ctx context.Context, s *plugin.Slot) error {
	return s.InvokeFresh(ctx, abi.OpInstanceExists, &abi.InstanceRequest{}, &abi.InstanceExistsResponse{})
}

func TestAFreshInstanceIsUsedOnce(t *testing.T) {
	var ops, configured atomic.Int64
	e := &fakeEngine{call: func(_ context.Context, op abi.Op, _ []byte) (engine.Result, error) {
		switch op {
		case abi.OpInstanceExists:
			ops.Add(1)
		case abi.OpConfigure:
			configured.Add(1)
		}
		return engine.Result{}, nil
	}}
	slot, c := serve(t, e, testLimits())
	if err := exists(t.Context(), slot); err != nil { // an idle instance is there
		t.Fatal(err)
	}
	created, asked, before, open := c.created.Load(), ops.Load(), configured.Load(), e.open.Load()
	for range 5 {
		if err := existsFresh(t.Context(), slot); err != nil {
			t.Fatal(err)
		}
	}
	if made := c.created.Load() - created; made != 5 || c.count(plugin.DiscardFresh) != 5 {
		t.Errorf("%d instances made, %d discarded, want 5 and 5", made, c.count(plugin.DiscardFresh))
	}
	if ops.Load()-asked != 5 || configured.Load()-before != 5 {
		t.Errorf("%d ops, %d configured, want 5 and 5", ops.Load()-asked, configured.Load()-before)
	}
	if e.open.Load() != open {
		t.Errorf("%d instances are open, %d before", e.open.Load(), open)
	}
}

func TestAFreshInstanceCountsAgainstTheLimit(t *testing.T) {
	entered, release := make(chan struct{}), make(chan struct{})
	slot, c := serve(t, onExists(func(context.Context) error {
		entered <- struct{}{}
		<-release
		return nil
	}), testLimits())
	if slot.Instances() != testLimits().MaxInstances {
		t.Errorf("Instances() = %d", slot.Instances())
	}
	for range testLimits().MaxInstances {
		go func() { _ = exists(context.Background(), slot) }()
		<-entered
	}
	created := c.created.Load()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := existsFresh(ctx, slot); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("with every instance busy: %v", err)
	}
	if c.created.Load() != created {
		t.Error("an instance over the limit was made")
	}
	close(release)
}

func TestAFreshInstanceThatTrapsIsNoAnswer(t *testing.T) {
	slot, c := serve(t, onExists(func(context.Context) error { return errors.New("trap") }), testLimits())
	err := existsFresh(t.Context(), slot)
	var answer *abi.Error
	if err == nil || errors.As(err, &answer) {
		t.Errorf("got %v", err)
	}
	if c.count(plugin.DiscardFresh) != 1 {
		t.Error("the instance was not thrown away")
	}
	if err := existsFresh(t.Context(), plugin.NewSlot()); !errors.Is(err, plugin.ErrNotServing) {
		t.Errorf("without a generation: %v", err)
	}
}
