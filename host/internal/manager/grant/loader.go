package grant

import (
	"context"
	"io"
	"time"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/abi/manifest"
	"github.com/wasm-ccm/wasm-ccm/host/config/v1alpha1"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/compile"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/engine"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/module"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/plugin"
)

// Fixed limits.
const (
	// LoadTimeout bounds each of describe, configure and probe; a provider's
	// ops.timeout may be shorter.
	LoadTimeout = 30 * time.Second
	// MaxSignerModule is the size of the largest module of a signer, in bytes.
	MaxSignerModule = 8 << 20

	// maxTableElements bounds the tables of a guest: stock Go needs one element
	// per function.
	maxTableElements = 1 << 20
)

// Bounds of a signer: it computes a hash or reads a token.
const (
	signerInstances  = 2
	signerMemory     = 32 << 20
	signTimeout      = 5 * time.Second
	signerCallsLimit = 10_000
)

// Loader returns the loader of a provider's modules: base, with the limits and
// the capabilities of p.
func Loader(base plugin.Loader, p *v1alpha1.Provider) *plugin.Loader {
	base.Limits = limits(p)
	// Invariant R1 (host/SECURITY.md): what is granted comes from the administrator's configuration
	// alone.
	base.Policy = module.Policy{Capabilities: p.Capabilities}
	return &base
}

func limits(p *v1alpha1.Provider) plugin.Limits {
	l := plugin.Limits{
		MaxInstances:        p.Limits.Instances,
		MaxCallsPerInstance: p.Limits.CallsPerInstance,
		MaxMemoryBytes:      uint64(p.Limits.Memory.Value()),
		MaxTableElements:    maxTableElements,
		OpTimeout:           p.Ops.Timeout.Duration,
		OpTimeouts:          map[abi.Op]time.Duration{},
		TimeoutSetting:      "providers[].ops.timeout or timeouts of the HostConfiguration",
		LoadTimeout:         min(LoadTimeout, p.Ops.Timeout.Duration),
		Compile:             compileLimits(p.Limits.Compile),
	}
	for name, timeout := range p.Ops.Timeouts {
		if op, ok := abi.ParseOp(name); ok { // always true: the configuration was validated
			l.OpTimeouts[op] = timeout.Duration
		}
	}
	return l
}

func compileLimits(l v1alpha1.CompileLimits) compile.Limits {
	return compile.Limits{
		Wall: l.Wall.Duration, CPU: l.CPU.Duration,
		MemoryBytes: uint64(l.Memory.Value()), OutputBytes: uint64(l.Output.Value()),
		Setting: "providers[].limits.compile of the HostConfiguration",
	}
}

// SignerLoader returns the loader of signers' modules: base, with the limits of
// signers. A signer has no capability, gets no host call answered, and its
// output is dropped.
func SignerLoader(base plugin.Loader) *plugin.Loader {
	base.Limits = plugin.Limits{
		MaxInstances: signerInstances, MaxCallsPerInstance: signerCallsLimit, MaxMemoryBytes: signerMemory,
		MaxTableElements: maxTableElements, OpTimeout: signTimeout, LoadTimeout: LoadTimeout,
	}
	// Invariant S7 (host/SECURITY.md): a signer is granted nothing, mute
	// answers nothing, and its output is dropped.
	base.Policy = module.Policy{Signer: true}
	base.NewHost = func(*manifest.Manifest) (engine.Host, io.Writer, io.Writer) { return mute{}, nil, nil }
	base.Scrub = nil
	return &base
}

// mute is an engine.Host without answers: a signer has a secret, so it must
// have no way to send it out.
type mute struct{}

// HostCall implements engine.Host.
func (mute) HostCall(_ context.Context, name string, _ []byte) (abi.Code, []byte) {
	if name == abi.ImportLog {
		return abi.CodeOK, nil // dropped
	}
	return abi.CodeDenied, nil
}
