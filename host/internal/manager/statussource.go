package manager

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	ccmconfig "k8s.io/cloud-provider/app/config"
	componentbaseconfig "k8s.io/component-base/config"

	"github.com/wasm-ccm/wasm-ccm/host/internal/hostcall/egress"
	"github.com/wasm-ccm/wasm-ccm/host/internal/text"
	"github.com/wasm-ccm/wasm-ccm/host/internal/version"
	"github.com/wasm-ccm/wasm-ccm/host/status/v1alpha1"
)

// statusSource builds the answers of the manager's API from the knowledge of
// the manager, its providers and its informers. It is a statusapi.Source.
type statusSource struct {
	manager  *controllerManager
	client   kubernetes.Interface
	election componentbaseconfig.LeaderElectionConfiguration
	// These come from the control loops' informers, which are filled only in
	// the leading manager.
	services corelisters.ServiceLister
	nodes    corelisters.NodeLister
	volumes  corelisters.PersistentVolumeLister
	synced   func() bool
	// volumesSynced reports whether the volumes have been read, too.
	volumesSynced func() bool
	rounds        *reachRounds
}

func (m *controllerManager) newStatusSource(c *ccmconfig.CompletedConfig) *statusSource {
	core := c.SharedInformers.Core().V1()
	services, nodes, volumes := core.Services(), core.Nodes(), core.PersistentVolumes()
	s := &statusSource{
		manager: m, client: m.providers.shared.client, election: c.ComponentConfig.Generic.LeaderElection,
		services: services.Lister(), nodes: nodes.Lister(), volumes: volumes.Lister(), volumesSynced: volumes.Informer().HasSynced,
		synced: func() bool { return services.Informer().HasSynced() && nodes.Informer().HasSynced() },
	}
	s.rounds = &reachRounds{round: func(ctx context.Context) *v1alpha1.Reachability { return reachAll(ctx, s.self(), m.all()) }}
	return s
}

// list returns all Nodes; a store in memory returns no errors.
func (s *statusSource) list() []*corev1.Node {
	all, _ := s.nodes.List(labels.Everything())
	return all
}

// Reachability implements statusapi.Source.
func (s *statusSource) Reachability(ctx context.Context) (*v1alpha1.Reachability, error) {
	return s.rounds.get(ctx)
}

// self is this manager, without its Holder.
func (s *statusSource) self() v1alpha1.Manager {
	m := s.manager
	out := v1alpha1.Manager{
		Version: version.Release(), Host: m.identity, Leads: m.leadership.Leads(), Started: metav1.NewTime(m.pulse.begun),
		Namespace: m.options.StoreNamespace,
	}
	if s.election.LeaderElect {
		out.Lease = s.election.ResourceNamespace + "/" + s.election.ResourceName
	}
	return out
}

// holderTimeout bounds the request for the holder of the Lease.
const holderTimeout = 2 * time.Second

// holder returns the leader; "" while unknown.
func (s *statusSource) holder(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(ctx, holderTimeout)
	defer cancel()
	lease, err := s.client.CoordinationV1().Leases(s.election.ResourceNamespace).Get(ctx, s.election.ResourceName, metav1.GetOptions{})
	if err != nil || lease.Spec.HolderIdentity == nil {
		return ""
	}
	return text.Line(*lease.Spec.HolderIdentity, v1alpha1.MaxText)
}

// provider is the status of one provider, without its objects.
func (s *statusSource) provider(one *managed) v1alpha1.Provider {
	out := v1alpha1.Provider{Name: one.name}
	if now := one.status.Newest(); now != nil {
		out = now.Provider
	}
	out.Source = sourceOf(one.loader.config().Source)
	for _, l := range s.manager.loops.States(one.name) {
		out.Loops = append(out.Loops, v1alpha1.Loop{Name: l.Name, Running: l.Running, Reason: text.Line(l.Reason, v1alpha1.MaxText), Off: l.Off})
	}
	counts := one.invoker.Counts()
	out.Ops = v1alpha1.Ops{Running: counts.Running, Background: counts.Background, BackedOff: counts.BackedOff}
	out.Latest = one.history.latest.Load()
	out.Hosts = hostsOf(one)
	if s.manager.leadership.Leads() {
		b := one.brake.Status()
		out.Brake = &v1alpha1.Brake{Engaged: b.Engaged, Gone: b.Gone, Nodes: b.Size, Permits: int(b.Permits)}
	}
	return out
}

// hostsOf returns the states of the hosts of a provider's cloud.
func hostsOf(one *managed) (all []v1alpha1.Host) {
	for _, h := range one.networks.traffic.Hosts() {
		if len(all) == v1alpha1.MaxHosts {
			break
		}
		all = append(all, v1alpha1.Host{
			Host: text.Line(h.Host, v1alpha1.MaxText), Breaker: h.Breaker, Until: metav1.NewTime(heldUntil(h)),
			LastFault: text.Line(one.allowed.scrub(h.LastFault), v1alpha1.MaxText),
		})
	}
	return all
}

// heldUntil is the end of a host's pause; zero without one.
func heldUntil(h egress.HostState) (until time.Time) {
	now := time.Now()
	if h.Breaker == "open" && h.OpenUntil.After(now) {
		until = h.OpenUntil
	}
	if h.QuietUntil.After(now) && h.QuietUntil.After(until) {
		until = h.QuietUntil
	}
	return until
}
