package plugin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/abi/manifest"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/compile"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/engine"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/meter"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/module"
	"github.com/wasm-ccm/wasm-ccm/host/internal/text"
)

// Loader makes generations. Its fields are set before the first Load and not changed; it is
// safe for concurrent use.
type Loader struct {
	Engine engine.Engine
	Limits Limits
	// Policy is what the administrator grants.
	Policy module.Policy
	// ClusterName is the value of --cluster-name.
	ClusterName string
	// HostVersion is told to the guest.
	HostVersion string
	// RequireClusterID refuses configurations without one.
	RequireClusterID bool
	// NewHost returns the host calls of a guest, and the writers for its standard output and
	// error.
	NewHost func(*manifest.Manifest) (host engine.Host, stdout, stderr io.Writer)
	// Scrub replaces secrets in the last output of a crashed guest, which is part of the error
	// of its op (Crash). Nil: errors have no output.
	Scrub func(string) string
	// Observer may be nil.
	Observer Observer
	// Compiler may be nil: then the engine compiles in this process, within its own bounds only.
	Compiler Compiler
	// EachFromNothing initialises and configures every instance, even if it could begin as a
	// snapshot of a configured one.
	EachFromNothing bool
}

// resumes reports whether the instances of a module may begin as snapshots.
//
// Invariant C6 (host/SECURITY.md): a module asks for it.
func (l *Loader) resumes(m *module.Module) bool {
	return !l.EachFromNothing && slices.ContainsFunc(m.Exports, func(e module.Export) bool { return e.Name == abi.ExportResume })
}

// Compiler compiles in another process.
type Compiler interface {
	// Prepare puts a module's machine code where the engine finds it when it compiles Prepare's
	// result. The error may be a *compile.InvalidError.
	Prepare(ctx context.Context, job compile.Job) (outline []byte, err error)
}

func (l *Loader) observer() Observer {
	if l.Observer == nil {
		return nobody{}
	}
	return l.Observer
}

// nobody is an Observer that ignores everything.
type nobody struct{}

func (nobody) InstanceCreated()         {}
func (nobody) InstanceDiscarded(string) {}

// Load brings a bundle through every phase: Prepare, then Probe.
func (l *Loader) Load(ctx context.Context, bundle Bundle) (*Generation, error) {
	g, err := l.Prepare(ctx, bundle, func(string) {})
	if err != nil {
		return nil, err
	}
	if err := g.Probe(ctx); err != nil {
		return nil, errors.Join(err, g.Close(context.WithoutCancel(ctx)))
	}
	return g, nil
}

// Prepare brings a bundle through every phase before the probe, and calls reached after
// each. The caller owns the generation, and puts it into a slot or closes it. The error is a
// *LoadError, and leaves nothing behind.
func (l *Loader) Prepare(ctx context.Context, bundle Bundle, reached func(phase string)) (*Generation, error) {
	g, symbols, err := l.ready(ctx, bundle, func() { reached(PhaseVerify) })
	if err != nil {
		return nil, err
	}
	g.module = explained{g.module, crashes{symbols, l.Scrub}}
	reached(PhaseCompile)
	configure := &abi.ConfigureRequest{Config: bundle.Config, ClusterName: l.ClusterName}
	if err := l.start(ctx, g, configure, reached); err != nil {
		return nil, errors.Join(err, g.Close(context.WithoutCancel(ctx)))
	}
	return g, nil
}

// Verify brings a module through those phases of Prepare that run none of its code, and
// keeps nothing. The error is a *LoadError.
func (l *Loader) Verify(ctx context.Context, wasm []byte) error {
	g, _, err := l.ready(ctx, Bundle{Module: wasm}, func() {})
	if err != nil {
		return err
	}
	defer g.machineCode.Release()
	return g.module.Close(ctx)
}

// ready verifies and compiles a module, up to its first instance.
func (l *Loader) ready(ctx context.Context, bundle Bundle, verified func()) (*Generation, *meter.Symbols, error) {
	g, symbols, err := l.verify(bundle)
	if err == nil {
		err = l.compile(ctx, g, bundle.Module, verified)
	}
	return g, symbols, err
}

// verify checks everything of a module but its code.
func (l *Loader) verify(bundle Bundle) (*Generation, *meter.Symbols, error) {
	checked, declared, err := module.Check(bundle.Module, l.Policy)
	if err != nil {
		return nil, nil, verifyError(err)
	}
	g := &Generation{
		digests: bundle.Digests(), manifest: declared, limits: l.Limits.suggested(declared.Limits),
		resumes: l.resumes(checked), pins: 1, closed: make(chan struct{}), tally: newTally(), decoding: make(chan struct{}, 1),
	}
	symbols, err := meter.ReadSymbols(checked.Binary)
	if err != nil {
		g.warnings = append(g.warnings, text.Line(fmt.Sprintf("no names of functions are told after a crash: %v", err), maxWarningBytes))
	}
	return g, symbols, nil
}

func verifyError(err error) *LoadError {
	reason := module.ReasonModuleInvalid
	var e *module.Error
	if errors.As(err, &e) {
		reason = e.Reason
	}
	return &LoadError{Phase: PhaseVerify, Reason: reason, Err: err}
}

func (l *Loader) meterOptions(g *Generation) meter.Options {
	return meter.Options{
		ImportModule:     engine.RefuelModule,
		ImportName:       engine.RefuelName,
		MaxMemoryPages:   uint32(g.limits.MaxMemoryBytes >> 16),
		MaxTableElements: g.limits.MaxTableElements,
		MaxStackBytes:    engine.StackBytes,
		Resume:           abi.ExportResume,
		Globals:          engine.GlobalPrefix,
	}
}

// compile meters and compiles the module, and calls verified when it is known to be valid.
func (l *Loader) compile(ctx context.Context, g *Generation, wasm []byte, verified func()) (err error) {
	host, stdout, stderr := l.NewHost(g.manifest)
	config := engine.ModuleConfig{MemoryLimitBytes: g.limits.MaxMemoryBytes, Host: host, Stdout: stdout, Stderr: stderr}
	verified = sync.OnceFunc(verified)
	for try := range compileTries {
		// Invariant M5 (host/SECURITY.md): a module that the Compiler cannot compile is not compiled
		// here.
		var engines []byte
		if engines, err = l.prepare(ctx, g, wasm, try > 0, verified); err == nil {
			g.module, err = l.Engine.Compile(ctx, engines, config)
		}
		// The machine code may be gone by now, or rejected by the engine.
		if !errors.Is(err, engine.ErrNotCompiled) {
			break
		}
	}
	if err == nil {
		return nil
	}
	g.machineCode.Release()
	var invalid *LoadError
	if errors.As(err, &invalid) {
		return err
	}
	return &LoadError{Phase: PhaseCompile, Reason: "CompileFailed", Err: err}
}

// prepare returns the engine's input: the metered module, or the outline of a module
// compiled by the Compiler. The error is a *LoadError if the module is invalid. Anew: the
// engine rejected the machine code.
func (l *Loader) prepare(ctx context.Context, g *Generation, wasm []byte, anew bool, verified func()) (engines []byte, err error) {
	if l.Compiler != nil {
		job := l.job(g, wasm)
		job.Engine, job.Anew, job.Hold, job.Metered = l.Engine.Name(), anew, &g.machineCode, verified
		engines, err = l.Compiler.Prepare(ctx, job)
		var invalid *compile.InvalidError
		if !errors.As(err, &invalid) {
			return engines, err
		}
	} else if engines, err = meter.Rewrite(wasm, l.meterOptions(g)); err == nil {
		verified()
		return engines, nil
	}
	return nil, &LoadError{Phase: PhaseVerify, Reason: module.ReasonModuleInvalid, Err: err}
}

// Job checks a module, and returns the Compiler's job for it, without the engine. The error
// is a *LoadError.
func (l *Loader) Job(wasm []byte) (compile.Job, error) {
	g, _, err := l.verify(Bundle{Module: wasm})
	if err != nil {
		return compile.Job{}, err
	}
	return l.job(g, wasm), nil
}

func (l *Loader) job(g *Generation, wasm []byte) compile.Job {
	return compile.Job{Wasm: wasm, Digest: g.digests.Module, Meter: l.meterOptions(g), Limits: l.Limits.Compile}
}

// compileTries bounds the tries with the Compiler when the engine does not find the machine
// code.
const compileTries = 2

// start describes and configures the generation.
func (l *Loader) start(ctx context.Context, g *Generation, configure *abi.ConfigureRequest, reached func(phase string)) error {
	if err := l.describe(ctx, g); err != nil {
		return &LoadError{Phase: PhaseDescribe, Reason: "DescribeFailed", Err: err}
	}
	reached(PhaseDescribe)
	request, err := encode(configure)
	if err != nil {
		return &LoadError{Phase: PhaseConfigure, Reason: "ConfigurationInvalid", Err: err}
	}
	// From here on every instance is configured before its first op.
	g.pool = newPool(g.module, func(ctx context.Context, i engine.Instance) error {
		return callOnce(ctx, i, abi.OpConfigure, request, &abi.ConfigureResponse{})
	}, g.limits, l.observer())
	if err := l.configure(ctx, g, request); err != nil {
		return &LoadError{Phase: PhaseConfigure, Reason: "ConfigurationInvalid", Err: err}
	}
	g.loadTimeout = l.Limits.LoadTimeout
	reached(PhaseConfigure)
	return nil
}

// describe asks a first instance, which is discarded: only a guest that matches its manifest
// gets a pool.
func (l *Loader) describe(ctx context.Context, g *Generation) error {
	g.pool = newPool(g.module, func(context.Context, engine.Instance) error { return nil }, g.limits, l.observer())
	request := &abi.DescribeRequest{AbiVersion: abi.Version, HostVersion: l.HostVersion}
	response := &abi.DescribeResponse{}
	if err := g.invoke(ctx, l.Limits.LoadTimeout, abi.OpDescribe, request, response); err != nil {
		return err
	}
	if err := g.pool.close(ctx); err != nil {
		return err
	}
	if response.Name != g.manifest.Name || response.Version != g.manifest.Version {
		return fmt.Errorf("the guest says it is %s %s, its manifest says %q %q; build both from one source",
			text.Quote(response.Name), text.Quote(response.Version), g.manifest.Name, g.manifest.Version)
	}
	if len(response.Features) > 0 {
		return fmt.Errorf("the guest uses the feature %s, which this manager does not offer; use a newer manager", text.Quote(response.Features[0]))
	}
	if !isDNSLabel(response.ProviderName) {
		return fmt.Errorf("provider_name %s must be a DNS label", text.Quote(response.ProviderName))
	}
	g.providerName = response.ProviderName
	return nil
}

func (l *Loader) configure(ctx context.Context, g *Generation, request []byte) error {
	response := &abi.ConfigureResponse{}
	bounded, cancel := context.WithTimeout(ctx, l.Limits.LoadTimeout)
	defer cancel()
	switch err := g.configureOnce(bounded, request, response); {
	case err != nil && !expired(ctx) && errors.Is(err, context.DeadlineExceeded):
		return l.Limits.late(abi.OpConfigure, l.Limits.LoadTimeout, err)
	case err != nil:
		return err
	}
	g.hasClusterID = response.HasClusterId
	g.tickPeriod = tickPeriod(response.TickPeriodMs)
	if !g.hasClusterID && l.RequireClusterID {
		return errors.New("the provider has no cluster ID in its configuration; add one, or set --allow-untagged-cloud")
	}
	for _, warning := range response.Warnings[:min(len(response.Warnings), maxWarnings)] {
		g.warnings = append(g.warnings, text.Line(warning, maxWarningBytes))
	}
	ops, warnings, err := supported(g.manifest.Ops, response.DisabledOps)
	g.ops, g.warnings = ops, append(g.warnings, warnings...)
	return err
}

// tickPeriod is the guest's period, within bounds; 0 is never.
func tickPeriod(ms int64) time.Duration {
	if ms <= 0 {
		return 0
	}
	return time.Duration(min(max(ms, abi.LeastTickPeriodMs), abi.MostTickPeriodMs)) * time.Millisecond
}

// configureOnce configures an instance, which is discarded after its snapshot was taken.
func (g *Generation) configureOnce(ctx context.Context, request []byte, response *abi.ConfigureResponse) error {
	instance, err := g.module.Instantiate(ctx)
	if err != nil {
		return err
	}
	err = callOnce(ctx, instance, abi.OpConfigure, request, response)
	if err == nil && g.resumes {
		g.keep(instance)
	}
	return errors.Join(err, instance.Close(context.WithoutCancel(ctx)))
}

// keep lets the pool's instances begin as this one, if possible. It has run only the ops of
// loading.
func (g *Generation) keep(instance engine.Instance) {
	// Invariant C2 (host/SECURITY.md): a snapshot is of an instance without other ops, and
	// belongs to one generation.
	snapshotter, ok := instance.(engine.Snapshotter)
	if !ok {
		return
	}
	snapshot, err := snapshotter.Snapshot()
	if err != nil {
		g.warnings = append(g.warnings, text.Line(fmt.Sprintf("each instance is initialised and configured by itself: %v", err), maxWarningBytes))
		return
	}
	g.pool.snapshot = snapshot
}

const (
	maxWarnings     = 20
	maxWarningBytes = 512
)

// callOnce runs an op in an instance outside of a pool.
func callOnce(ctx context.Context, i engine.Instance, op abi.Op, request []byte, response *abi.ConfigureResponse) error {
	result, err := i.Call(ctx, op, request)
	if err != nil {
		return err
	}
	if err := decode(result, response); err != nil {
		return err
	}
	if !response.Accepted {
		return errors.New("the provider did not accept its configuration, without saying why")
	}
	return nil
}

func isDNSLabel(s string) bool {
	if s == "" || len(s) > 63 || s[0] == '-' || s[len(s)-1] == '-' {
		return false
	}
	return !slices.ContainsFunc([]byte(s), func(b byte) bool {
		return (b < 'a' || b > 'z') && (b < '0' || b > '9') && b != '-'
	})
}
