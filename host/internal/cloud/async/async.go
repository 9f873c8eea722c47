// Package async keeps a slow op from blocking the controller that called it. Upstream's
// controllers call a provider from few workers, mostly one, without a deadline: one hung
// call would block all objects behind it. Here an op gets a short time in the foreground. If
// it needs more, it continues in the background. The controller is told to ask again later,
// and then gets the result. A loop with enough workers is patient (opcontext.WithPatience),
// and waits for the end.
//
// The package also limits how many ops run, and how many of them in the background. It never
// runs two ops on one Service at the same time. It backs off from an object on which the
// guest repeatedly hung or crashed.
package async

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/host/internal/cloud/opcontext"
)

// Observer hears what happens to ops. Its methods must be safe for concurrent
// use, must not block and must not call the Invoker.
type Observer interface {
	// Background is told how many ops are in the background now.
	Background(ops int)
	// BackgroundDone is told that an op ended in the background, after d.
	BackgroundDone(op abi.Op, d time.Duration, err error)
	// ResultDropped is told of a result that nobody collected: "expired",
	// "superseded" by another op on the object, or "crowded" out by others.
	ResultDropped(op abi.Op, reason string)
	// Unanswered is told of an op that ended in the background without an answer after took: it
	// timed out or crashed. Its caller has left. object may be nil. The failure that starts a
	// back-off is reported by BackedOff instead.
	Unanswered(object *corev1.ObjectReference, op abi.Op, took time.Duration, err error)
	// Busy is told of an op that was refused or ended for lack of room.
	Busy(op abi.Op)
	// BackedOff is told that the guest is not asked again for the delay, after so many failures
	// in a row, the last of them err. object may be nil.
	BackedOff(object *corev1.ObjectReference, op abi.Op, failures int, delay time.Duration, err error)
}

// Options of an Invoker. Zero values are replaced by the defaults.
type Options struct {
	// Foreground is the longest time that a caller waits for an op (2 s).
	Foreground time.Duration
	// OpTimeout is the deadline of an op in Next (30 s). Healthy reports ops that long outlive
	// it.
	OpTimeout time.Duration
	// Instances is how many ops Next can run at the same time. It may change
	// from call to call; less than 1 counts as 1. It must not block. (8)
	Instances func() int
	// MaxBackground bounds the ops in the background; 0 is half of Instances,
	// at least 1.
	MaxBackground int
	// QueueTimeout bounds how long a call waits for another op before its own starts (10 s).
	QueueTimeout time.Duration
	// Observer may be nil.
	Observer Observer
}

const (
	defaultForeground   = 2 * time.Second
	defaultOpTimeout    = 30 * time.Second
	defaultQueueTimeout = 10 * time.Second
	defaultInstances    = 8
	// lateGrace is added to OpTimeout, so that the deadline of Next ends an op
	// first: its error says more.
	lateGrace = 5 * time.Second
	// wedgedGrace is added once more before an op counts as wedged.
	wedgedGrace = 30 * time.Second
)

func (o Options) withDefaults() Options {
	o.Foreground = orElse(o.Foreground, defaultForeground)
	o.OpTimeout = orElse(o.OpTimeout, defaultOpTimeout)
	o.QueueTimeout = orElse(o.QueueTimeout, defaultQueueTimeout)
	if o.Instances == nil {
		o.Instances = func() int { return defaultInstances }
	}
	if o.Observer == nil {
		o.Observer = nobody{}
	}
	return o
}

func orElse(d, fallback time.Duration) time.Duration {
	if d <= 0 {
		return fallback
	}
	return d
}

// nobody is an Observer that ignores everything.
type nobody struct{}

func (nobody) Background(int)                              {}
func (nobody) BackgroundDone(abi.Op, time.Duration, error) {}
func (nobody) ResultDropped(abi.Op, string)                {}
func (nobody) Busy(abi.Op)                                 {}
func (nobody) Unanswered(*corev1.ObjectReference, abi.Op, time.Duration, error) {
}
func (nobody) BackedOff(*corev1.ObjectReference, abi.Op, int, time.Duration, error) {
}

// Invoker wraps another opcontext.Invoker. It is safe for concurrent use.
type Invoker struct {
	next    opcontext.Invoker
	options Options
	seed    maphash.Seed
	timers  sync.Pool // of waiting callers

	refuses chan struct{} // closed when new ops are refused

	mu      sync.Mutex
	ended   bool
	rooms   admission
	objects map[string]*object
	tasks   map[*task]struct{}
	usual   map[abi.Op]*durations
	results results
	resets  int
	swept   time.Time
	// listed is when the last successful list of routes began.
	listed time.Time
}

// New returns an invoker. It starts nothing.
func New(next opcontext.Invoker, options Options) *Invoker {
	i := &Invoker{
		next: next, options: options.withDefaults(), seed: maphash.MakeSeed(), refuses: make(chan struct{}),
		objects: map[string]*object{}, tasks: map[*task]struct{}{}, usual: map[abi.Op]*durations{},
	}
	i.rooms = admission{instances: i.options.Instances, maxBackground: i.options.MaxBackground, isLong: i.isLong}
	return i
}

// Supports is that of Next.
func (i *Invoker) Supports(op abi.Op) bool { return i.next.Supports(op) }

// ProviderName is that of Next.
func (i *Invoker) ProviderName() string { return i.next.ProviderName() }

// HasClusterID is that of Next.
func (i *Invoker) HasClusterID() bool { return i.next.HasClusterID() }

// Invoke runs one op, or hands over the result of the same op with the same request that
// ended in the background. While that op runs, or when there is no room for a new one, the
// error is an *abi.Error with CodeRetryAfter. The op reads req until it ends, also after
// Invoke returned: req must not change. resp is meaningful only when the error is nil.
//
// The end of ctx ends the caller's waiting, not the op. A patient caller
// (opcontext.WithPatience) waits for its turn and for the end of the op; a caller in a pass
// (opcontext.InPass) leaves an op that takes unusually long.
func (i *Invoker) Invoke(ctx context.Context, op abi.Op, req, resp abi.Message) error {
	return i.invoke(ctx, "", op, req, resp)
}

// InvokeFresh is Invoke by a fresh instance. It shares no result with Invoke.
func (i *Invoker) InvokeFresh(ctx context.Context, op abi.Op, req, resp abi.Message) error {
	return i.invoke(ctx, "fresh ", op, req, resp)
}

func (i *Invoker) invoke(ctx context.Context, prefix string, op abi.Op, req, resp abi.Message) error {
	c := newCall(ctx, i.seed, prefix, op, req)
	c.resp = emptyCopy(resp)
	var queue <-chan time.Time
	defer i.leave(c)
	for {
		step := i.step(ctx, c)
		switch {
		case step.reply != nil:
			return step.reply.into(resp)
		case step.started != nil:
			r := i.await(ctx, step.started, step.patience)
			if r.replaced && c.patient {
				c.replaced++
				continue // the new generation is asked
			}
			return r.into(resp)
		}
		if queue == nil && !c.patient {
			queue = time.After(i.options.QueueTimeout)
		}
		select {
		case <-step.wait:
			if r := step.joined.ended(); r != nil && !r.replaced {
				return r.into(resp)
			}
		case <-step.tooLong:
			return i.postponed(step.meets, c).into(resp)
		case <-queue:
			return i.busy(c, fmt.Sprintf("it waited %v for its turn", i.options.QueueTimeout))
		case <-i.refuses: // the next step returns the error
		case <-ctx.Done():
			return gone(ctx).err
		}
	}
}

// gone is the reply to a call whose caller left before its turn.
func gone(ctx context.Context) *reply {
	return &reply{err: fmt.Errorf("waiting for its turn: %w", context.Cause(ctx))}
}

// Reset forgets failures, slowness and answers: they were the previous generation's. The
// durations of ops stay: they are the cloud's. Changes go on, and their callers get the
// result. Questions without a waiting caller are ended; so are slow questions of a patient
// caller, who then asks the new generation, at most maxReplaced times.
func (i *Invoker) Reset() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.resets++
	for key, o := range i.objects {
		for op, s := range o.ops {
			s.record = record{}
			if s.result != nil {
				i.drop(s, op, droppedSuperseded)
			}
		}
		i.tidy(key, o)
	}
	for t := range i.tasks {
		if t.op.Reads() && (t.detached || i.isReplaced(t) && time.Since(t.started) > i.options.Foreground) {
			t.end(errReplaced)
		}
	}
	i.rooms.grant() // the new generation may have more instances
}

// isReplaced reports whether a slow question is ended so that its caller asks the new
// generation.
func (i *Invoker) isReplaced(t *task) bool {
	return t.op.Reads() && t.patient && t.resets != i.resets && t.replaced < maxReplaced
}

// maxReplaced bounds how often takeovers end the question of one caller. Where generations
// change faster than the cloud answers, an old generation's answer is better than none.
const maxReplaced = 2

// The causes of ended ops.
var (
	errShutdown = errors.New("the manager is shutting down")
	errReplaced = errors.New("ended, as another generation serves")
	errCrowded  = errors.New("ended for lack of room")
)

// Shutdown ends every op and refuses new ones. It returns when the last op has
// ended, or with the context's error.
func (i *Invoker) Shutdown(ctx context.Context) error {
	running := i.refuse()
	i.mu.Lock()
	for _, t := range running {
		t.end(errShutdown)
	}
	i.mu.Unlock()
	return wait(ctx, running)
}

// SetTimes changes Foreground and OpTimeout of later ops. Zero values are replaced by the
// defaults.
func (i *Invoker) SetTimes(foreground, opTimeout time.Duration) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.options.Foreground, i.options.OpTimeout = orElse(foreground, defaultForeground), orElse(opTimeout, defaultOpTimeout)
}

// Healthy returns an error if an op long outlives its deadline: ending it has failed, and
// only a restart of the manager helps. It blocks only if the invoker itself is wedged.
func (i *Invoker) Healthy() error {
	i.mu.Lock()
	defer i.mu.Unlock()
	for t := range i.tasks {
		// Invariant O5 (host/SECURITY.md): an op that outlives its time and a grace makes the
		// manager unhealthy.
		if d := time.Since(t.started); d > t.timeout+lateGrace+wedgedGrace {
			return fmt.Errorf("%s has been running for %v and cannot be ended; its time was %v (providers[].ops.timeout of the HostConfiguration); the manager must be restarted",
				t.about(), d.Round(time.Second), t.timeout)
		}
	}
	return nil
}
