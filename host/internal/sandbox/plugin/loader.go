package plugin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/abi/manifest"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/engine"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/meter"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/module"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/wasmbin"
	"github.com/wasm-ccm/wasm-ccm/host/internal/text"
)

// Loader makes generations. Its fields are set before the first Load and not
// changed; it is safe for concurrent use.
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
	// NewHost returns what answers the host calls of a guest, and what takes
	// its standard output and error.
	NewHost func(*manifest.Manifest) (host engine.Host, stdout, stderr io.Writer)
	// Scrub replaces secrets in what a guest wrote before it crashed, which is
	// in the errors of its ops then (Crash). Nil: nothing of it is told.
	Scrub func(string) string
	// Observer may be nil.
	Observer Observer
	// Compiler may be nil: then the engine compiles in this process, and only
	// what it does to bound itself bounds it.
	Compiler Compiler
}

// Compiler compiles apart what the engine would compile here.
type Compiler interface {
	// Prepare leaves the machine code of a metered module where the engine
	// finds it. The bytes are not kept.
	Prepare(ctx context.Context, wasm []byte) error
}

func (l *Loader) observer() Observer {
	if l.Observer == nil {
		return nobody{}
	}
	return l.Observer
}

// nobody observes nothing.
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

// Prepare brings a bundle through every phase before the probe, and calls
// reached after each. The generation belongs to the caller, who puts it into a
// slot or closes it. The error is a *LoadError, and leaves nothing behind.
func (l *Loader) Prepare(ctx context.Context, bundle Bundle, reached func(phase string)) (*Generation, error) {
	checked, declared, err := module.Check(bundle.Module, l.Policy)
	if err != nil {
		return nil, verifyError(err)
	}
	g := &Generation{
		digests: bundle.Digests(), manifest: declared, limits: l.Limits.suggested(declared.Limits),
		pins: 1, closed: make(chan struct{}), tally: newTally(), decoding: make(chan struct{}, 1),
	}
	metered, err := l.rewrite(g, checked.Binary)
	if err != nil {
		return nil, err
	}
	symbols, err := meter.ReadSymbols(checked.Binary)
	if err != nil {
		g.warnings = append(g.warnings, text.Line(fmt.Sprintf("no names of functions are told after a crash: %v", err), maxWarningBytes))
	}
	reached(PhaseVerify)
	if err := l.compile(ctx, g, metered); err != nil {
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

func verifyError(err error) *LoadError {
	reason := module.ReasonModuleInvalid
	var e *module.Error
	if errors.As(err, &e) {
		reason = e.Reason
	}
	return &LoadError{Phase: PhaseVerify, Reason: reason, Err: err}
}

func (l *Loader) rewrite(g *Generation, decoded *wasmbin.Module) ([]byte, error) {
	metered, err := meter.RewriteModule(decoded, meter.Options{
		ImportModule:     engine.RefuelModule,
		ImportName:       engine.RefuelName,
		MaxMemoryPages:   uint32(g.limits.MaxMemoryBytes >> 16),
		MaxTableElements: g.limits.MaxTableElements,
		MaxStackBytes:    engine.StackBytes,
	})
	if err != nil {
		return nil, &LoadError{Phase: PhaseVerify, Reason: module.ReasonModuleInvalid, Err: err}
	}
	return metered, nil
}

func (l *Loader) compile(ctx context.Context, g *Generation, metered []byte) (err error) {
	host, stdout, stderr := l.NewHost(g.manifest)
	config := engine.ModuleConfig{MemoryLimitBytes: g.limits.MaxMemoryBytes, Host: host, Stdout: stdout, Stderr: stderr}
	for range compileTries {
		// Invariant M5 (host/SECURITY.md): what cannot be compiled apart is not compiled here.
		if l.Compiler != nil {
			if err := l.Compiler.Prepare(ctx, metered); err != nil {
				return &LoadError{Phase: PhaseCompile, Reason: "CompileFailed", Err: err}
			}
		}
		g.module, err = l.Engine.Compile(ctx, metered, config)
		// What was compiled apart may be gone by now, or be of no use to the engine.
		if !errors.Is(err, engine.ErrNotCompiled) {
			break
		}
	}
	if err != nil {
		return &LoadError{Phase: PhaseCompile, Reason: "CompileFailed", Err: err}
	}
	return nil
}

// compileTries is how often a module is compiled apart, where what was compiled
// is not found.
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

// describe asks a first instance, which is thrown away: a pool is made only
// for a guest that is what its manifest says.
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
	switch err := configureOnce(bounded, g.module, request, response); {
	case err != nil && !expired(ctx) && errors.Is(err, context.DeadlineExceeded):
		return l.Limits.late(abi.OpConfigure, l.Limits.LoadTimeout, err)
	case err != nil:
		return err
	}
	g.hasClusterID = response.HasClusterId
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

// configureOnce configures an instance that is thrown away.
func configureOnce(ctx context.Context, m engine.Module, request []byte, response *abi.ConfigureResponse) error {
	instance, err := m.Instantiate(ctx)
	if err != nil {
		return err
	}
	err = callOnce(ctx, instance, abi.OpConfigure, request, response)
	return errors.Join(err, instance.Close(context.WithoutCancel(ctx)))
}

const (
	maxWarnings     = 20
	maxWarningBytes = 512
)

// callOnce runs an op in an instance that is in no pool.
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
