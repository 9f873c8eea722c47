package conformance

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/abi/manifest"
	"github.com/wasm-ccm/wasm-ccm/host/internal/cloud/addresses"
	"github.com/wasm-ccm/wasm-ccm/host/internal/cloud/opcontext"
	"github.com/wasm-ccm/wasm-ccm/host/internal/hostcall/hostfunc"
	"github.com/wasm-ccm/wasm-ccm/host/internal/manager/grant"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/engine"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/plugin"
	"github.com/wasm-ccm/wasm-ccm/host/internal/text"
)

const hostVersion = "v0-conformance"

// kit is the guest under test with its environment. It runs one op at a time.
type kit struct {
	Options
	network  *network
	server   *faultServer
	injector *injector
	seen     seen
	memory   *memory
	ear      *ear
	host     *switched
	manifest *manifest.Manifest
	policy   *addresses.Policy
	slot     *plugin.Slot
	// loaded is the error of a guest that did not load.
	loaded error
}

// newKit prepares everything but the guest.
func newKit(ctx context.Context, o Options) (*kit, error) {
	o = o.withDefaults()
	o.Cases = o.Cases.withDefaults()
	if err := o.validate(); err != nil {
		return nil, err
	}
	policy, err := addresses.New(o.Provider.Addresses.Allow, o.Provider.Addresses.Deny)
	if err != nil {
		return nil, fmt.Errorf("addresses.%w", err)
	}
	actions, err := newActions(o.Cases.Actions)
	if err != nil {
		return nil, err
	}
	network, err := newNetwork(ctx, &o, o.Secrets)
	if err != nil {
		return nil, err
	}
	names := make([]string, len(o.Provider.Credentials))
	for i, c := range o.Provider.Credentials {
		names[i] = c.Name
	}
	server, err := newFaultServer(ctx, network.Options, names)
	if err != nil {
		network.close(ctx)
		return nil, err
	}
	k := &kit{Options: o, network: network, server: server, memory: newMemory(), policy: policy, slot: plugin.NewSlot(), host: &switched{}}
	k.ear = &ear{secrets: append(o.Secrets.values(o.Provider.Credentials), o.WrongSecrets.values(o.Provider.Credentials)...)}
	k.seen = newSeen(&k.Options)
	k.injector = &injector{http: o.HTTP, store: k.memory.store(), server: server, actions: actions}
	if o.HTTP == nil {
		k.injector.http = network
	}
	return k, nil
}

func (k *kit) close(ctx context.Context) {
	k.slot.Close(ctx)
	k.server.close()
	k.network.close(ctx)
}

// switched is an engine.Host that can be replaced by an empty one.
type switched struct{ current atomic.Pointer[hostfunc.Host] }

// HostCall implements engine.Host.
func (s *switched) HostCall(ctx context.Context, name string, request []byte) (abi.Code, []byte) {
	return s.current.Load().HostCall(ctx, name, request)
}

// newHost answers host calls through the injector, with an empty cache.
func (k *kit) newHost(http hostfunc.HTTP, scrub func(string) string) *hostfunc.Host {
	return hostfunc.New(hostfunc.Options{
		Provider: k.Provider.Name, Logger: k.ear.logger(), Events: k.ear, Nodes: true,
		Cache: hostfunc.NewCache(clock.RealClock{}), Store: k.injector, HTTP: http, Kube: k.seen,
		// Texts of a guest must not contain a secret even before scrubbing.
		Scrub: func(text string) string {
			k.ear.hear("a line of the log or an Event", text)
			return scrub(text)
		},
		Rates: hostfunc.NewRates(hostfunc.Limits{
			LogLines: 1e6, LogLinesBurst: 1e6, LogBytes: 1 << 30, LogBytesBurst: 1 << 30,
			Events: 1e6, EventsBurst: 1e6, StoreCalls: 1e6, StoreCallsBurst: 1e6,
			KubeCalls: 1e6, KubeCallsBurst: 1e6, KubePatches: 1e6, KubePatchesBurst: 1e6,
		}),
	})
}

// restart simulates the restart of a manager: all state in memory is lost. So
// is an open breaker, which would fail the clauses after the one that opened it.
func (k *kit) restart(ctx context.Context) {
	k.network.Forget()
	k.host.current.Store(k.newHost(k.injector, k.network.scrub))
	if g := k.slot.Serving(); g != nil {
		g.Trim(ctx)
	}
}

// loader loads the guest on a host.
func (k *kit) loader(host engine.Host, m *manifest.Manifest) *plugin.Loader {
	return grant.Loader(plugin.Loader{
		Engine: k.Engine, Compiler: k.Compiler, ClusterName: k.Cases.ClusterName, HostVersion: hostVersion,
		RequireClusterID: true, // as in the manager
		NewHost: func(declared *manifest.Manifest) (engine.Host, io.Writer, io.Writer) {
			if m != nil {
				*m = *declared
			}
			heard := k.host.current.Load()
			return host, heard.Output("stdout"), heard.Output("stderr")
		},
		Scrub: func(text string) string {
			k.ear.hear("what the guest wrote before it crashed", text)
			return k.network.scrub(text)
		},
	}, &k.Provider)
}

// load loads and configures the guest.
func (k *kit) load(ctx context.Context) error {
	k.restart(ctx)
	k.manifest = &manifest.Manifest{}
	if most := k.Provider.Limits.Module.Value(); int64(len(k.Module)) > most {
		return fmt.Errorf("the module has %d bytes, at most %d are allowed (providers[].limits.module)", len(k.Module), most)
	}
	g, err := k.loader(k.host, k.manifest).Prepare(ctx, plugin.Bundle{Module: k.Module, Config: k.Config}, func(string) {})
	if err != nil {
		k.ear.hear("the error of loading", err.Error())
		return err
	}
	for _, w := range g.Warnings() {
		k.ear.hear("a warning about the configuration", w)
	}
	k.slot.Serve(g)
	return nil
}

// outcome is the result of one op, repetitions included.
type outcome struct {
	op abi.Op
	// err is nil when the guest answered ok with a usable answer.
	err     error
	trace   []exchange
	ops     int
	took    time.Duration
	crashed bool
}

// code is abi.CodeOK without an error, and internal without an answer of the
// guest.
func (o outcome) code() abi.Code { return codeOf(o.err) }

func codeOf(err error) abi.Code {
	var e *abi.Error
	switch {
	case err == nil:
		return abi.CodeOK
	case errors.As(err, &e):
		return e.Code
	}
	return abi.CodeInternal
}

func (o outcome) retryAfter() time.Duration {
	var e *abi.Error
	if errors.As(o.err, &e) {
		return e.RetryAfter
	}
	return 0
}

// writes are the requests that changed something, or tried to.
func (o outcome) writes() []exchange {
	return slices.DeleteFunc(slices.Clone(o.trace), func(e exchange) bool { return !e.write })
}

// String describes the op's answer; crash has more about a crash.
func (o outcome) String() string {
	if o.err == nil {
		return o.op.String() + ": ok"
	}
	why := o.err.Error()
	var crash *plugin.Crash
	if errors.As(o.err, &crash) {
		why = crash.Err.Error()
	}
	return fmt.Sprintf("%s: %s: %s", o.op, o.code(), text.Line(why, 300))
}

// crash describes a crash of the guest, in lines.
func (o outcome) crash() (lines []string) {
	var crash *plugin.Crash
	if !errors.As(o.err, &crash) {
		return nil
	}
	if crash.Said != "" {
		lines = append(lines, "  it wrote: "+crash.Said)
	}
	for _, function := range crash.Stack {
		lines = append(lines, "  in "+function)
	}
	return lines
}

// errCrashed is the error of an op that the kit ended: its answer is lost.
var errCrashed = errors.New("the op was ended by the kit")

// call runs one op.
func (k *kit) call(ctx context.Context, p *plan, about opcontext.Op, op abi.Op, req, resp abi.Message) outcome {
	ctx, cancel := context.WithCancel(opcontext.NewContext(ctx, about))
	defer cancel()
	if p != nil && p.fault != nil && p.fault.hangs {
		var stop context.CancelFunc
		ctx, stop = context.WithTimeout(ctx, k.FaultTimeout)
		defer stop()
	}
	k.injector.begin(p, cancel)
	start := time.Now()
	err := k.slot.Invoke(ctx, op, req, resp)
	o := outcome{op: op, err: err, ops: 1, took: time.Since(start)}
	o.trace, o.crashed = k.injector.end()
	if o.crashed {
		o.err = errCrashed
		k.restart(context.WithoutCancel(ctx))
	}
	if o.err != nil {
		k.ear.hear("the error of "+op.String(), o.err.Error())
	}
	return o
}

// maxErrors bounds consecutive failures of an op after a crash or a fault;
// above it the op is stuck.
const maxErrors = 5

// drive repeats an op as the manager does, until it is done or fails. With
// patience it continues after errors other than retry_after, too, as a
// controller does.
func (k *kit) drive(ctx context.Context, patience bool, op func(ctx context.Context) outcome) outcome {
	ctx, cancel := context.WithTimeout(ctx, k.DriveTimeout)
	defer cancel()
	var all outcome
	for errs := 0; ; {
		o := op(ctx)
		all = outcome{op: o.op, err: o.err, trace: append(all.trace, o.trace...), ops: all.ops + 1, took: all.took + o.took, crashed: all.crashed || o.crashed}
		wait := min(k.MaxWait, max(o.retryAfter(), 10*time.Millisecond))
		switch {
		case o.err == nil:
			return all
		case o.crashed:
		case o.code() == abi.CodeRetryAfter, o.code() == abi.CodeThrottled && o.retryAfter() > 0:
			errs = 0
		case !patience || errs >= maxErrors:
			return all
		default:
			errs++
			wait = min(k.MaxWait, 100*time.Millisecond<<errs)
		}
		if !sleep(ctx, wait) {
			all.err = fmt.Errorf("%s is not done after %d tries in %v, the last answer is: %w", o.op, all.ops, k.DriveTimeout, o.err)
			return all
		}
	}
}

func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// nodes of the cases.
func (k *kit) nodes() []*corev1.Node {
	all := make([]*corev1.Node, len(k.Cases.Nodes))
	for i, n := range k.Cases.Nodes {
		all[i] = n.object()
	}
	return all
}

func (k *kit) timed(op abi.Op, run func() error) outcome {
	start := time.Now()
	err := run()
	return outcome{op: op, err: err, ops: 1, took: time.Since(start)}
}
