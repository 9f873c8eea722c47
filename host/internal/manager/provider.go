package manager

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/wasm-ccm/wasm-ccm/host/config/v1alpha1"
	"github.com/wasm-ccm/wasm-ccm/host/internal/cloud/controllers"
	"github.com/wasm-ccm/wasm-ccm/host/internal/cloud/routing"
	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/rollout"
	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/source"
	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/status"
	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/trial"
	"github.com/wasm-ccm/wasm-ccm/host/internal/manager/tasks"
)

// managed is one configured provider with all its parts: providers share none
// of them, so that none can delay or harm another.
type managed struct {
	*base
	*providerAccess
	*providerGuest
	*providerCloud
	*providerRollout
	// changing is held while the terms are changed.
	changing tasks.Turn
	// ended is closed when no task is left.
	ended chan struct{}
}

// providerPart is a part of a provider that has something of its terms.
type providerPart interface {
	// change puts terms into force; before is the configuration until then.
	change(before *v1alpha1.Provider, t terms)
}

// parts are in the order of a change: what is withdrawn goes first.
func (m *managed) parts() []providerPart {
	return []providerPart{m.providerAccess, m.providerGuest, m.providerCloud}
}

// newManaged builds one provider within the manager's lifetime, and starts only
// the watches of its network's Secrets and signers. It passes its status to told,
// too. After an error nothing of it remains.
func newManaged(ctx context.Context, s *shared, within *lifetime, p *v1alpha1.Provider, brake v1alpha1.DeletionBrake, told func(status.Status)) (*managed, error) {
	own, err := s.kubes.new(s.completed.Kubeconfig)
	if err != nil {
		return nil, err
	}
	b := newBase(s, within, p.Name, own)
	access, terms, err := newProviderAccess(ctx, s, b, p)
	if err != nil {
		b.discard(within)
		return nil, err
	}
	guest := newProviderGuest(s, b, access, terms)
	cloud := newProviderCloud(s, b, access, guest, terms, brake)
	m := &managed{
		base: b, providerAccess: access, providerGuest: guest, providerCloud: cloud,
		providerRollout: newProviderRollout(s, b, access, guest, cloud, told),
		changing:        tasks.NewTurn(), ended: make(chan struct{}),
	}
	m.reporter.idle(m.steering.idle())
	src, err := m.newSource(s, b, m.loader, p)
	if err != nil {
		m.loader.close()
		b.discard(within)
		return nil, err
	}
	m.setSource(src)
	return m, nil
}

// run watches the source and rolls out its offers.
func (m *managed) run() {
	m.living.Go("the trials", func() { m.book.Run(m.life) })
	m.living.Run(m.life, "the rollout", func(ctx context.Context) error {
		defer m.loader.close()
		return m.rollout.Run(ctx)
	})
	m.working.Go("the news for the control loops", func() { m.changes.follow(m.work, m.slot.Changed) })
	m.working.Go("the source", func() { m.followSources(m.work) })
	m.working.Go("the renewal of Secrets", func() { m.followSecrets(m.work) })
}

// secretsRetry is the delay between attempts to apply changed Secrets.
const secretsRetry = 10 * time.Second

// followSecrets makes a new generation for changed Secrets: the serving one
// keeps the values of its probe until the new ones work.
func (m *managed) followSecrets(ctx context.Context) {
	var again <-chan time.Time
	for {
		now := m.allowed.current.Load()
		select {
		case <-ctx.Done():
			return
		case <-m.renewed: // there are other Secrets to watch
			continue
		case <-now.secrets.Changed():
		case <-again:
		}
		again = nil
		if err := m.renew(ctx); err != nil {
			m.logger.Error(err, "The changed Secrets are not in use yet; the previous values stay")
			again = time.After(secretsRetry)
		}
	}
}

// renew builds a new network, with the present Secrets.
func (m *managed) renew(ctx context.Context) error {
	if err := m.changing.Take(ctx); err != nil {
		return err
	}
	defer m.changing.Leave()
	t, err := m.terms(ctx, m.loader.config())
	if err != nil {
		return err
	}
	m.logger.Info("Secrets have changed", "revision", t.revision)
	m.change(t, nil)
	return nil
}

// lead begins the leader's tasks. The status is not written before looked is
// closed, since it has the earlier configuration.
func (m *managed) lead(looked <-chan struct{}) {
	m.leading.Store(true)
	m.rollout.Lead()
	t := &ticker{invoker: m.invoker, period: m.slot.TickPeriod, changed: m.slot.Changed, ended: m.reporter.ticked, clusterName: m.loader.loader.ClusterName}
	m.working.Go("the ticks", func() { t.run(m.work) })
	m.working.Go("the status", func() {
		<-looked
		m.status.Run(m.work, func(c status.Command) { m.obey(m.work, c) })
	})
}

// errUnread is for an unknown annotation of the provider's ConfigMap.
var errUnread = errors.New("the manager does not know this annotation; it knows " + strings.Join(status.Annotations(), ", "))

// obey executes a person's command.
func (m *managed) obey(ctx context.Context, c status.Command) {
	switch {
	case c.Kind == status.Promote && m.promoteOther(ctx, c):
		return
	case c.Kind == status.Unread:
		m.reporter.Commanded(rollout.Command{Kind: c.Argument, By: c.By}, errUnread)
		return
	}
	if err := m.rollout.Command(rollout.Command{Kind: string(c.Kind), Argument: c.Argument, By: c.By}); err != nil {
		m.logger.Error(err, "A command is dropped", "command", c.Kind)
	}
}

// promoteOther allows another attempt at a signer or an image on trial when a
// manager ended, if the command names one.
func (m *managed) promoteOther(ctx context.Context, c status.Command) bool {
	pardoned, err := m.book.Pardon(ctx, c.Argument)
	if pardoned == (trial.Subject{}) && err == nil {
		return false
	}
	m.reporter.Commanded(rollout.Command{Kind: rollout.CommandPromote, Argument: c.Argument, By: c.By}, err)
	for _, s := range m.allowed.current.Load().signers {
		if s.name == pardoned.Signer {
			s.roll.Reload()
		}
	}
	return true
}

// loops are the provider's parts for upstream's controllers.
func (m *managed) loops(router *routing.Router) controllers.Provider {
	return controllers.Provider{
		Name: m.name, Cloud: m.cloud, Volumes: m.provider.Volumes(), Changed: m.changes.Changed, Reconfigured: m.configured.Changed, Healthy: m.healthy,
		Uninitialised: newUninitialised(m.events), Delayed: newDelayed(m.events), Heard: m.history.told,
		Nodes: router.Nodes(m.name), OwnedNodes: router.OwnedNodes(m.name),
		Services: router.Services(m.name), Classes: router.Classes(m.name), PersistentVolumes: router.PersistentVolumes(m.name),
	}
}

// healthy is the check of the control loops for /healthz.
func (m *managed) healthy() error {
	if err := m.invoker.Healthy(); err != nil {
		return fmt.Errorf("provider %s: %w", m.name, err)
	}
	return nil
}

// terms builds the terms of a configuration, once its signers serve.
func (m *managed) terms(ctx context.Context, p *v1alpha1.Provider) (terms, error) {
	t, err := m.providerAccess.terms(ctx, p)
	if err != nil {
		return terms{}, err
	}
	if err := t.network.ready(ctx); err != nil {
		t.network.release()
		return terms{}, notYet{err}
	}
	return t, nil
}

// change puts new terms into force: restrictions at once, extensions with a new
// generation. With another source that generation is the source's offer.
func (m *managed) change(t terms, src source.Source) {
	before := m.loader.config()
	for _, one := range m.parts() {
		one.change(before, t)
	}
	m.reporter.idle(m.steering.idle())
	m.providerRollout.change(src)
}

// drainTimeout bounds the wait for running ops.
const drainTimeout = 20 * time.Second

// drain waits for running ops, and for the parts that start others.
func (m *managed) drain(ctx context.Context) error {
	err := m.invoker.Drain(ctx)
	if err != nil {
		_ = m.invoker.Shutdown(ctx) // the process ends anyway: no caller waits any more
	}
	return errors.Join(err, m.working.Wait(ctx))
}

// close waits for the end of the rollout and its resources.
func (m *managed) close(ctx context.Context) error {
	if err := m.living.Wait(ctx); err != nil {
		return err
	}
	return m.living.Failure()
}

// end ends the provider, and waits a bounded time for its tasks; afterwards
// nothing is loaded. The error names the running tasks.
func (m *managed) end(ctx context.Context) error {
	m.stop()
	ctx, cancel := context.WithTimeout(ctx, drainTimeout)
	defer cancel()
	err := m.drain(ctx)
	m.die()
	m.loader.close()
	return err
}
