package plugin_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/engine"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/plugin"
)

// overdue is a context whose time is over, and whose timer has yet to fire:
// engines look at the clock themselves.
type overdue struct{ context.Context }

func (overdue) Deadline() (time.Time, bool) { return time.Now().Add(-time.Millisecond), true }

// Who gives an op less time than the settings do is not told to change them.
func TestACallersOwnTimeIsNoSetting(t *testing.T) {
	limits := testLimits()
	limits.OpTimeout, limits.LoadTimeout, limits.TimeoutSetting = time.Minute, time.Minute, "providers[].ops.timeout"
	slot, _ := serve(t, onExists(func(context.Context) error { return context.DeadlineExceeded }), limits)
	err := exists(overdue{t.Context()}, slot)
	if !errors.Is(err, context.DeadlineExceeded) || strings.Contains(err.Error(), "within 1m0s") {
		t.Errorf("error %v", err)
	}
	l, _ := realLoader(limits)
	l.Engine = &fakeEngine{call: func(_ context.Context, op abi.Op, _ []byte) (engine.Result, error) {
		if op == abi.OpConfigure {
			return engine.Result{}, context.DeadlineExceeded
		}
		return engine.Result{}, nil
	}}
	_, err = l.Load(overdue{t.Context()}, plugin.Bundle{Module: realModule(t)})
	if !errors.Is(err, context.DeadlineExceeded) || strings.Contains(err.Error(), "within 1m0s") {
		t.Errorf("loading: error %v", err)
	}
}
