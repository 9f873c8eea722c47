package rollout_test

import (
	"context"
	"errors"
	"io"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/abi/manifest"
	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/rollout"
	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/source"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/engine"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/module"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/plugin"
	"github.com/wasm-ccm/wasm-ccm/host/status/v1alpha1"
	"github.com/wasm-ccm/wasm-ccm/host/test/requests"
)

// reporter hands over reports in order.
type reporter struct {
	reports  chan rollout.Report
	commands chan error
	journal  chan error
	told     atomic.Int64 // reports so far
	// hear is called with each report before anything else happens.
	hear func(rollout.Report)
}

func (r *reporter) Report(x rollout.Report) {
	r.told.Add(1)
	if r.hear != nil {
		r.hear(x)
	}
	r.reports <- x
}
func (r *reporter) Commanded(_ rollout.Command, err error) { r.commands <- err }
func (r *reporter) Journalled(err error) {
	if err != nil {
		r.journal <- err
	}
}

// engineStub runs guests whose configuration says what they do: "no-probe"
// fails its probe while away is set, "trap" traps in every op but those of loading.
type engineStub struct{ away *atomic.Bool }

func (engineStub) Name() string                { return "stub" }
func (engineStub) Close(context.Context) error { return nil }
func (e engineStub) Compile(context.Context, []byte, engine.ModuleConfig) (engine.Module, error) {
	return e, nil
}
func (e engineStub) Instantiate(context.Context) (engine.Instance, error) {
	return &instanceStub{engineStub: e}, nil
}

type instanceStub struct {
	engineStub
	config string
}

func (*instanceStub) MemoryBytes() uint64 { return 0 }
func (i *instanceStub) Call(_ context.Context, op abi.Op, request []byte) (engine.Result, error) {
	var m abi.Message = &abi.InstanceExistsResponse{Existence: abi.Existence_EXISTENCE_EXISTS}
	switch op {
	case abi.OpDescribe:
		m = &abi.DescribeResponse{Name: "test", Version: "1", ProviderName: "test"}
	case abi.OpConfigure:
		i.config = string(request)
		answer := &abi.ConfigureResponse{Accepted: true}
		if strings.Contains(i.config, "differs") {
			answer.Warnings = []string{"it is another one"}
		}
		m = answer
	case abi.OpProbe:
		if strings.Contains(i.config, "no-probe") && i.away.Load() {
			return engine.Result{}, errors.New("the cloud is away")
		}
		m = &abi.ProbeResponse{Ready: true}
	default:
		if strings.Contains(i.config, "trap") {
			return engine.Result{}, errors.New("unreachable")
		}
	}
	data := make([]byte, m.SizeVT())
	_, err := m.MarshalToSizedBufferVT(data)
	return engine.Result{Response: data}, err
}

type loader struct {
	*plugin.Loader
	revision atomic.Value
}

func (l *loader) Revision() string { return l.revision.Load().(string) }
func (l *loader) Prepare(ctx context.Context, b source.Bundle, reached func(rollout.Phase)) (*plugin.Generation, error) {
	return l.Loader.Prepare(ctx, plugin.Bundle{Module: b.Module, Config: b.Config}, func(p string) { reached(rollout.PhaseOf(p)) })
}

func bundle(t *testing.T, config string) source.Bundle {
	t.Helper()
	return moduleBundle(t, "m", config)
}

// moduleBundle is of a module that another name makes another one.
func moduleBundle(t *testing.T, name, config string) source.Bundle {
	t.Helper()
	wasm, err := os.ReadFile("../../../../testdata/wat/minimal.wasm")
	if err != nil {
		t.Fatal(err)
	}
	wasm, err = manifest.Append(wasm, []byte(`{"name":"test","version":"1","abi":{"min":1,"max":1},"ops":["instance_exists","instance_shutdown","instance_metadata"],"capabilities":["cache"]}`))
	if err != nil {
		t.Fatal(err)
	}
	wasm = append(append(wasm, 0, byte(1+len(name)), byte(len(name))), name...) // a custom section
	return source.Bundle{Module: wasm, Config: []byte(config), Revision: config}
}

// journal remembers in memory.
type journal struct {
	mu      sync.Mutex
	record  rollout.Record
	bundles map[string]source.Bundle
	fail    int     // so many writes fail
	unread  []error // of the first reads; nil: it goes well
	writes  int
}

// remembering is a journal that a manager has left, which kept the bundles, the
// newest first.
func remembering(kept ...source.Bundle) *journal {
	j := &journal{bundles: map[string]source.Bundle{}}
	j.keep(kept...)
	return j
}

// keep is what a leader does.
func (j *journal) keep(kept ...source.Bundle) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.record.Saved, j.record.Generation = nil, 7
	for _, b := range kept {
		j.record.Saved = append(j.record.Saved, rollout.Saved{Module: v1alpha1.Module{Revision: b.Revision, Digest: b.ModuleDigest()}, Kept: true})
		j.bundles[b.Revision] = b
	}
}

func (j *journal) Load(context.Context) (rollout.Record, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if len(j.unread) > 0 {
		err := j.unread[0]
		j.unread = j.unread[1:]
		if err != nil {
			return rollout.Record{}, err
		}
	}
	return j.record, nil
}

func (j *journal) Bundle(_ context.Context, revision string) (*source.Bundle, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if b, ok := j.bundles[revision]; ok {
		return &b, nil
	}
	return nil, errors.New("it is not saved")
}

func (j *journal) Save(_ context.Context, r rollout.Record, bundles []source.Bundle) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.fail > 0 {
		j.fail--
		return errors.New("the API server is away")
	}
	j.writes++
	j.record, j.bundles = r, saved(r, bundles, j.bundles)
	return nil
}

// saved are the bundles that a record calls saved.
func saved(r rollout.Record, bundles []source.Bundle, before map[string]source.Bundle) map[string]source.Bundle {
	now := map[string]source.Bundle{}
	for _, s := range r.Saved {
		if b, ok := before[s.Revision]; ok {
			now[s.Revision] = b
		}
		for _, b := range bundles {
			if b.Revision == s.Revision {
				now[s.Revision] = b
			}
		}
	}
	return now
}

// good tells whether a record has a bundle as what was kept last.
func good(revision string) func(rollout.Record) bool {
	return func(r rollout.Record) bool {
		return len(r.Saved) > 0 && r.Saved[0].Kept && r.Saved[0].Revision == revision
	}
}

func (j *journal) read() rollout.Record {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.record
}

// forget is what a leader does with a refusal that a person has lifted.
func (j *journal) forget() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.record.Refused = nil
}

// mend has writes go well from now on.
func (j *journal) mend() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.fail = 0
}

// await waits until the journal, which is written beside Run, is as wanted.
func (j *journal) await(is func(rollout.Record) bool) {
	for {
		j.mu.Lock()
		done := is(j.record)
		j.mu.Unlock()
		if done {
			return
		}
		runtime.Gosched()
	}
}

type examiner func() rollout.Evidence

func (e examiner) Rehearse(context.Context, *plugin.Generation) rollout.Evidence { return e() }
func (e examiner) Examine(context.Context, *plugin.Generation) rollout.Evidence  { return e() }

// world is one rollout with all that belongs to it.
type world struct {
	*rollout.Rollout
	t        *testing.T
	slot     *plugin.Slot
	reporter *reporter
	loader   *loader
	journal  *journal
	trials   *trials
	clock    *clocktesting.FakeClock
	away     atomic.Bool
	evidence atomic.Pointer[rollout.Evidence]
	policy   rollout.Policy
	stop     func()
	idle     atomic.Int64 // the reports there were when Run waited last
}

func newWorld(t *testing.T, j *journal) *world {
	w := &world{
		t: t, slot: plugin.NewSlot(), journal: j, clock: clocktesting.NewFakeClock(time.Now()),
		reporter: &reporter{reports: make(chan rollout.Report, 1000), commands: make(chan error, 100), journal: make(chan error, 100)},
		policy: rollout.Policy{
			Modes:         rollout.Modes{Probe: rollout.Required, Shadow: rollout.Required, Observe: rollout.Required},
			ObservePeriod: time.Minute, Budget: rollout.Budget{Failures: 3, Percent: 5},
		},
	}
	w.loader = &loader{Loader: &plugin.Loader{
		Engine: engineStub{&w.away}, Policy: module.Policy{Capabilities: abi.Capabilities()},
		Limits:  plugin.Limits{MaxInstances: 1, MaxCallsPerInstance: 10, MaxMemoryBytes: 1 << 20, MaxTableElements: 10, OpTimeout: time.Minute, LoadTimeout: time.Minute},
		NewHost: func(*manifest.Manifest) (engine.Host, io.Writer, io.Writer) { return nil, nil, nil },
	}}
	w.loader.revision.Store("h1")
	return w
}

// run starts it, as the leader or not.
func (w *world) run(lead bool) *world {
	options := rollout.Options{
		Slot: w.slot, Loader: w.loader, Reporter: w.reporter, Clock: w.clock,
		Policy: func() rollout.Policy { return w.policy },
		Examiner: examiner(func() rollout.Evidence {
			if found := w.evidence.Load(); found != nil {
				return *found
			}
			return rollout.Evidence{Questions: 2, Answered: 2, Summary: "all the same"}
		}),
	}
	if w.journal != nil {
		options.Journal = w.journal
	}
	if w.trials != nil {
		options.Trials = w.trials.Begin
	}
	w.Rollout = rollout.New(options)
	w.Look(func(rollout.State, []rollout.Revision) { w.idle.Store(w.reporter.told.Load()) })
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := w.Run(ctx); err != nil {
			w.t.Error(err)
		}
	})
	w.stop = sync.OnceFunc(func() {
		cancel()
		wg.Wait()
		w.slot.Close(context.Background())
	})
	w.t.Cleanup(w.stop)
	if lead {
		w.Lead()
	}
	return w
}

// until waits for a report of that phase and returns it.
func (w *world) until(phase rollout.Phase) rollout.Report {
	w.t.Helper()
	return w.untilEither(phase, phase)
}

func (w *world) untilEither(phase, other rollout.Phase) rollout.Report {
	w.t.Helper()
	var seen []string
	for {
		select {
		case got := <-w.reporter.reports:
			if got.Phase == phase || got.Phase == other {
				return got
			}
			seen = append(seen, string(got.Phase)+" "+got.Reason+" "+got.Message)
		case <-time.After(20 * time.Second):
			w.t.Fatalf("no report of %s, but\n%s", phase, strings.Join(seen, "\n"))
		}
	}
}

func (w *world) offer(config string) { w.Offer(bundle(w.t, config), nil) }

func (w *world) serves(config string) {
	w.t.Helper()
	want := plugin.Bundle{Config: []byte(config)}.Digests().Config
	if got := w.slot.Serving(); got == nil || got.Digests().Config != want {
		w.t.Errorf("%q does not serve", config)
	}
}

// terms changes the terms of generations and tells of it, after Run has done all
// that its last report is part of: before, it may notice them by itself.
func (w *world) terms(now string) {
	for w.idle.Load() != w.reporter.told.Load() {
		runtime.Gosched()
	}
	w.loader.revision.Store(now)
	w.Reload()
}

// question is what the worlds ask about a Node.
var question = requests.Instance("n")

// ask runs ops and says how many of them failed.
func (w *world) ask(n int) (failed int) {
	for range n {
		resp := &abi.InstanceExistsResponse{}
		if err := w.slot.Invoke(w.t.Context(), abi.OpInstanceExists, question, resp); err != nil {
			failed++
		}
	}
	return failed
}

func (w *world) pass(d time.Duration) {
	for !w.clock.HasWaiters() {
		runtime.Gosched() // until it waits
	}
	w.clock.Step(d)
}

// breaks waits until what is offered serves, fails too often and goes back.
func (w *world) breaks() {
	w.t.Helper()
	w.until(rollout.Serving)
	w.ask(4)
	w.until(rollout.RolledBack)
}

func (w *world) command(kind, argument string) error {
	w.t.Helper()
	if err := w.Command(rollout.Command{Kind: kind, Argument: argument}); err != nil {
		w.t.Fatal(err)
	}
	return <-w.reporter.commands
}
