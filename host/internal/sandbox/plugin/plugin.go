// Package plugin manages the life of a provider's module: it verifies, compiles,
// describes, configures and probes a bundle (Loader), keeps a bounded pool of its
// instances (Pool), and puts one accepted generation after the other behind one
// stable Invoke (Slot).
//
// It knows no Kubernetes objects and works with every engine.
package plugin

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"time"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/abi/manifest"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/compile"
	"github.com/wasm-ccm/wasm-ccm/host/internal/text"
)

// Bundle is the source of a generation: a module and its configuration.
type Bundle struct {
	// Module is the uncompressed module. It is not changed and not kept.
	Module []byte
	// Config is passed to the guest unchanged.
	Config []byte
}

// Digests are the lowercase hex SHA-256 of a bundle's parts.
type Digests struct {
	Module, Config string
}

// Digests computes the digests of the bundle.
func (b Bundle) Digests() Digests {
	module, config := sha256.Sum256(b.Module), sha256.Sum256(b.Config)
	return Digests{Module: hex.EncodeToString(module[:]), Config: hex.EncodeToString(config[:])}
}

// Limits bound a generation.
type Limits struct {
	// MaxInstances bounds the concurrent ops; further ones wait.
	MaxInstances int
	// MaxCallsPerInstance is the number of ops after which an instance is replaced; 0 means
	// never.
	MaxCallsPerInstance int
	// MaxMemoryBytes is the largest linear memory of one instance.
	MaxMemoryBytes uint64
	// MaxTableElements bounds all tables of one instance together.
	MaxTableElements uint32
	// OpTimeout bounds one op, including its wait for an instance.
	OpTimeout time.Duration
	// OpTimeouts are single ops' timeouts in place of OpTimeout; may be nil.
	OpTimeouts map[abi.Op]time.Duration
	// LoadTimeout bounds each of describe, configure and probe.
	LoadTimeout time.Duration
	// Compile bounds the compilation of the module. The zero value: the Compiler's own bounds.
	Compile compile.Limits
	// TimeoutSetting is the administrator's setting for OpTimeout and OpTimeouts, for errors;
	// "": none.
	TimeoutSetting string
}

// late is the error of an op after its timeout, and names the setting for it, if there is
// one.
func (l Limits) late(op abi.Op, timeout time.Duration, err error) error {
	setting := l.TimeoutSetting
	if loads := op.Group() == abi.GroupLoading; setting == "" || loads && l.LoadTimeout < l.OpTimeout {
		setting = "which no setting changes"
	}
	return fmt.Errorf("the provider did not answer within %v (%s): %w", timeout, setting, err)
}

// expired reports whether a caller's own deadline is over, even before the context's timer
// fires: engines check the clock.
func expired(ctx context.Context) bool {
	end, ok := ctx.Deadline()
	return ctx.Err() != nil || ok && !time.Now().Before(end)
}

func (l Limits) timeout(op abi.Op) time.Duration {
	if t, ok := l.OpTimeouts[op]; ok {
		return t
	}
	return l.OpTimeout
}

// suggested returns the limits, lowered to the manifest's suggestions.
func (l Limits) suggested(by manifest.Limits) Limits {
	// Invariant R1 (host/SECURITY.md): a manifest only lowers limits.
	if by.MemoryBytes > 0 {
		l.MaxMemoryBytes = min(l.MaxMemoryBytes, by.MemoryBytes)
	}
	if by.Instances > 0 {
		l.MaxInstances = min(l.MaxInstances, by.Instances)
	}
	return l
}

// The phases of loading a bundle, in their order.
const (
	PhaseVerify    = "verify"
	PhaseCompile   = "compile"
	PhaseDescribe  = "describe"
	PhaseConfigure = "configure"
	PhaseProbe     = "probe"
)

// LoadError is why a bundle did not become a generation.
type LoadError struct {
	// Phase is one of the constants above.
	Phase string
	// Reason is CamelCase, for Events and metrics.
	Reason string
	Err    error
}

// Error returns one line, fit for a log and an Event: engines quote names from the module.
func (e *LoadError) Error() string {
	return text.Line(fmt.Sprintf("%s: %v", e.Phase, e.Err), maxLoadErrorBytes)
}

const maxLoadErrorBytes = 8 << 10

// Unwrap returns the cause.
func (e *LoadError) Unwrap() error { return e.Err }
