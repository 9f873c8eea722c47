package plugin_test

import (
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/abi/manifest"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/engine"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/module"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/plugin"
)

// fakeEngine is an engine whose instances answer with a Go function.
type fakeEngine struct {
	compile     func([]byte) error
	instantiate func() error
	call        func(ctx context.Context, op abi.Op, request []byte) (engine.Result, error)
	closed      atomic.Int64 // instances
	open        atomic.Int64 // instances
	modules     atomic.Int64 // that are open
}

func (*fakeEngine) Name() string                { return "fake" }
func (*fakeEngine) Close(context.Context) error { return nil }

func (e *fakeEngine) Compile(_ context.Context, wasm []byte, _ engine.ModuleConfig) (engine.Module, error) {
	if e.compile != nil {
		if err := e.compile(wasm); err != nil {
			return nil, err
		}
	}
	e.modules.Add(1)
	return &fakeModule{e}, nil
}

type fakeModule struct{ e *fakeEngine }

func (m *fakeModule) Close(context.Context) error {
	m.e.modules.Add(-1)
	return nil
}

func (m *fakeModule) Instantiate(context.Context) (engine.Instance, error) {
	if m.e.instantiate != nil {
		if err := m.e.instantiate(); err != nil {
			return nil, err
		}
	}
	m.e.open.Add(1)
	return &fakeInstance{e: m.e}, nil
}

type fakeInstance struct {
	e      *fakeEngine
	busy   atomic.Bool
	failed bool
}

func (*fakeInstance) MemoryBytes() uint64 { return 0 }

func (i *fakeInstance) Close(context.Context) error {
	i.e.open.Add(-1)
	i.e.closed.Add(1)
	return nil
}

func (i *fakeInstance) Call(ctx context.Context, op abi.Op, request []byte) (engine.Result, error) {
	if !i.busy.CompareAndSwap(false, true) {
		panic("two calls in one instance")
	}
	defer i.busy.Store(false)
	if i.failed {
		panic("a failed instance was used again")
	}
	result, err := i.e.answer(ctx, op, request)
	i.failed = err != nil
	return result, err
}

func (e *fakeEngine) answer(ctx context.Context, op abi.Op, request []byte) (engine.Result, error) {
	if e.call != nil {
		if result, err := e.call(ctx, op, request); err != nil || result.Response != nil || result.Code != 0 {
			return result, err
		}
	}
	switch op {
	case abi.OpDescribe:
		return ok(&abi.DescribeResponse{Name: "test", Version: "1", ProviderName: "test"}), nil
	case abi.OpConfigure:
		return ok(&abi.ConfigureResponse{Accepted: true, HasClusterId: true}), nil
	case abi.OpProbe:
		return ok(&abi.ProbeResponse{Ready: true, Summary: "fine"}), nil
	case abi.OpInstanceExists:
		return ok(&abi.InstanceExistsResponse{Existence: abi.Existence_EXISTENCE_EXISTS}), nil
	}
	return engine.Result{Code: abi.CodeNotImplemented}, nil
}

func ok(m abi.Message) engine.Result {
	data := make([]byte, m.SizeVT())
	if _, err := m.MarshalToSizedBufferVT(data); err != nil {
		panic(err)
	}
	return engine.Result{Response: data}
}

type counter struct {
	created   atomic.Int64
	mu        sync.Mutex
	discarded map[string]int
}

func (c *counter) InstanceCreated() { c.created.Add(1) }

func (c *counter) InstanceDiscarded(reason string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.discarded == nil {
		c.discarded = map[string]int{}
	}
	c.discarded[reason]++
}

func (c *counter) count(reason string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.discarded[reason]
}

const testManifest = `{"name":"test","version":"1","abi":{"min":1,"max":1},
	"ops":["instance_exists","instance_shutdown","instance_metadata","volume_labels"],"capabilities":["cache"]}`

func testModule(tb testing.TB, manifestJSON string) []byte {
	tb.Helper()
	wasm, err := os.ReadFile("../../../../testdata/wat/minimal.wasm")
	if err != nil {
		tb.Fatal(err)
	}
	wasm, err = manifest.Append(wasm, []byte(manifestJSON))
	if err != nil {
		tb.Fatal(err)
	}
	return wasm
}

func testLimits() plugin.Limits {
	return plugin.Limits{
		MaxInstances: 3, MaxCallsPerInstance: 1000, MaxMemoryBytes: 1 << 20,
		MaxTableElements: 1000, OpTimeout: time.Minute, LoadTimeout: time.Minute,
	}
}

func newLoader(e *fakeEngine, limits plugin.Limits) (*plugin.Loader, *counter) {
	c := &counter{}
	return &plugin.Loader{
		Engine: e, Limits: limits, Observer: c,
		Policy:  module.Policy{Capabilities: []string{abi.CapabilityCache}},
		NewHost: func(*manifest.Manifest) (engine.Host, io.Writer, io.Writer) { return nil, nil, nil },
	}, c
}

// serve loads a bundle into a new slot.
func serve(t *testing.T, e *fakeEngine, limits plugin.Limits) (*plugin.Slot, *counter) {
	t.Helper()
	l, c := newLoader(e, limits)
	g, err := l.Load(t.Context(), plugin.Bundle{Module: testModule(t, testManifest)})
	if err != nil {
		t.Fatal(err)
	}
	slot := plugin.NewSlot()
	slot.Swap(t.Context(), g)
	t.Cleanup(func() { slot.Close(context.Background()) })
	return slot, c
}

func exists(ctx context.Context, s *plugin.Slot) error {
	return s.Invoke(ctx, abi.OpInstanceExists, &abi.InstanceRequest{}, &abi.InstanceExistsResponse{})
}

func TestLoadDescribesTheGeneration(t *testing.T) {
	e := &fakeEngine{}
	slot, _ := serve(t, e, testLimits())
	g := slot.Serving()
	if g.Name() != "test" || g.Version() != "1" || g.ProviderName() != "test" || !g.HasClusterID() || g.Summary() != "fine" {
		t.Errorf("generation %s %s %s %v %q", g.Name(), g.Version(), g.ProviderName(), g.HasClusterID(), g.Summary())
	}
	for op, want := range map[abi.Op]bool{
		abi.OpInstanceExists: true, abi.OpVolumeLabels: true, abi.OpRouteList: false, abi.OpDescribe: false,
	} {
		if slot.Supports(op) != want {
			t.Errorf("Supports(%s) = %v", op, !want)
		}
	}
	if len(g.Digests().Module) != 64 {
		t.Errorf("digest %q", g.Digests().Module)
	}
}

func TestLoadRefusesWithPhaseAndReason(t *testing.T) {
	answerTo := func(at abi.Op, result engine.Result, err error) *fakeEngine {
		return &fakeEngine{call: func(_ context.Context, op abi.Op, _ []byte) (engine.Result, error) {
			if op == at {
				return result, err
			}
			return engine.Result{}, nil
		}}
	}
	for name, test := range map[string]struct {
		engine                *fakeEngine
		module                string
		phase, reason, errHas string
	}{
		"no module":           {&fakeEngine{}, "nonsense", plugin.PhaseVerify, module.ReasonModuleInvalid, "not a WebAssembly module"},
		"does not compile":    {&fakeEngine{compile: func([]byte) error { return errors.New("bad code") }}, "", plugin.PhaseCompile, "CompileFailed", "bad code"},
		"describe traps":      {answerTo(abi.OpDescribe, engine.Result{}, errors.New("trap")), "", plugin.PhaseDescribe, "DescribeFailed", "trap"},
		"describe is another": {answerTo(abi.OpDescribe, ok(&abi.DescribeResponse{Name: "other", Version: "1", ProviderName: "x"}), nil), "", plugin.PhaseDescribe, "DescribeFailed", `"other"`},
		"bad provider name":   {answerTo(abi.OpDescribe, ok(&abi.DescribeResponse{Name: "test", Version: "1", ProviderName: "A b"}), nil), "", plugin.PhaseDescribe, "DescribeFailed", "DNS label"},
		"configure refuses": {answerTo(abi.OpConfigure, engine.Result{Code: abi.CodeInvalid, Detail: ok(&abi.ErrorDetail{Message: "line 3: unknown key"}).Response}, nil),
			"", plugin.PhaseConfigure, "ConfigurationInvalid", "line 3: unknown key"},
		"configure says nothing": {answerTo(abi.OpConfigure, engine.Result{Response: []byte{}}, nil), "", plugin.PhaseConfigure, "ConfigurationInvalid", "did not accept"},
		"probe fails":            {answerTo(abi.OpProbe, engine.Result{Code: abi.CodeUnavailable}, nil), "", plugin.PhaseProbe, "ProbeFailed", "unavailable"},
		"probe says nothing":     {answerTo(abi.OpProbe, engine.Result{Response: []byte{}}, nil), "", plugin.PhaseProbe, "ProbeFailed", "not ready"},
		"undecodable":            {answerTo(abi.OpProbe, engine.Result{Response: []byte{0xff}}, nil), "", plugin.PhaseProbe, "ProbeFailed", "cannot be decoded"},
	} {
		t.Run(name, func(t *testing.T) {
			l, _ := newLoader(test.engine, testLimits())
			bundle := plugin.Bundle{Module: testModule(t, testManifest)}
			if test.module != "" {
				bundle.Module = []byte(test.module)
			}
			g, err := l.Load(t.Context(), bundle)
			var e *plugin.LoadError
			if !errors.As(err, &e) || g != nil {
				t.Fatalf("Load = %v, %v", g, err)
			}
			if e.Phase != test.phase || e.Reason != test.reason || !strings.Contains(err.Error(), test.errHas) {
				t.Errorf("phase %s, reason %s: %v; want %s, %s, %q", e.Phase, e.Reason, err, test.phase, test.reason, test.errHas)
			}
			if open, modules := test.engine.open.Load(), test.engine.modules.Load(); open != 0 || modules != 0 {
				t.Errorf("%d instances and %d modules are left open", open, modules)
			}
		})
	}
}

func TestClusterIDIsRequiredWhereAsked(t *testing.T) {
	e := &fakeEngine{call: func(_ context.Context, op abi.Op, _ []byte) (engine.Result, error) {
		if op == abi.OpConfigure {
			return ok(&abi.ConfigureResponse{Accepted: true}), nil
		}
		return engine.Result{}, nil
	}}
	l, _ := newLoader(e, testLimits())
	l.RequireClusterID = true
	if _, err := l.Load(t.Context(), plugin.Bundle{Module: testModule(t, testManifest)}); err == nil || !strings.Contains(err.Error(), "--allow-untagged-cloud") {
		t.Errorf("error %v", err)
	}
}

func TestConfigurationTurnsOffWholeGroups(t *testing.T) {
	e := &fakeEngine{call: func(_ context.Context, op abi.Op, _ []byte) (engine.Result, error) {
		if op == abi.OpConfigure {
			return ok(&abi.ConfigureResponse{Accepted: true, DisabledOps: []uint32{uint32(abi.OpInstanceShutdown)}}), nil
		}
		return engine.Result{}, nil
	}}
	slot, _ := serve(t, e, testLimits())
	if slot.Supports(abi.OpInstanceExists) || !slot.Supports(abi.OpVolumeLabels) {
		t.Error("turning off one op of the instances must turn off the instances, and nothing else")
	}
	var answer *abi.Error
	if err := exists(t.Context(), slot); !errors.As(err, &answer) || answer.Code != abi.CodeNotImplemented {
		t.Errorf("an op that is off: %v", err)
	}
}

func TestOnlyExplicitAnswersAreAnswers(t *testing.T) {
	for name, test := range map[string]struct {
		result engine.Result
		err    error
		want   string
		code   abi.Code // of the *abi.Error, if it is one
	}{
		"trap":          {err: errors.New("wasm error: unreachable"), want: "unreachable"},
		"no response":   {result: engine.Result{Fuel: 1}, want: "without a response"},
		"undecodable":   {result: engine.Result{Response: []byte{0x08}}, want: "cannot be decoded"},
		"unknown code":  {result: engine.Result{Code: 999}, want: "unknown code 999"},
		"bad detail":    {result: engine.Result{Code: abi.CodeInternal, Detail: []byte{0xff}}, want: "cannot be decoded"},
		"answer":        {result: engine.Result{Code: abi.CodeThrottled}, want: "throttled", code: abi.CodeThrottled},
		"control chars": {result: engine.Result{Code: abi.CodeInternal, Detail: ok(&abi.ErrorDetail{Message: "a\nb\x1b[31m"}).Response}, want: "a; b?[31m", code: abi.CodeInternal},
	} {
		t.Run(name, func(t *testing.T) {
			slot, _ := serve(t, &fakeEngine{call: func(_ context.Context, op abi.Op, _ []byte) (engine.Result, error) {
				if op != abi.OpInstanceExists {
					return engine.Result{}, nil
				}
				if name == "no response" {
					return engine.Result{}, errNoResponse
				}
				return test.result, test.err
			}}, testLimits())
			err := exists(t.Context(), slot)
			if name == "no response" {
				test.want = errNoResponse.Error()
			}
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Fatalf("error %v, want one with %q", err, test.want)
			}
			var answer *abi.Error
			if errors.As(err, &answer) != (test.code != 0) || (answer != nil && answer.Code != test.code) {
				t.Errorf("answer %+v, want code %v", answer, test.code)
			}
		})
	}
}

var errNoResponse = errors.New("no response")

func TestLongMessagesAreCut(t *testing.T) {
	slot, _ := serve(t, &fakeEngine{call: func(_ context.Context, op abi.Op, _ []byte) (engine.Result, error) {
		if op != abi.OpInstanceExists {
			return engine.Result{}, nil
		}
		detail := &abi.ErrorDetail{Message: strings.Repeat("ä", abi.MaxErrorMessageBytes), RetryAfterMs: 1 << 60}
		return engine.Result{Code: abi.CodeRetryAfter, Detail: ok(detail).Response}, nil
	}}, testLimits())
	var answer *abi.Error
	if err := exists(t.Context(), slot); !errors.As(err, &answer) {
		t.Fatal(err)
	}
	if len(answer.Message) > abi.MaxErrorMessageBytes || answer.RetryAfter != time.Hour {
		t.Errorf("%d bytes, retry after %v", len(answer.Message), answer.RetryAfter)
	}
}

func TestNothingServesYet(t *testing.T) {
	slot := plugin.NewSlot()
	if err := exists(t.Context(), slot); !errors.Is(err, plugin.ErrNotServing) {
		t.Errorf("error %v", err)
	}
	if slot.Serving() != nil || slot.ProviderName() != "" || slot.HasClusterID() || slot.Supports(abi.OpInstanceExists) {
		t.Error("an empty slot says it has a provider")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := slot.WaitServing(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}
