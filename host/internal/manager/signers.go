package manager

import (
	"context"

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
	limits := source.Limits{MaxModule: grant.MaxSignerModule}
	s := &signer{name: name, slot: plugin.NewSlot(), source: newSource(l.client, c.Source, limits)}
	s.source = configured{s.source, []byte(c.Config)}
	loader := signerModules{grant.SignerLoader(plugin.Loader{Engine: l.engine, Compiler: l.compiler, HostVersion: l.version})}
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

// signerModules is a rollout.Loader.
type signerModules struct{ *plugin.Loader }

// Revision is rollout.Loader's: what is around a signer never changes.
func (signerModules) Revision() string { return "signer" }

// Prepare is rollout.Loader's.
func (l signerModules) Prepare(ctx context.Context, bundle source.Bundle, reached func(rollout.Phase)) (*plugin.Generation, error) {
	return prepare(ctx, l.Loader, bundle, reached)
}
