// Package rollout brings an offer of a source (a module and its configuration) into the
// slot, and back out of it if it turns out to be worse than the previous one. The steps are
// verify, compile, describe, configure, probe, shadow, serve, observe, keep. State decides,
// Rollout acts.
//
// A failure on the way changes only the reported status: the previous generation continues
// to serve. The last kept generation stays loaded while its successor is observed, so a
// rollback takes no time.
package rollout

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/utils/clock"

	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/source"
	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/trial"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/plugin"
	"github.com/wasm-ccm/wasm-ccm/host/status/v1alpha1"
)

// The delays between tries of a bundle with a temporary failure, for example a cloud that
// did not answer the probe.
const (
	retryMin = 2 * time.Second
	retryMax = 2 * time.Minute
)

// Loader makes generations. It is safe for concurrent use.
type Loader interface {
	// Prepare brings a bundle up to Configured. The caller owns the generation. An error that is
	// a *plugin.LoadError names its reason.
	Prepare(ctx context.Context, bundle source.Bundle, reached func(Phase)) (*plugin.Generation, error)
	// Revision identifies the inputs of a generation beside the bundle, as the administrator's
	// grants.
	Revision() string
}

// Policy is the administrator's policy for rollouts.
type Policy struct {
	Modes
	// ObservePeriod is how long a generation serves before it is kept.
	ObservePeriod time.Duration
	Budget        Budget
}

// Options of a Rollout.
type Options struct {
	Slot     *plugin.Slot
	Loader   Loader
	Reporter Reporter
	// Policy is asked whenever it matters, and must not block.
	Policy func() Policy
	// Journal may be nil: then a restart forgets everything.
	Journal Journal
	// Trials may be nil: then a bundle that ended the manager is tried again.
	Trials Trials
	// Examiner may be nil: then nothing is asked.
	Examiner Examiner
	Clock    clock.WithTicker
}

// Rollout brings the offers of one source into one slot. Run must be called once.
type Rollout struct {
	options  Options
	offers   chan offer
	reloads  chan struct{}
	commands chan Command
	lead     chan struct{}

	// All below belongs to Run.
	state      State
	current    offer // the source's content, except during a renewal
	renewal    renewal
	loads      loads
	generation int64
	saved      []Saved // bundles for a restart
	history    history
	by         string    // who asked for the current step
	longer     bool      // the serving generation was examined, and is observed for longer
	since      time.Time // start of its observation
	held       string    // the source's last content, "" if unknown
	seen       bool      // this manager saw that content as a bundle
	allowed    bool      // the last rehearsal found an allowed difference
	worker     worker
	examiner   worker // for the serving generation
	watch      watch
	backoff    *flowcontrol.Backoff
	retry      <-chan time.Time
	again      time.Duration    // of a suspect: the wait before the next try; 0 otherwise
	takeover   <-chan time.Time // fires for another try to read the previous leader's record
	delays     wait.Backoff     // of those tries
	resumption <-chan time.Time // fires for another look at the saved bundles
	overdue    bool             // the source's content has been unknown for long
	journal    *journalist
	waits      atomic.Bool
	// watching counts the goroutines that wait for generations to end.
	watching sync.WaitGroup
	// collectGarbage is runtime.GC, except in tests that would call it thousands of times.
	collectGarbage func()
	// looked, set only by tests, is called before Run waits.
	looked func()
}

type offer struct {
	bundle  source.Bundle
	err     error
	at      time.Time
	version *v1alpha1.Module // nil without a module
	anew    bool             // the source had other content before
	after   bool             // it replaced an empty offer
}

// name distinguishes offers.
func (o offer) name() string {
	if o.err != nil {
		return "nothing"
	}
	return "bundle " + o.bundle.Revision
}

// New returns a rollout. It starts nothing.
func New(options Options) *Rollout {
	if options.Examiner == nil {
		options.Examiner = unexamined{}
	}
	r := &Rollout{
		options: options,
		offers:  make(chan offer, 1), reloads: make(chan struct{}, 1),
		commands: make(chan Command, maxCommands), lead: make(chan struct{}, 1),
		state:  State{Phase: Waiting},
		loads:  loads{},
		worker: newWorker(), examiner: newWorker(),
		backoff: flowcontrol.NewBackOff(retryMin, retryMax),
		delays:  newDelays(),

		collectGarbage: runtime.GC,
	}
	r.state.Known = func(x Revision) bool { return r.history.knows(x) }
	return r
}

// Offer hands over the source's content. A newer offer replaces one that has not begun. It
// never blocks; only one goroutine may call it.
func (r *Rollout) Offer(bundle source.Bundle, err error) {
	next := offer{bundle: bundle, err: err, at: r.options.Clock.Now(), version: versionOf(bundle)}
	select {
	case before := <-r.offers:
		next.anew = before.anew || before.err == nil && before.name() != next.name()
		next.after = before.after || before.err != nil && !passing(before.err)
	default:
	}
	r.offers <- next
}

func versionOf(bundle source.Bundle) *v1alpha1.Module {
	if !bundle.HasModule() {
		return nil
	}
	return &v1alpha1.Module{Digest: bundle.ModuleDigest(), ConfigDigest: configDigest(bundle), ImageDigest: bundle.Image}
}

// configDigest is the public digest of a configuration: "" for a private one.
func configDigest(bundle source.Bundle) string {
	if bundle.ConfigPrivate {
		return ""
	}
	return bundle.ConfigDigest()
}

// Reload has the last offer examined again, since the Loader's Revision may have changed. It
// never blocks, and may be called from anywhere.
func (r *Rollout) Reload() { signal(r.reloads) }

// Waits reports whether the offer must first pass its trial in the leader: this manager is
// healthy, even if nothing serves in it. It may be called from anywhere.
func (r *Rollout) Waits() bool { return r.waits.Load() }

// Lead tells that this manager's control loops begin: from now on it observes its
// generations and keeps the journal. It never blocks.
func (r *Rollout) Lead() { signal(r.lead) }

func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default: // a queued signal does it
	}
}

// Run works until the context ends. Then it cancels the running step, completes the journal,
// waits for the ops of the serving generation, and closes the slot. The error names the
// calls that could not be ended.
func (r *Rollout) Run(ctx context.Context) error {
	life := context.WithoutCancel(ctx)
	r.journal = newJournalist(r.options.Journal, r.options.Clock, r.options.Reporter)
	writing, stop := context.WithCancel(life)
	var writer sync.WaitGroup
	writer.Go(func() { r.journal.run(writing) })
	r.restore(ctx)
	for ctx.Err() == nil {
		if r.looked != nil {
			r.looked()
		}
		action, ok := r.next(ctx)
		for ok {
			for action != Nothing {
				action = r.do(ctx, action)
			}
			if action = r.renewed(); action == Nothing {
				break
			}
		}
	}
	r.worker.end()
	r.examiner.end()
	stop()
	writer.Wait()
	r.journal.flush(life)
	r.save() // with the latest counts of calls
	r.journal.writeOnce(life)
	return r.end(life)
}

// next waits for an event and asks the state for the next action.
func (r *Rollout) next(ctx context.Context) (Action, bool) {
	commands := r.commands
	if !r.state.Leading { // earlier decisions come first
		commands = nil
	}
	select {
	case <-ctx.Done():
		return Nothing, false
	case o := <-r.offers:
		return r.take(o), true
	case <-r.reloads:
		r.renewal.tried, r.renewal.again = Revision{}, nil
		if r.current.at.IsZero() {
			return Nothing, false // the first offer is loaded with the terms of that time
		}
		return r.offered(), true
	case <-r.renewal.again:
		r.renewal.again, r.renewal.tried = nil, Revision{}
		return Nothing, true
	case <-r.retry:
		r.retry = nil
		return r.state.RetryDue(), true
	case phase := <-r.worker.progress:
		return r.progressed(phase), true
	case result := <-r.worker.results:
		return r.worker.apply(result), true
	case <-r.watch.failed:
		return r.watched(), true
	case <-r.watch.over:
		r.watch.over = nil
		return Examine, true
	case result := <-r.examiner.results:
		return r.examiner.apply(result), true
	case command := <-commands:
		return r.command(ctx, command), true
	case <-r.resumption:
		r.overdue = true
		if r.resumption = nil; r.state.Serving.none() && r.state.Candidate.none() {
			r.resume(ctx, r.untried())
		}
		return Nothing, true
	case <-r.lead:
		return r.takeOver(ctx), true
	case <-r.takeover:
		return r.takeOver(ctx), true
	}
}

// offered tells the state the source's offer.
func (r *Rollout) offered() Action {
	r.retry = nil
	if err := r.current.err; err != nil {
		action := r.state.SourceFailed(sourceReason(err), err.Error())
		r.reportError(r.current.bundle, err)
		return action
	}
	r.hide()
	again, refused := r.current.anew, len(r.state.Refused)
	r.current.anew = false
	action := r.state.Offer(r.revision(r.current.bundle), again)
	if len(r.state.Refused) != refused {
		r.save()
	}
	if action == Drop {
		r.reportOffer() // it serves already, or is refused
	}
	return action
}

// untried is the standing of a bundle that was not kept.
func (r *Rollout) untried() trial.Standing {
	if r.state.Leading {
		return trial.Offered
	}
	return trial.Resuming
}

// revision identifies the generation that a bundle becomes.
func (r *Rollout) revision(bundle source.Bundle) Revision {
	return Revision{Module: bundle.ModuleDigest(), Bundle: bundle.Revision, Terms: r.options.Loader.Revision()}
}

func (r *Rollout) do(ctx context.Context, a Action) Action {
	switch a {
	case Load:
		return r.load(ctx)
	case Probe:
		r.probe(ctx)
	case Shadow:
		r.shadow(ctx)
	case Serve:
		return r.serve(ctx)
	case Observe:
		return r.observe()
	case Examine:
		r.examine(ctx)
	case Keep:
		r.keep(ctx)
	case RollBack:
		r.rollBack(ctx)
	case Drop:
		r.drop(ctx)
	case Retry:
		r.drop(ctx)
		r.retry = r.options.Clock.After(r.delay())
	}
	return Nothing
}

// delay is the time until the next try.
func (r *Rollout) delay() time.Duration {
	switch again := r.again; {
	case r.state.Phase == Waiting: // for another manager: not the bundle's fault
		return postponePeriod
	case again > 0:
		r.again = 0
		return again
	}
	r.backoff.Next(only, r.options.Clock.Now())
	return r.backoff.Get(only)
}

// only is the single key of the back-off.
const only = "bundle"

// endTimeout bounds Run's wait for work in progress at its end. It is longer than an op may
// take.
const endTimeout = time.Minute

// end releases all loaded generations.
func (r *Rollout) end(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, endTimeout)
	defer cancel()
	r.state.Candidate, r.state.Good, r.state.Previous = Revision{}, Revision{}, Revision{}
	r.collect(ctx, Revision{})
	r.options.Slot.Close(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		r.worker.running.Wait()
		r.examiner.running.Wait()
		r.watching.Wait()
	}()
	select {
	case <-ended:
		return nil
	case <-ctx.Done():
		return errors.New("a call of the provider continues, and cannot be ended")
	}
}
