package manager

import (
	"context"
	"fmt"

	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/wasm-ccm/wasm-ccm/host/config/v1alpha1"
	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/rollout"
	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/source"
	"github.com/wasm-ccm/wasm-ccm/host/internal/manager/grant"
	"github.com/wasm-ccm/wasm-ccm/host/internal/manager/tasks"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/engine"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/plugin"
)

// signerLoader builds signers: guests with a secret. They get no host call at
// all. Their output is dropped, since it may be the secret.
type signerLoader struct {
	client   kubernetes.Interface
	engines  func(name string) (engine.Engine, error)
	compiler plugin.Compiler
	reporter rollout.Reporter
	version  string
	// sourceFailed, unless nil, is called when the source of a credential's
	// signer cannot be reached.
	sourceFailed func(name string, err error)
	// trials of the signer of a credential; nil: none.
	trials func(name string) rollout.Trials
	pulls  source.Pulls // nil: none
}

// signer is the guest behind a credential.Signer. When its source changes it is
// replaced like a provider.
type signer struct {
	name   string
	slot   *plugin.Slot
	source source.Source
	roll   *rollout.Rollout
}

// signer builds the signer of a credential, on the engine with that name.
func (l *signerLoader) signer(name, engineName string, c *v1alpha1.SignerCredential) (*signer, error) {
	e, err := l.engines(engineName)
	if err != nil {
		return nil, fmt.Errorf("engine: %w", err)
	}
	src, err := newSource(l.client, c.Source, source.Limits{MaxModule: grant.MaxSignerModule}, images{reached: l.reached(name), pulls: l.pulls})
	if err != nil {
		return nil, err
	}
	s := &signer{name: name, slot: plugin.NewSlot(), source: configuredSource{src, []byte(c.Config)}}
	loader := signerModules{grant.SignerLoader(plugin.Loader{Engine: e, Compiler: l.compiler, HostVersion: l.version})}
	options := rollout.Options{Slot: s.slot, Loader: loader, Reporter: l.reporter, Clock: clock.RealClock{}, Policy: signerPolicy}
	if l.trials != nil {
		options.Trials = l.trials(name)
	}
	s.roll = rollout.New(options)
	return s, nil
}

// reached reports the state of a signer's registry.
func (l *signerLoader) reached(name string) func(error) {
	return func(err error) {
		if err != nil && l.sourceFailed != nil {
			l.sourceFailed(name, err)
		}
	}
}

// sourceFailed reports the source of a credential's signer.
func (t *teller) sourceFailed(name string, err error) {
	t.unreached("Signer", "the signer of the credential "+name+": "+t.clean(err.Error()))
}

// signerPolicy has no comparison: a signer answers no repeatable question.
func signerPolicy() rollout.Policy {
	return rollout.Policy{Modes: rollout.Modes{Probe: rollout.Required, Shadow: rollout.Off, Observe: rollout.Off}}
}

// start watches the source until the context ends. Every manager needs its
// signers, whether it leads or not.
func (s *signer) start(ctx context.Context, tasks *tasks.Group) {
	s.roll.Lead()
	ctx = klog.NewContext(ctx, klog.FromContext(ctx).WithValues("signer", s.name))
	tasks.Go("the signer "+s.name, func() {
		if err := s.roll.Run(ctx); err != nil {
			klog.FromContext(ctx).Error(err, "A signer has not ended")
		}
	})
	tasks.Go("the source of the signer "+s.name, func() { s.source.Run(ctx, s.roll.Offer) })
}

// configuredSource is a source with the administrator's configuration.
type configuredSource struct {
	source.Source
	config []byte
}

func (c configuredSource) Run(ctx context.Context, handle source.Handler) {
	c.Source.Run(ctx, func(bundle source.Bundle, err error) {
		bundle.Config = c.config
		handle(bundle, err)
	})
}

// signerModules is a rollout.Loader.
type signerModules struct{ *plugin.Loader }

// Revision implements rollout.Loader: the environment of a signer never changes.
func (l signerModules) Revision() string { return rollout.Terms("signer", l.Engine.Name()) }

// Prepare implements rollout.Loader.
func (l signerModules) Prepare(ctx context.Context, bundle source.Bundle, reached func(rollout.Phase)) (*plugin.Generation, error) {
	return prepare(ctx, l.Loader, bundle, func([]byte) error { return nil }, reached)
}

// signerReporter reports a signer, which has no status and no metrics.
type signerReporter struct{ teller }

// Report implements rollout.Reporter.
func (r *signerReporter) Report(x rollout.Report) {
	switch x.Phase {
	case rollout.Serving:
		r.serving(x.Bundle, x.Subject)
	case rollout.Rejected:
		r.rejected(x.Bundle, x.Reason, x.Message, offeredOf(x), stillServing(x.Serving))
	}
}

// Commanded implements rollout.Reporter: there are no commands for signers.
func (r *signerReporter) Commanded(rollout.Command, error) {}

// Journalled implements rollout.Reporter: signers have no journal.
func (r *signerReporter) Journalled(error) {}
