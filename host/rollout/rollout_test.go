package rollout_test

import (
	"context"
	"errors"
	"io"
	"os"
	"runtime"
	"sync"
	"testing"
	"time"

	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/abi/manifest"
	"github.com/wasm-ccm/wasm-ccm/host/engine"
	"github.com/wasm-ccm/wasm-ccm/host/module"
	"github.com/wasm-ccm/wasm-ccm/host/plugin"
	"github.com/wasm-ccm/wasm-ccm/host/rollout"
	"github.com/wasm-ccm/wasm-ccm/host/source"
)

// report is one call of the reporter.
type report struct {
	serving string // config of the bundle that serves
	reason  string
	err     error
}

type reporter chan report

func (r reporter) Serving(b source.Bundle, _ *plugin.Generation) {
	r <- report{serving: string(b.Config)}
}

func (r reporter) Rejected(_ source.Bundle, reason string, err error) {
	r <- report{reason: reason, err: err}
}

func (r reporter) next(t *testing.T) report {
	t.Helper()
	select {
	case got := <-r:
		return got
	case <-time.After(time.Minute):
		t.Fatal("nothing was reported")
		return report{}
	}
}

type loader struct {
	load func(plugin.Bundle) (*plugin.Generation, error)
}

func (l loader) Load(_ context.Context, b plugin.Bundle) (*plugin.Generation, error) {
	return l.load(b)
}

// engineStub answers describe, configure and probe, so that the real loader
// makes real generations.
type engineStub struct{}

func (engineStub) Name() string                { return "stub" }
func (engineStub) Close(context.Context) error { return nil }
func (engineStub) Compile(context.Context, []byte, engine.ModuleConfig) (engine.Module, error) {
	return engineStub{}, nil
}
func (engineStub) Instantiate(context.Context) (engine.Instance, error) { return instanceStub{}, nil }

type instanceStub struct{ engineStub }

func (instanceStub) MemoryBytes() uint64 { return 0 }
func (instanceStub) Call(_ context.Context, op abi.Op, _ []byte) (engine.Result, error) {
	var m abi.Message = &abi.ProbeResponse{Ready: true}
	switch op {
	case abi.OpDescribe:
		m = &abi.DescribeResponse{Name: "test", Version: "1", ProviderName: "test"}
	case abi.OpConfigure:
		m = &abi.ConfigureResponse{Accepted: true}
	}
	data := make([]byte, m.SizeVT())
	_, err := m.MarshalToSizedBufferVT(data)
	return engine.Result{Response: data}, err
}

type nobody struct{}

func (nobody) InstanceCreated()         {}
func (nobody) InstanceDiscarded(string) {}

func limits() plugin.Limits {
	return plugin.Limits{MaxInstances: 1, MaxCallsPerInstance: 10, MaxMemoryBytes: 1 << 20, MaxTableElements: 10, OpTimeout: time.Minute, LoadTimeout: time.Minute}
}

func realLoader() *plugin.Loader {
	return &plugin.Loader{
		Engine: engineStub{}, Limits: limits(), Observer: nobody{},
		Policy:  module.Policy{Capabilities: abi.Capabilities()},
		NewHost: func(*manifest.Manifest) (engine.Host, io.Writer, io.Writer) { return nil, nil, nil },
	}
}

func bundle(t *testing.T, config string) source.Bundle {
	t.Helper()
	wasm, err := os.ReadFile("../../testdata/wat/minimal.wasm")
	if err != nil {
		t.Fatal(err)
	}
	wasm, err = manifest.Append(wasm, []byte(`{"name":"test","version":"1","abi":{"min":1,"max":1},"ops":[],"capabilities":["cache"]}`))
	if err != nil {
		t.Fatal(err)
	}
	return source.Bundle{Module: wasm, Config: []byte(config)}
}

func start(t *testing.T, l rollout.Loader, c clock.Clock) (*rollout.Rollout, *plugin.Slot, reporter) {
	t.Helper()
	reports := make(reporter, 100)
	slot := plugin.NewSlot()
	r := rollout.New(l, slot, reports, c)
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { r.Run(ctx) })
	t.Cleanup(func() {
		cancel()
		wg.Wait()
		slot.Close(context.Background())
	})
	return r, slot, reports
}

func TestBadOffersChangeNothingAndAreReported(t *testing.T) {
	r, slot, reports := start(t, realLoader(), clock.RealClock{})
	r.Offer(bundle(t, "one"), nil)
	if got := reports.next(t); got.serving != "one" {
		t.Fatalf("report %+v", got)
	}
	good := slot.Serving()
	r.Offer(source.Bundle{}, &source.Error{Reason: source.ReasonConfigMapNotFound, Err: errors.New("gone")})
	if got := reports.next(t); got.reason != source.ReasonConfigMapNotFound {
		t.Errorf("report %+v", got)
	}
	r.Offer(source.Bundle{Module: []byte("nonsense")}, nil)
	if got := reports.next(t); got.reason != module.ReasonModuleInvalid {
		t.Errorf("report %+v", got)
	}
	if slot.Serving() != good {
		t.Error("a bad offer changed what serves")
	}
	r.Offer(bundle(t, "one"), nil)
	if got := reports.next(t); got.serving != "one" || slot.Serving() != good {
		t.Errorf("back to what serves: report %+v, the same generation %v", got, slot.Serving() == good)
	}
	r.Offer(bundle(t, "two"), nil)
	if got := reports.next(t); got.serving != "two" || slot.Serving() == good {
		t.Errorf("a new configuration: report %+v", got)
	}
}

func TestFailedProbesAreTriedAgain(t *testing.T) {
	fakeClock := clocktesting.NewFakeClock(time.Now())
	tries := 0
	l := loader{func(b plugin.Bundle) (*plugin.Generation, error) {
		if tries++; tries < 3 {
			return nil, &plugin.LoadError{Phase: plugin.PhaseProbe, Reason: "ProbeFailed", Err: errors.New("the cloud is away")}
		}
		return realLoader().Load(context.Background(), b)
	}}
	r, _, reports := start(t, l, fakeClock)
	r.Offer(bundle(t, "one"), nil)
	for range 2 {
		if got := reports.next(t); got.reason != "ProbeFailed" {
			t.Fatalf("report %+v", got)
		}
		for !fakeClock.HasWaiters() {
			runtime.Gosched() // until it waits for its next try
		}
		fakeClock.Step(10 * time.Second)
	}
	if got := reports.next(t); got.serving != "one" {
		t.Errorf("report %+v", got)
	}
}

func TestBadModulesAreNotTriedAgain(t *testing.T) {
	fakeClock := clocktesting.NewFakeClock(time.Now())
	tries := 0
	l := loader{func(plugin.Bundle) (*plugin.Generation, error) {
		tries++
		return nil, &plugin.LoadError{Phase: plugin.PhaseVerify, Reason: module.ReasonModuleInvalid, Err: errors.New("bad")}
	}}
	r, _, reports := start(t, l, fakeClock)
	r.Offer(bundle(t, "one"), nil)
	reports.next(t)
	r.Offer(bundle(t, "two"), nil)
	reports.next(t)
	if tries != 2 || fakeClock.HasWaiters() {
		t.Errorf("%d tries, waiting for another: %v", tries, fakeClock.HasWaiters())
	}
}

func TestReloadLoadsWhatServesAlready(t *testing.T) {
	loads := 0
	l := loader{func(b plugin.Bundle) (*plugin.Generation, error) {
		loads++
		return realLoader().Load(context.Background(), b)
	}}
	r, slot, reports := start(t, l, clock.RealClock{})
	r.Offer(bundle(t, "one"), nil)
	reports.next(t)
	before := slot.Serving()
	r.Reload()
	if got := reports.next(t); got.serving != "one" || slot.Serving() == before || loads != 2 {
		t.Errorf("report %+v, the same generation %v, %d loads", got, slot.Serving() == before, loads)
	}
}

func TestFailedReloadIsTriedAgain(t *testing.T) {
	fakeClock := clocktesting.NewFakeClock(time.Now())
	loads := 0
	l := loader{func(b plugin.Bundle) (*plugin.Generation, error) {
		if loads++; loads == 2 {
			return nil, &plugin.LoadError{Phase: plugin.PhaseProbe, Reason: "ProbeFailed", Err: errors.New("the cloud is away")}
		}
		return realLoader().Load(context.Background(), b)
	}}
	r, slot, reports := start(t, l, fakeClock)
	r.Offer(bundle(t, "one"), nil)
	reports.next(t)
	before := slot.Serving()
	r.Reload()
	if got := reports.next(t); got.reason != "ProbeFailed" || slot.Serving() != before {
		t.Fatalf("report %+v, the same generation %v", got, slot.Serving() == before)
	}
	for !fakeClock.HasWaiters() {
		runtime.Gosched() // until it waits for its next try
	}
	fakeClock.Step(10 * time.Second)
	if got := reports.next(t); got.serving != "one" || slot.Serving() == before {
		t.Errorf("report %+v, the same generation %v", got, slot.Serving() == before)
	}
}
