package rollout_test

import (
	"context"
	"io"
	"strings"
	"sync/atomic"
	"testing/synctest"
	"time"

	"k8s.io/utils/clock"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/abi/manifest"
	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/rollout"
	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/source"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/engine"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/module"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/plugin"
)

// start begins a process, which is not the leader.
func (l *life) start(name, host string) *liver {
	p := &liver{life: l, name: name, slot: plugin.NewSlot(), ended: make(chan error, 1)}
	p.host = host
	p.book = &bookOf{shelf: l.book, liver: p}
	p.journal = &handle{faulty: l.journal, liver: p}
	p.Rollout = rollout.New(rollout.Options{
		Slot: p.slot, Loader: p.loader(), Reporter: p, Clock: clock.RealClock{},
		Policy: func() rollout.Policy { return l.policy }, Journal: p.journal, Trials: p.book.Begin,
		Examiner: examinerOf{&l.away},
	})
	p.WithoutCollection()
	p.state.Store(&rollout.State{})
	p.loaded.Store(&[]rollout.Revision{})
	p.Look(func(s rollout.State, loaded []rollout.Revision) { p.state.Store(&s); p.loaded.Store(&loaded) })
	ctx, cancel := context.WithCancel(context.Background())
	p.cancel = cancel
	go func() { p.ended <- p.Run(ctx) }()
	synctest.Wait()
	p.Offer(l.offered, l.failing)
	synctest.Wait()
	return p
}

// State is where it stood when it was at rest.
func (p *liver) State() rollout.State { return *p.state.Load() }

// Loaded is what was loaded then.
func (p *liver) Loaded() []rollout.Revision { return *p.loaded.Load() }

// leaves strikes out the marks of a process that ends in order, and at once.
func (p *liver) leaves() {
	if !p.journal.dead.Load() {
		p.book.leave()
	}
}

func (p *liver) stop() {
	p.cancel()
	if err := <-p.ended; err != nil && p.life.journal.healthy() && !p.journal.dead.Load() {
		p.t.Errorf("%s: %v", p.name, err)
	}
}

func (p *liver) loader() rollout.Loader {
	own := &lifeLoader{terms: &p.terms, Loader: &plugin.Loader{
		Engine: engineStub{&p.away}, Policy: module.Policy{Capabilities: abi.Capabilities()},
		Limits:  plugin.Limits{MaxInstances: 1, MaxCallsPerInstance: 10, MaxMemoryBytes: 1 << 20, MaxTableElements: 10, OpTimeout: time.Minute, LoadTimeout: time.Minute},
		NewHost: func(*manifest.Manifest) (engine.Host, io.Writer, io.Writer) { return nil, nil, nil },
	}}
	return own
}

// lifeLoader is a rollout.Loader on terms that change.
type lifeLoader struct {
	*plugin.Loader
	terms *atomic.Value
}

func (l *lifeLoader) Revision() string { return l.terms.Load().(string) }
func (l *lifeLoader) Prepare(ctx context.Context, b source.Bundle, reached func(rollout.Phase)) (*plugin.Generation, error) {
	return l.Loader.Prepare(ctx, plugin.Bundle{Module: b.Module, Config: b.Config}, func(p string) { reached(rollout.PhaseOf(p)) })
}

// examinerOf asks what the configuration says that it answers.
type examinerOf struct{ away *atomic.Bool }

func (e examinerOf) Rehearse(ctx context.Context, g *plugin.Generation) rollout.Evidence {
	evidence := e.Examine(ctx, g)
	if g.Warnings() != nil {
		evidence.Differs = "zone: a -> b"
	}
	return evidence
}

func (e examinerOf) Examine(ctx context.Context, g *plugin.Generation) rollout.Evidence {
	if e.away.Load() {
		return rollout.Evidence{Questions: 2, Summary: "the cloud is away"}
	}
	request := make([]byte, question.SizeVT())
	if _, err := question.MarshalToSizedBufferVT(request); err != nil {
		panic(err)
	}
	if _, _, err := g.Ask(ctx, abi.OpInstanceExists, request); err != nil {
		return rollout.Evidence{Questions: 1, Failure: err.Error()}
	}
	return rollout.Evidence{Questions: 2, Answered: 2, Summary: "all the same"}
}

// A liver is its own rollout.Reporter.
func (p *liver) Report(x rollout.Report) {
	p.last.Store(&x)
	if x.Good != nil { // its phase may be that of another offer
		bundle, _, _ := strings.Cut(x.Good.Revision, "+")
		p.keptNow.Store(bundle, true)
	}
}
func (p *liver) Commanded(rollout.Command, error) {}
func (p *liver) Journalled(error)                 {}
