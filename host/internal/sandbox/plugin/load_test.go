package plugin_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/engine"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/plugin"
)

// load loads a bundle with this manifest.
func load(t *testing.T, e *fakeEngine, limits plugin.Limits, manifestJSON string) *plugin.Generation {
	t.Helper()
	l, _ := newLoader(e, limits)
	l.Observer = nil
	g, err := l.Load(t.Context(), plugin.Bundle{Module: testModule(t, manifestJSON)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := g.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return g
}

func withOps(ops string) string {
	return `{"name":"test","version":"1","abi":{"min":1,"max":1},"capabilities":["cache"],"ops":[` + ops + `]}`
}

func configured(response *abi.ConfigureResponse) *fakeEngine {
	response.Accepted = true
	return &fakeEngine{call: func(_ context.Context, op abi.Op, _ []byte) (engine.Result, error) {
		if op == abi.OpConfigure {
			return ok(response), nil
		}
		return engine.Result{}, nil
	}}
}

func TestOpsComeInGroups(t *testing.T) {
	instances := `"instance_exists","instance_shutdown","instance_metadata","list_instances"`
	for name, test := range map[string]struct {
		ops      string
		disabled []uint32
		want     []abi.Op
		warnings []string
	}{
		"all": {instances, nil, []abi.Op{abi.OpInstanceExists, abi.OpInstanceShutdown, abi.OpInstanceMetadata, abi.OpListInstances}, nil},
		"list_instances is optional": {`"instance_exists","instance_shutdown","instance_metadata"`, nil,
			[]abi.Op{abi.OpInstanceExists, abi.OpInstanceShutdown, abi.OpInstanceMetadata}, nil},
		"one off, all off":         {instances + `,"volume_labels"`, []uint32{uint32(abi.OpListInstances)}, []abi.Op{abi.OpVolumeLabels}, nil},
		"off, and not there":       {`"volume_labels"`, []uint32{uint32(abi.OpRouteList)}, []abi.Op{abi.OpVolumeLabels}, nil},
		"numbers that mean no op":  {`"volume_labels"`, []uint32{0, 99, 4_000_000_000}, []abi.Op{abi.OpVolumeLabels}, nil},
		"far behind other numbers": {`"volume_labels"`, append(make([]uint32, 1000), uint32(abi.OpVolumeLabels)), nil, nil},
		"not whole": {`"route_list","volume_labels"`, nil, []abi.Op{abi.OpVolumeLabels},
			[]string{"routes are off: the provider does not have route_create, route_delete"}},
	} {
		t.Run(name, func(t *testing.T) {
			g := load(t, configured(&abi.ConfigureResponse{DisabledOps: test.disabled}), testLimits(), withOps(test.ops))
			var got []abi.Op
			for _, op := range abi.Ops() {
				if g.Supports(op) {
					got = append(got, op)
				}
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("ops (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.warnings, g.Warnings()); diff != "" {
				t.Errorf("warnings (-want +got):\n%s", diff)
			}
		})
	}
}

func TestWarningsAreFitForALog(t *testing.T) {
	warnings := append([]string{"a\nb\u202ec", strings.Repeat("x", 10_000)}, make([]string, 100)...)
	g := load(t, configured(&abi.ConfigureResponse{Warnings: warnings}), testLimits(), testManifest)
	got := g.Warnings()
	if len(got) != 20 || got[0] != "a; b?c" || len(got[1]) != 512 {
		t.Errorf("%d warnings, %q, one of %d bytes", len(got), got[0], len(got[1]))
	}
}

func TestFeaturesThatAreNotOfferedAreRefused(t *testing.T) {
	e := &fakeEngine{call: func(_ context.Context, op abi.Op, _ []byte) (engine.Result, error) {
		if op == abi.OpDescribe {
			return ok(&abi.DescribeResponse{Name: "test", Version: "1", ProviderName: "test", Features: []string{"teleport"}}), nil
		}
		return engine.Result{}, nil
	}}
	l, _ := newLoader(e, testLimits())
	_, err := l.Load(t.Context(), plugin.Bundle{Module: testModule(t, testManifest)})
	var loadError *plugin.LoadError
	if !errors.As(err, &loadError) || loadError.Phase != plugin.PhaseDescribe || !strings.Contains(err.Error(), `"teleport"`) {
		t.Errorf("error %v", err)
	}
}

// What a guest answers to configure when a new instance is made is no answer
// to the op that needed the instance: "instance_not_found" deletes Nodes.
func TestAnswerToConfigureIsNoAnswerToTheOp(t *testing.T) {
	var refuse atomic.Bool
	e := &fakeEngine{call: func(_ context.Context, op abi.Op, _ []byte) (engine.Result, error) {
		if op == abi.OpConfigure && refuse.Load() {
			return engine.Result{Code: abi.CodeInstanceNotFound}, nil
		}
		return engine.Result{}, nil
	}}
	limits := testLimits()
	limits.MaxCallsPerInstance = 1
	slot, c := serve(t, e, limits)
	refuse.Store(true)
	err := exists(t.Context(), slot)
	var answer *abi.Error
	if err == nil || errors.As(err, &answer) {
		t.Errorf("error %v, taken for the answer %v", err, answer)
	}
	if want := "instance_exists: a new instance: configure: instance_not_found"; err != nil && !strings.Contains(err.Error(), want) {
		t.Errorf("error %q, want one with %q", err, want)
	}
	if n := c.count(plugin.DiscardFailed); n != 1 {
		t.Errorf("%d instances were discarded", n)
	}
}

func TestSuggestedLimitsOnlyLower(t *testing.T) {
	manifestOf := func(limits string) string { return strings.TrimSuffix(testManifest, "}") + `,"limits":` + limits + `}` }
	for name, test := range map[string]struct {
		suggested string
		want      string
	}{
		"lower":  {`{"instances":1}`, "1 instances"},
		"higher": {`{"instances":100}`, "3 instances"},
	} {
		t.Run(name, func(t *testing.T) {
			entered, gate := make(chan struct{}), make(chan struct{})
			e := onExists(func(context.Context) error {
				entered <- struct{}{}
				<-gate
				return nil
			})
			l, _ := newLoader(e, testLimits())
			g, err := l.Load(t.Context(), plugin.Bundle{Module: testModule(t, manifestOf(test.suggested))})
			if err != nil {
				t.Fatal(err)
			}
			slot := plugin.NewSlot()
			slot.Swap(t.Context(), g)
			defer slot.Close(context.Background())
			defer close(gate)
			for range int(test.want[0] - '0') {
				go func() { _ = exists(context.Background(), slot) }()
				<-entered
			}
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			if err := exists(ctx, slot); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want one with %q", err, test.want)
			}
		})
	}
}

func TestASlotThatWasClosedCanServeAgain(t *testing.T) {
	slot, _ := serve(t, &fakeEngine{}, testLimits())
	slot.Close(t.Context())
	if err := exists(t.Context(), slot); !errors.Is(err, plugin.ErrNotServing) {
		t.Errorf("error %v", err)
	}
	l, _ := newLoader(&fakeEngine{}, testLimits())
	g, err := l.Load(t.Context(), plugin.Bundle{Module: testModule(t, testManifest)})
	if err != nil {
		t.Fatal(err)
	}
	slot.Swap(t.Context(), g)
	if err := exists(t.Context(), slot); err != nil {
		t.Error(err)
	}
}
