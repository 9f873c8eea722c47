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
	"github.com/wasm-ccm/wasm-ccm/host/engine"
	"github.com/wasm-ccm/wasm-ccm/host/module"
	"github.com/wasm-ccm/wasm-ccm/host/plugin"
	"github.com/wasm-ccm/wasm-ccm/host/rollout"
	"github.com/wasm-ccm/wasm-ccm/host/source"
)

// reporter hands over reports in order.
type reporter struct {
	reports  chan rollout.Report
	commands chan error
	journal  chan error
}

func (r *reporter) Report(x rollout.Report)                { r.reports <- x }
func (r *reporter) Commanded(_ rollout.Command, err error) { r.commands <- err }
func (r *reporter) JournalFailed(err error)                { r.journal <- err }

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
		m = &abi.ConfigureResponse{Accepted: true}
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
	wasm, err := os.ReadFile("../../testdata/wat/minimal.wasm")
	if err != nil {
		t.Fatal(err)
	}
	wasm, err = manifest.Append(wasm, []byte(`{"name":"test","version":"1","abi":{"min":1,"max":1},"ops":["instance_exists","instance_shutdown","instance_metadata"],"capabilities":["cache"]}`))
	if err != nil {
		t.Fatal(err)
	}
	return source.Bundle{Module: wasm, Config: []byte(config), Revision: config}
}

// journal remembers in memory.
type journal struct {
	mu     sync.Mutex
	record rollout.Record
	bundle *source.Bundle
	fail   int // so many writes fail
	writes int
}

func (j *journal) Load(context.Context) (rollout.Record, *source.Bundle, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.record, j.bundle, nil
}

func (j *journal) Save(_ context.Context, r rollout.Record) error { return j.write(nil, r) }
func (j *journal) Keep(_ context.Context, b source.Bundle, r rollout.Record) error {
	return j.write(&b, r)
}

func (j *journal) write(b *source.Bundle, r rollout.Record) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.fail > 0 {
		j.fail--
		return errors.New("the API server is away")
	}
	j.writes++
	j.record = r
	if b != nil {
		j.bundle = b
	}
	return nil
}

type comparer func() (string, string)

func (c comparer) Compare(context.Context, *plugin.Generation) (string, string) { return c() }

// world is one rollout with all that belongs to it.
type world struct {
	*rollout.Rollout
	t        *testing.T
	slot     *plugin.Slot
	reporter *reporter
	loader   *loader
	journal  *journal
	clock    *clocktesting.FakeClock
	away     atomic.Bool
	differs  atomic.Bool
	policy   rollout.Policy
	stop     func()
}

func newWorld(t *testing.T, j *journal) *world {
	w := &world{
		t: t, slot: plugin.NewSlot(), journal: j, clock: clocktesting.NewFakeClock(time.Now()),
		reporter: &reporter{make(chan rollout.Report, 1000), make(chan error, 100), make(chan error, 100)},
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
		Comparer: comparer(func() (string, string) {
			if w.differs.Load() {
				return "", "zone: a -> b"
			}
			return "all the same", ""
		}),
	}
	if w.journal != nil {
		options.Journal = w.journal
	}
	w.Rollout = rollout.New(options)
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { w.Run(ctx) })
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
	var seen []string
	for {
		select {
		case got := <-w.reporter.reports:
			if got.Phase == phase {
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

// ask runs ops and says how many of them failed.
func (w *world) ask(n int) (failed int) {
	for range n {
		resp := &abi.InstanceExistsResponse{}
		if err := w.slot.Invoke(w.t.Context(), abi.OpInstanceExists, &abi.InstanceRequest{Node: &abi.Node{Name: "n"}}, resp); err != nil {
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

func (w *world) command(kind, argument string) error {
	w.t.Helper()
	if err := w.Command(rollout.Command{Kind: kind, Argument: argument}); err != nil {
		w.t.Fatal(err)
	}
	return <-w.reporter.commands
}

func TestEveryPhaseIsReported(t *testing.T) {
	w := newWorld(t, nil).run(true)
	w.offer("one")
	for _, p := range []rollout.Phase{rollout.Loading, rollout.Verified, rollout.Compiled, rollout.Described, rollout.Configured, rollout.Probed, rollout.Serving, rollout.Kept} {
		if got := <-w.reporter.reports; got.Phase != p {
			t.Fatalf("phase %s, want %s", got.Phase, p)
		}
	}
	w.offer("two")
	if got := w.until(rollout.Shadowed); got.Message != "all the same" || got.Serving == nil || got.Candidate == nil || got.Serving.Revision != "one+h1" {
		t.Errorf("report %+v", got)
	}
	got := w.until(rollout.Serving)
	if got.Generation != 2 || got.Good.Revision != "one+h1" || got.Serving.Revision != "two+h1" {
		t.Errorf("report %+v", got)
	}
	w.serves("two")
	w.pass(2 * time.Minute)
	w.until(rollout.Kept)
}

func TestBadOffersChangeNothingAndAreReported(t *testing.T) {
	w := newWorld(t, nil).run(true)
	w.offer("one")
	w.until(rollout.Kept)
	w.Offer(source.Bundle{}, &source.Error{Reason: source.ReasonConfigMapNotFound, Err: errors.New("gone")})
	if got := w.until(rollout.Rejected); got.Reason != source.ReasonConfigMapNotFound {
		t.Errorf("report %+v", got)
	}
	w.Offer(source.Bundle{Module: []byte("nonsense"), Revision: "x"}, nil)
	if got := w.until(rollout.Rejected); got.Reason != module.ReasonModuleInvalid {
		t.Errorf("report %+v", got)
	}
	w.serves("one")
	w.offer("one")
	w.until(rollout.Kept) // what was said of the bad one is over
	if w.clock.HasWaiters() {
		t.Error("a bad module is tried again")
	}
}

func TestFailedProbesAreTriedAgain(t *testing.T) {
	w := newWorld(t, nil).run(true)
	w.away.Store(true)
	w.offer("no-probe")
	for range 2 {
		if got := w.until(rollout.Rejected); got.Reason != "ProbeFailed" {
			t.Fatalf("report %+v", got)
		}
		w.pass(10 * time.Second)
	}
	w.until(rollout.Rejected)
	w.away.Store(false)
	w.pass(time.Minute)
	w.until(rollout.Kept)
	w.serves("no-probe")
}

func TestOneThatTrapsIsRolledBackAndStaysOut(t *testing.T) {
	w := newWorld(t, &journal{}).run(true)
	w.offer("one")
	w.until(rollout.Kept)
	good := w.slot.Serving()
	w.offer("trap")
	w.until(rollout.Serving)
	if n := w.ask(4); n != 4 {
		t.Fatalf("%d of 4 ops failed", n)
	}
	got := w.until(rollout.RolledBack)
	if !strings.Contains(got.Message, "4 of 4 ops failed") || !strings.Contains(got.Message, "unreachable") {
		t.Errorf("message %q", got.Message)
	}
	if w.slot.Serving() != good {
		t.Error("the generation before was not warm")
	}
	if n := w.ask(10); n != 0 {
		t.Errorf("%d ops failed after the way back", n)
	}
	w.offer("one")
	w.until(rollout.Kept)
	w.offer("trap")
	w.until(rollout.RolledBack)
	w.serves("one")
	if err := w.command(rollout.CommandPromote, "true"); err != nil {
		t.Error(err)
	}
	w.until(rollout.Kept)
	w.serves("trap")
}

func TestAFewFailuresAreForgiven(t *testing.T) {
	b := rollout.Budget{Failures: 3, Percent: 5}
	for _, test := range []struct {
		now, before plugin.Tally
		want        bool
	}{
		{plugin.Tally{Ops: 3, Failures: 3}, plugin.Tally{}, false},
		{plugin.Tally{Ops: 4, Failures: 4}, plugin.Tally{}, true},
		{plugin.Tally{Ops: 100, Failures: 5}, plugin.Tally{}, false},
		{plugin.Tally{Ops: 100, Failures: 6}, plugin.Tally{}, true},
		{plugin.Tally{Ops: 10, Failures: 10}, plugin.Tally{Ops: 256, Failures: 250}, false}, // the cloud is away
	} {
		if got := rollout.Exceeded(b, test.now, test.before); got != test.want {
			t.Errorf("%+v: %v", test, got)
		}
	}
}

func TestDifferencesHoldUntilPromoted(t *testing.T) {
	j := &journal{}
	w := newWorld(t, j).run(true)
	w.offer("one")
	w.until(rollout.Kept)
	w.differs.Store(true)
	w.offer("two")
	if got := w.until(rollout.Held); got.Reason != rollout.ReasonShadowDiffers || got.Message != "zone: a -> b" {
		t.Errorf("report %+v", got)
	}
	w.serves("one")
	if err := w.command(rollout.CommandPromote, "sha256:00000000"); err == nil {
		t.Error("another digest was promoted")
	}
	if err := w.command(rollout.CommandPromote, "sha256:"+plugin.Bundle(plugin.Bundle{Module: bundle(t, "").Module}).Digests().Module[:12]); err != nil {
		t.Error(err)
	}
	w.until(rollout.Kept)
	w.serves("two")
	if err := w.command(rollout.CommandRollback, ""); err != nil {
		t.Error(err)
	}
	if got := w.until(rollout.RolledBack); got.Reason != rollout.ReasonByOperator {
		t.Errorf("report %+v", got)
	}
	w.serves("one")
	if err := w.command(rollout.CommandRollback, ""); err == nil {
		t.Error("there is nothing more in reserve")
	}
}

func TestPauseHolds(t *testing.T) {
	w := newWorld(t, nil).run(true)
	w.offer("one")
	w.until(rollout.Kept)
	if err := w.command(rollout.CommandPause, ""); err != nil {
		t.Error(err)
	}
	w.offer("two")
	if got := w.until(rollout.Held); got.Reason != rollout.ReasonPaused || !got.Paused {
		t.Errorf("report %+v", got)
	}
	w.serves("one")
	if err := w.command(rollout.CommandResume, ""); err != nil {
		t.Error(err)
	}
	w.until(rollout.Serving)
	w.serves("two")
}

func TestAChangeOfTheAdministratorIsAGeneration(t *testing.T) {
	w := newWorld(t, nil).run(true)
	w.offer("one")
	w.until(rollout.Kept)
	before := w.slot.Serving()
	w.Reload() // nothing has changed
	w.until(rollout.Kept)
	if w.slot.Serving() != before {
		t.Error("the same was loaded again")
	}
	w.loader.revision.Store("h2")
	w.Reload()
	if got := w.until(rollout.Serving); got.Serving.Revision != "one+h2" {
		t.Errorf("report %+v", got)
	}
}

func TestARestartBeginsWithWhatWasKept(t *testing.T) {
	j := &journal{}
	w := newWorld(t, j).run(true)
	w.offer("one")
	w.until(rollout.Kept)
	w.offer("trap")
	w.until(rollout.Serving)
	w.ask(4)
	w.until(rollout.RolledBack)
	w.offer("two")
	w.until(rollout.Serving) // and before it is kept,
	w.stop()

	w = newWorld(t, j).run(true)
	w.until(rollout.Kept)
	w.serves("one")
	w.offer("trap")
	if got := w.until(rollout.RolledBack); got.Reason != rollout.ReasonErrorBudget {
		t.Errorf("report %+v", got)
	}
	w.offer("two")
	if got := w.until(rollout.Serving); got.Generation <= 3 {
		t.Errorf("the generations are counted afresh: %d", got.Generation)
	}
	w.pass(time.Hour)
	w.until(rollout.Kept)
	w.serves("two")
}

func TestTheJournalIsWrittenInTheEnd(t *testing.T) {
	j := &journal{fail: 2}
	w := newWorld(t, j).run(true)
	w.offer("one")
	w.until(rollout.Kept)
	if err := <-w.reporter.journal; !strings.Contains(err.Error(), "away") {
		t.Error(err)
	}
	for {
		j.mu.Lock()
		kept := j.bundle != nil && j.record.Good != nil && j.record.Good.Revision == "one+h1"
		j.mu.Unlock()
		if kept {
			return
		}
		w.clock.Step(time.Minute)
		runtime.Gosched()
	}
}

func TestAStandbyIsReadyAndDecidesNothing(t *testing.T) {
	j := &journal{record: rollout.Record{Good: &rollout.Version{Revision: "one+h1"}}}
	one := bundle(t, "one")
	j.bundle = &one
	w := newWorld(t, j).run(false)
	w.until(rollout.Kept)
	w.offer("two")
	if got := w.until(rollout.Probed); got.Reason != rollout.ReasonStandby {
		t.Errorf("report %+v", got)
	}
	w.serves("one")
	two := bundle(t, "two")
	if err := j.write(&two, rollout.Record{Good: &rollout.Version{Revision: "two+h1"}, Generation: 7}); err != nil { // the leader does
		t.Fatal(err)
	}
	w.Lead()
	if got := w.until(rollout.Kept); got.Generation != 8 || got.Serving.Revision != "two+h1" {
		t.Errorf("report %+v", got)
	}
	w.serves("two")
}

func TestAStandbyWhoseLeaderWentElsewhere(t *testing.T) {
	j := &journal{}
	w := newWorld(t, j).run(false)
	w.offer("one")
	w.until(rollout.Serving)
	three := bundle(t, "three")
	if err := j.write(&three, rollout.Record{Good: &rollout.Version{Revision: "three+h1"}, Refused: []rollout.Refusal{{Revision: "one+h1", Phase: rollout.RolledBack}}}); err != nil {
		t.Fatal(err)
	}
	w.Lead()
	w.until(rollout.RolledBack)
	w.serves("three")
}

func TestNewerOffersReplaceOlderOnes(t *testing.T) {
	w := newWorld(t, nil).run(true)
	for range 200 {
		w.offer("one")
		w.offer("two")
	}
	w.offer("last")
	for {
		if got := w.until(rollout.Serving); got.Serving.Revision == "last+h1" {
			break
		}
	}
	w.serves("last")
}
