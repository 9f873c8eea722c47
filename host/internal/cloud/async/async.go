// Package async keeps a slow op from blocking the controller that called it.
// Upstream's controllers call a provider from few workers, mostly one, without a
// deadline: one hung call would block all objects behind it. Here an op gets a
// short time in the foreground. If it needs more, it continues in the background.
// The controller is told to ask again later, and then gets the result.
//
// The package also limits how many ops run, and how many of them in the
// background. It never runs two ops on one Service at the same time. It backs off
// from an object on which the guest hung or crashed again and again.
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
	// Unanswered is told of an op that ended in the background without an
	// answer, after took: its time was over, or it crashed. Whoever asked has
	// left it. object may be nil. When it is the last of several in a row,
	// BackedOff is told instead.
	Unanswered(object *corev1.ObjectReference, op abi.Op, took time.Duration, err error)
	// Busy is told of an op that was not run, or was ended, for lack of room.
	Busy(op abi.Op)
	// BackedOff is told that the guest is not asked again for the delay,
	// because the op failed so many times in a row, the last time with err.
	// object may be nil.
	BackedOff(object *corev1.ObjectReference, op abi.Op, failures int, delay time.Duration, err error)
}

// Options of an Invoker. Zero values are replaced by the defaults.
type Options struct {
	// Foreground is the longest time that a caller waits for an op (2 s).
	Foreground time.Duration
	// OpTimeout is the time that Next gives to any op (30 s). An op that
	// is still there much later is what Healthy reports.
	OpTimeout time.Duration
	// Instances is how many ops Next can run at the same time. It may change
	// from call to call; less than 1 counts as 1. It must not block. (8)
	Instances func() int
	// MaxBackground bounds the ops in the background; 0 is half of Instances,
	// at least 1.
	MaxBackground int
	// QueueTimeout bounds how long a caller waits for another op to end before
	// its own starts (10 s).
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

// nobody observes nothing.
type nobody struct{}

func (nobody) Background(int)                              {}
func (nobody) BackgroundDone(abi.Op, time.Duration, error) {}
func (nobody) ResultDropped(abi.Op, string)                {}
func (nobody) Busy(abi.Op)                                 {}
func (nobody) Unanswered(*corev1.ObjectReference, abi.Op, time.Duration, error) {
}
func (nobody) BackedOff(*corev1.ObjectReference, abi.Op, int, time.Duration, error) {
}

// Invoker is an opcontext.Invoker over another. It is safe for concurrent use.
type Invoker struct {
	next    opcontext.Invoker
	options Options
	seed    maphash.Seed
	// base ends with Shutdown; every op ends with it.
	base context.Context
	end  context.CancelCauseFunc

	mu      sync.Mutex
	ended   bool
	rooms   admission
	objects map[string]*object
	tasks   map[*task]struct{}
	usual   map[abi.Op]*durations
	results results
	resets  int
	swept   time.Time
	// listed is when the last list of routes that succeeded began.
	listed time.Time
}

// New returns an invoker. It starts nothing.
func New(next opcontext.Invoker, options Options) *Invoker {
	i := &Invoker{
		next: next, options: options.withDefaults(), seed: maphash.MakeSeed(),
		objects: map[string]*object{}, tasks: map[*task]struct{}{}, usual: map[abi.Op]*durations{},
	}
	i.base, i.end = context.WithCancelCause(context.Background())
	i.rooms = admission{instances: i.options.Instances, maxBackground: i.options.MaxBackground}
	return i
}

// Supports is that of Next.
func (i *Invoker) Supports(op abi.Op) bool { return i.next.Supports(op) }

// ProviderName is that of Next.
func (i *Invoker) ProviderName() string { return i.next.ProviderName() }

// HasClusterID is that of Next.
func (i *Invoker) HasClusterID() bool { return i.next.HasClusterID() }

// Invoke runs one op, or hands over the result of the same op with the same
// request that ended in the background. While it runs there, or when there is
// no room for it, the error is an *abi.Error with CodeRetryAfter. req is read
// as long as the op runs, also after Invoke returned: nobody may change it.
// resp is meaningful only when the error is nil.
//
// The op does not end with ctx, only its caller's waiting does.
func (i *Invoker) Invoke(ctx context.Context, op abi.Op, req, resp abi.Message) error {
	return i.invoke(ctx, i.next.Invoke, "", op, req, resp)
}

// InvokeFresh is Invoke by a fresh instance. It shares no result with Invoke.
func (i *Invoker) InvokeFresh(ctx context.Context, op abi.Op, req, resp abi.Message) error {
	return i.invoke(ctx, i.next.InvokeFresh, "fresh ", op, req, resp)
}

func (i *Invoker) invoke(ctx context.Context, run opcontext.InvokeFunc, prefix string, op abi.Op, req, resp abi.Message) error {
	c := newCall(ctx, i.seed, prefix, op, req)
	c.run, c.resp = run, emptyCopy(resp)
	queue := time.NewTimer(i.options.QueueTimeout)
	defer queue.Stop()
	defer i.leave(c)
	for {
		step := i.step(ctx, c)
		switch {
		case step.reply != nil:
			return step.reply.into(resp)
		case step.started != nil:
			return i.await(ctx, step.started).into(resp)
		}
		select {
		case <-step.wait:
			if r := step.joined.ended(); r != nil {
				return r.into(resp)
			}
		case <-queue.C:
			return i.busy(c, fmt.Sprintf("it waited %v for its turn", i.options.QueueTimeout))
		case <-ctx.Done():
			return fmt.Errorf("waiting for its turn: %w", context.Cause(ctx))
		}
	}
}

// Reset forgets which objects failed or were slow, and what was answered: a new
// generation is not answerable for the one before. How long ops take is
// remembered: that is the cloud's. Changes go on, and what became of them stays,
// unless they failed: the new generation may do better. Questions that nobody waits
// for are ended: their objects are free for the new generation.
func (i *Invoker) Reset() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.resets++
	for key, o := range i.objects {
		for op, s := range o.ops {
			s.record = record{}
			if s.result != nil && !outlives(op, s.result.reply) {
				i.drop(s, op, droppedSuperseded)
			}
		}
		i.tidy(key, o)
	}
	for t := range i.tasks {
		if t.detached && t.op.Reads() {
			t.end(errReplaced)
		}
	}
	i.rooms.grant() // there may be more instances
}

// The causes with which ops are ended.
var (
	errShutdown = errors.New("the manager is shutting down")
	errReplaced = errors.New("ended, as another generation serves")
	errCrowded  = errors.New("ended for lack of room")
)

// Shutdown ends every op and refuses new ones. It returns when the last op has
// ended, or with the context's error.
func (i *Invoker) Shutdown(ctx context.Context) error {
	running := i.refuse()
	i.end(errShutdown)
	return wait(ctx, running)
}

// SetTimes changes Foreground and OpTimeout; those of ops that run stay as they
// were. Zero values are replaced by the defaults.
func (i *Invoker) SetTimes(foreground, opTimeout time.Duration) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.options.Foreground, i.options.OpTimeout = orElse(foreground, defaultForeground), orElse(opTimeout, defaultOpTimeout)
}

// Healthy returns an error when an op goes on long after its time: then what
// should have ended it does not work, and only a restart of the manager helps.
// It blocks only if the invoker itself is wedged.
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
