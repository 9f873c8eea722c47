package manager

import (
	"net/http"
	"time"

	"k8s.io/apiserver/pkg/server/healthz"
	ccmconfig "k8s.io/cloud-provider/app/config"
	"k8s.io/component-base/metrics/prometheus/slis"
	controllermanager "k8s.io/controller-manager/app"
	controllerhealthz "k8s.io/controller-manager/pkg/healthz"

	"github.com/wasm-ccm/wasm-ccm/host/internal/manager/statusapi"
)

// leaseTolerance is how long after its expiry a Lease may still be held by a
// process that should have ended, as in upstream's command.
const leaseTolerance = 20 * time.Second

// startServing starts the manager, and then serves the secure port.
func (m *controllerManager) startServing(c *ccmconfig.CompletedConfig) error {
	m.starting.Lock()
	defer m.starting.Unlock()
	if err := m.start(c); err != nil {
		return err
	}
	return m.serveSecurely(c)
}

// serveSecurely serves the secure port in place of upstream's command, to which
// paths cannot be added. It is built of the same parts as there: the API server
// authenticates and authorizes clients, for every path but /healthz.
func (m *controllerManager) serveSecurely(c *ccmconfig.CompletedConfig) error {
	serving := c.SecureServing
	if serving == nil {
		return nil
	}
	c.SecureServing = nil // upstream's command then does not serve it
	mux := controllermanager.NewBaseHandler(&c.ComponentConfig.Generic.Debugging, controllerhealthz.NewMutableHealthzHandler(m.checks(c)...))
	slis.SLIMetricsWithReset{}.Install(mux)
	// Invariant V1 (host/SECURITY.md): the API is behind the authentication and the
	// authorization of the secure port.
	source := m.newStatusSource(c)
	statusapi.Install(mux, source)
	m.working.Go("the metrics of the status", func() { source.measure(m.work, serving) })
	_, _, err := serving.Serve(controllermanager.BuildHandlerChain(mux, &c.Authorization, &c.Authentication), 0, m.work.Done())
	return err
}

// checks of /healthz: the Lease, and each kind of control loop.
func (m *controllerManager) checks(c *ccmconfig.CompletedConfig) []healthz.HealthChecker {
	all := m.loops.Checks()
	if election := c.ComponentConfig.Generic.LeaderElection; election.LeaderElect {
		after := election.LeaseDuration.Duration + leaseTolerance
		all = append(all, healthz.NamedCheck("leaderElection", func(*http.Request) error { return m.leases.Overdue(after) }))
	}
	return all
}
