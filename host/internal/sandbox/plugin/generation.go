package plugin

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/klog/v2"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/abi/manifest"
	"github.com/wasm-ccm/wasm-ccm/abi/wire"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/compile"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/engine"
	"github.com/wasm-ccm/wasm-ccm/host/internal/text"
)

// Generation is one accepted bundle with its instances. It is safe for
// concurrent use.
type Generation struct {
	digests      Digests
	manifest     *manifest.Manifest
	providerName string
	hasClusterID bool
	tickPeriod   time.Duration
	loadTimeout  time.Duration
	warnings     []string
	ops          map[abi.Op]bool
	limits       Limits
	// resumes: the instances may begin as a snapshot of a configured one.
	resumes bool

	// machineCode holds the module's machine code in the cache.
	machineCode compile.Hold
	module      engine.Module
	pool        *pool
	// decoding has room for one response of more than largeBytes.
	decoding chan struct{}
	// pins counts the running ops, and one for the slot or the loader. Removing the last pin
	// closes the generation.
	mu     sync.Mutex
	pins   int
	closed chan struct{}

	tally   *tally
	summary atomic.Pointer[string]
}

// Digests are the bundle's.
func (g *Generation) Digests() Digests { return g.digests }

// Name is the guest's name.
func (g *Generation) Name() string { return g.manifest.Name }

// Version is the guest's own version.
func (g *Generation) Version() string { return g.manifest.Version }

// ProviderName is the guest's name for its cloud.
func (g *Generation) ProviderName() string { return g.providerName }

// HasClusterID is the guest's answer to configure.
func (g *Generation) HasClusterID() bool { return g.hasClusterID }

// TickPeriod is the guest's period for its op tick, 0 for never.
func (g *Generation) TickPeriod() time.Duration {
	if !g.Supports(abi.OpTick) {
		return 0
	}
	return g.tickPeriod
}

// Summary is one line from the guest's last probe, or "".
func (g *Generation) Summary() string {
	if s := g.summary.Load(); s != nil {
		return *s
	}
	return ""
}

// Probe asks the guest whether it can work. The error is a *LoadError.
func (g *Generation) Probe(ctx context.Context) error {
	response := &abi.ProbeResponse{}
	err := g.invoke(ctx, g.loadTimeout, abi.OpProbe, &abi.ProbeRequest{}, response)
	if err == nil && !response.Ready {
		err = errors.New("the provider is not ready, without saying why")
	}
	if err != nil {
		return &LoadError{Phase: PhaseProbe, Reason: "ProbeFailed", Err: err}
	}
	summary := text.Line(response.Summary, maxWarningBytes)
	g.summary.Store(&summary)
	return nil
}

// Ask runs one op with an encoded request and returns the guest's answer, which may have
// another code than success. The instance is discarded afterwards, and the op counts in no
// tally. It gives way: if every instance is busy, it ends for a waiting op, with ErrGaveWay.
func (g *Generation) Ask(ctx context.Context, op abi.Op, request []byte) (abi.Code, []byte, error) {
	if !g.pin() {
		return 0, nil, errPoolClosed
	}
	defer g.unpin(ctx)
	ctx, cancel := context.WithTimeout(ctx, g.limits.timeout(op))
	defer cancel()
	ctx, leave, err := g.pool.waitAside(ctx)
	if err != nil {
		return 0, nil, err
	}
	defer leave()
	result, err := g.pool.callFresh(ctx, op, request)
	if err != nil && errors.Is(context.Cause(ctx), ErrGaveWay) {
		err = ErrGaveWay
	}
	return result.Code, body(result), err
}

// Instances bounds the concurrent ops.
func (g *Generation) Instances() int { return g.limits.MaxInstances }

// body is the part of a result that belongs to its code.
func body(result engine.Result) []byte {
	if result.Code == abi.CodeOK {
		return result.Response
	}
	return result.Detail
}

// Ops are the ops of the guest with this configuration, in no order.
func (g *Generation) Ops() []abi.Op { return slices.Collect(maps.Keys(g.ops)) }

// Trim closes the idle instances of a generation in reserve. Ops make new ones.
func (g *Generation) Trim(ctx context.Context) {
	if g.pin() {
		g.pool.trim(ctx)
		g.unpin(ctx)
	}
}

// Release is Close without waiting.
func (g *Generation) Release(ctx context.Context) { g.unpin(ctx) }

// Warnings are the guest's about its configuration.
func (g *Generation) Warnings() []string { return g.warnings }

// Supports reports whether the guest has the op with this configuration.
func (g *Generation) Supports(op abi.Op) bool { return g.ops[op] }

// pin keeps the generation from being closed. It fails after the close.
func (g *Generation) pin() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.pins == 0 {
		return false
	}
	g.pins++
	return true
}

// unpin removes a pin. After the last one the generation closes in the background: the last
// op does not wait for that.
func (g *Generation) unpin(ctx context.Context) {
	g.mu.Lock()
	g.pins--
	last := g.pins == 0
	g.mu.Unlock()
	if last {
		go g.free(context.WithoutCancel(ctx))
	}
}

// free closes the generation's resources. Nobody else uses them.
func (g *Generation) free(ctx context.Context) {
	defer close(g.closed)
	var err error
	if g.pool != nil {
		err = g.pool.close(ctx)
	}
	g.machineCode.Release()
	if err := errors.Join(err, g.module.Close(ctx)); err != nil {
		klog.FromContext(ctx).Error(err, "closing a provider", "name", g.Name(), "digest", g.digests.Module)
	}
}

// Close releases the holder's generation, and waits until it is freed or the context ends.
// It is called once, and only for a generation outside of a slot.
func (g *Generation) Close(ctx context.Context) error {
	g.unpin(ctx)
	select {
	case <-g.closed:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("closing the provider %s: %w", g.Name(), ctx.Err())
	}
}

// Closed is closed after the last op has ended and everything is freed.
func (g *Generation) Closed() <-chan struct{} { return g.closed }

// invoke runs one op, bounded by timeout.
func (g *Generation) invoke(ctx context.Context, timeout time.Duration, op abi.Op, req, resp abi.Message) error {
	return g.invokeBy(ctx, (*pool).call, timeout, op, req, resp)
}

func (g *Generation) invokeBy(ctx context.Context, call poolCall, timeout time.Duration, op abi.Op, req, resp abi.Message) error {
	return g.invokeRecorded(ctx, nil, call, timeout, op, req, resp)
}

// invokeRecorded shows the op to the recorder, which may be nil.
func (g *Generation) invokeRecorded(ctx context.Context, r Recorder, call poolCall, timeout time.Duration, op abi.Op, req, resp abi.Message) error {
	request, err := encode(req)
	if err != nil {
		return fmt.Errorf("encoding the request: %w", err)
	}
	bounded, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	end := func(abi.Code, []byte, error) {}
	if r != nil {
		bounded, end = r.Begin(bounded, op, request)
	}
	err = g.run(bounded, end, call, op, request, resp)
	if !expired(ctx) && errors.Is(err, context.DeadlineExceeded) {
		return g.limits.late(op, timeout, err)
	}
	return err
}

// run waits for an instance, and calls end with its answer.
func (g *Generation) run(ctx context.Context, end func(abi.Code, []byte, error), call poolCall, op abi.Op, request []byte, resp abi.Message) error {
	if err := g.pool.wait(ctx); err != nil {
		end(0, nil, err)
		return err
	}
	// Until it is decoded: there are no more responses than instances.
	defer g.pool.release()
	result, err := call(g.pool, ctx, op, request)
	end(result.Code, body(result), err)
	if err != nil {
		return err
	}
	return g.decode(ctx, result, resp)
}

// largeBytes is the size from which responses are decoded one at a time: one per instance
// would take all processors, and memory for each.
const largeBytes = 64 << 10

// decode is the function decode, one at a time for large responses.
func (g *Generation) decode(ctx context.Context, result engine.Result, resp abi.Message) error {
	if len(result.Response) <= largeBytes {
		return decode(result, resp)
	}
	// Invariant M9 (host/SECURITY.md): large responses are decoded one at a time.
	select {
	case g.decoding <- struct{}{}:
		defer func() { <-g.decoding }()
		return decode(result, resp)
	case <-ctx.Done():
		return fmt.Errorf("waiting to decode a response of %d bytes: %w", len(result.Response), ctx.Err())
	}
}

func encode(m abi.Message) ([]byte, error) {
	if size := m.SizeVT(); size > abi.MaxRequestBytes {
		return nil, fmt.Errorf("%d bytes, at most %d are allowed", size, abi.MaxRequestBytes)
	}
	return wire.Marshal(m)
}

// decode turns a guest's answer into resp or an error. Only a response with code OK is
// success.
func decode(result engine.Result, resp abi.Message) error {
	switch {
	// Invariant N1 (host/SECURITY.md): only a response with the code OK is success.
	case !result.Code.Known():
		return fmt.Errorf("the provider answered with the unknown code %d", result.Code)
	case result.Code != abi.CodeOK:
		return answer(result)
	case result.Response == nil:
		return errors.New("the provider reported success without a response")
	}
	if err := wire.Unmarshal(result.Response, resp); err != nil {
		return fmt.Errorf("the provider's response cannot be decoded: %w", err)
	}
	return nil
}

// maxRetryAfter bounds a guest's retry delay.
const maxRetryAfter = time.Hour

func answer(result engine.Result) error {
	detail := &abi.ErrorDetail{}
	if err := wire.Unmarshal(result.Detail, detail); err != nil {
		return fmt.Errorf("the provider answered %s, with an error detail that cannot be decoded: %w", result.Code, err)
	}
	retryAfter := min(max(detail.RetryAfterMs, 0), maxRetryAfter.Milliseconds())
	// Invariant M26 (host/SECURITY.md): a guest's errors, warnings and summaries leave this package
	// as bounded single lines.
	return &abi.Error{
		Code:       result.Code,
		Message:    text.Line(detail.Message, abi.MaxErrorMessageBytes),
		RetryAfter: time.Duration(retryAfter) * time.Millisecond,
	}
}
