package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/abi/manifest"
	"github.com/wasm-ccm/wasm-ccm/host/config/v1alpha1"
	"github.com/wasm-ccm/wasm-ccm/host/engine"
	"github.com/wasm-ccm/wasm-ccm/host/module"
	"github.com/wasm-ccm/wasm-ccm/host/plugin"
	"github.com/wasm-ccm/wasm-ccm/host/rollout"
	"github.com/wasm-ccm/wasm-ccm/host/source"
)

// Bounds of a signer: it computes a hash or reads a token.
const (
	signerInstances  = 2
	signerMemory     = 32 << 20
	signerModule     = 8 << 20
	signTimeout      = 5 * time.Second
	signerCallsLimit = 10_000
)

// signerLoader makes signers: guests that hold a secret. They get no host call
// at all. What they write is thrown away, since it may be the secret.
type signerLoader struct {
	client   kubernetes.Interface
	engine   engine.Engine
	compiler plugin.Compiler
	reporter rollout.Reporter
	version  string
	// trials of the signer of a credential; nil: there are none.
	trials func(name string) rollout.Trials
}

// signer is the guest behind a credential.Signer, which is replaced like a
// provider when its source changes.
type signer struct {
	name   string
	slot   *plugin.Slot
	source source.Source
	roll   *rollout.Rollout
}

func (l *signerLoader) signer(name string, c *v1alpha1.SignerCredential) *signer {
	limits := source.Limits{MaxModule: signerModule}
	s := &signer{name: name, slot: plugin.NewSlot(), source: newSource(l.client, c.Source, limits)}
	s.source = configured{s.source, []byte(c.Config)}
	loader := onlySigners{&plugin.Loader{
		Engine: l.engine, Compiler: l.compiler, HostVersion: l.version,
		// Invariant S7 (host/SECURITY.md): a signer is granted nothing, and mute answers nothing.
		Policy: module.Policy{},
		Limits: plugin.Limits{
			MaxInstances: signerInstances, MaxCallsPerInstance: signerCallsLimit, MaxMemoryBytes: signerMemory,
			MaxTableElements: maxTableElements, OpTimeout: signTimeout, LoadTimeout: loadTimeout,
		},
		NewHost: func(*manifest.Manifest) (engine.Host, io.Writer, io.Writer) { return mute{}, nil, nil },
	}}
	options := rollout.Options{Slot: s.slot, Loader: loader, Reporter: l.reporter, Clock: clock.RealClock{}, Policy: signerPolicy}
	if l.trials != nil {
		options.Trials = l.trials(name)
	}
	s.roll = rollout.New(options)
	return s
}

// signerPolicy: a signer answers no question that could be asked twice.
func signerPolicy() rollout.Policy {
	return rollout.Policy{Modes: rollout.Modes{Probe: rollout.Required, Shadow: rollout.Off, Observe: rollout.Off}}
}

// start watches the source until the context ends. Every manager needs its
// signers, whether it leads or not.
func (s *signer) start(ctx context.Context) {
	s.roll.Lead()
	ctx = klog.NewContext(ctx, klog.FromContext(ctx).WithValues("signer", s.name))
	go func() {
		if err := s.roll.Run(ctx); err != nil {
			klog.FromContext(ctx).Error(err, "A signer has not ended")
		}
	}()
	go s.source.Run(ctx, s.roll.Offer)
}

// configured is a source whose configuration is the administrator's.
type configured struct {
	source.Source
	config []byte
}

func (c configured) Run(ctx context.Context, handle source.Handler) {
	c.Source.Run(ctx, func(bundle source.Bundle, err error) {
		bundle.Config = c.config
		handle(bundle, err)
	})
}

// onlySigners refuses guests that are more or less than a signer, before
// anything of them is run.
type onlySigners struct{ *plugin.Loader }

// Revision is rollout.Loader's: what is around a signer never changes.
func (onlySigners) Revision() string { return "signer" }

// Prepare is rollout.Loader's.
func (l onlySigners) Prepare(ctx context.Context, bundle source.Bundle, reached func(rollout.Phase)) (*plugin.Generation, error) {
	if m := declared(bundle.Module); m != nil && !slices.Equal(m.Ops, []string{abi.OpSign.String()}) {
		return nil, notThis("the guest %s is no signer: the ops of its manifest must be [%q] and nothing else", m.Name, abi.OpSign)
	}
	return prepare(ctx, l.Loader, bundle, reached)
}

// isSigner is true of every guest that would like to sign.
func isSigner(m *manifest.Manifest) bool { return slices.Contains(m.Ops, abi.OpSign.String()) }

// declared returns the manifest, or nil where there is no valid one, which the
// loader tells.
func declared(wasm []byte) *manifest.Manifest {
	section, found, err := manifest.Section(wasm)
	if err != nil || !found {
		return nil
	}
	m, err := manifest.Parse(section)
	if err != nil {
		return nil
	}
	return m
}

func notThis(format string, args ...any) error {
	return &plugin.LoadError{Phase: plugin.PhaseVerify, Reason: module.ReasonModuleInvalid, Err: fmt.Errorf(format, args...)}
}

// mute is an engine.Host that answers nothing: a signer has a secret, so it
// must have no way to tell it.
type mute struct{}

func (mute) HostCall(_ context.Context, name string, _ []byte) (abi.Code, []byte) {
	if name == abi.ImportLog {
		return abi.CodeOK, nil // dropped
	}
	return abi.CodeDenied, nil
}
