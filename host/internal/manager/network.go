package manager

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"

	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/host/config/v1alpha1"
	"github.com/wasm-ccm/wasm-ccm/host/internal/hostcall/credential"
	"github.com/wasm-ccm/wasm-ccm/host/internal/hostcall/egress"
	"github.com/wasm-ccm/wasm-ccm/host/internal/hostcall/kubecache"
	"github.com/wasm-ccm/wasm-ccm/host/internal/manager/calls"
	"github.com/wasm-ccm/wasm-ccm/host/internal/manager/grant"
	"github.com/wasm-ccm/wasm-ccm/host/internal/manager/tasks"
	"github.com/wasm-ccm/wasm-ccm/host/internal/version"
)

// network is the connection of a provider to its cloud, as of one
// HostConfiguration. It is replaced as a whole. Generations keep the one that
// they were loaded with; the last one closes it.
type network struct {
	*grant.Network
	secrets      *credential.Pinned
	capabilities []string
	kube         *kubecache.View
	signers      []*signer
	stop         context.CancelFunc
	users        atomic.Int32
	// number increases from network to network of a provider.
	number int64
}

// retain adds a user of the network. The first user is its builder.
func (n *network) retain() { n.users.Add(1) }

// release removes a user of the network; the last one closes it.
func (n *network) release() {
	if n.users.Add(-1) == 0 {
		n.close()
	}
}

// networkBuilder builds the networks of one provider.
type networkBuilder struct {
	client  kubernetes.Interface
	caches  *kubecache.Caches
	allowed *allowed
	// refused receives refused requests to the caches.
	refused  func(what, advice string)
	observer egress.Observer
	// scrubber outlives networks, so that old secrets stay scrubbed.
	scrubber *credential.Scrubber
	signers  *signerLoader
	logger   klog.Logger
	// life is the context of the networks' tasks, for which tasks waits; a reload does not end it.
	life  context.Context
	tasks *tasks.Group
	built atomic.Int64
	// traffic outlives networks, so that a reload or a changed Secret resets no
	// rate, breaker or budget; nil before the first one.
	traffic *egress.Traffic
}

func newNetworkBuilder(s *shared, b *base, a *allowed, c *calls.Log) *networkBuilder {
	scrubber, logger := credential.NewScrubber(clock.RealClock{}), b.logger.WithName("signer")
	scrub := func(text string) string { return string(scrubber.Scrub([]byte(text))) }
	said := teller{logger: logger, events: b.events, scrub: scrub, object: b.object}
	refused := func(what, advice string) {
		b.logger.Info("The provider asks for what it has not been granted", "asked", scrub(what), "advice", scrub(advice))
	}
	return &networkBuilder{
		client: b.client, caches: s.caches, allowed: a, refused: refused, observer: callObserver{b.metrics.Egress(), c, s.spans, b.name, b.logger}, scrubber: scrubber, logger: logger, life: b.life, tasks: &b.living,
		signers: &signerLoader{
			client: b.client, engines: s.modules.engine, compiler: s.modules.compiler(b.name), version: version.Release(),
			reporter:     &signerReporter{teller{logger: logger, events: b.events, scrub: scrub}},
			sourceFailed: said.sourceFailed,
			trials:       b.book.Of,
			pulls:        b.book.Pulls(),
		},
	}
}

// build builds the network of a provider and starts the watches of its Secrets
// and signers; close ends them.
func (n *networkBuilder) build(p *v1alpha1.Provider) (*network, error) {
	ctx, cancel := context.WithCancel(n.life)
	net, err := n.open(ctx, cancel, p)
	if err != nil {
		cancel()
		return nil, fmt.Errorf("provider %s: %w", p.Name, err)
	}
	return net, nil
}

// open builds a network whose tasks end with the context; stop ends it.
func (n *networkBuilder) open(ctx context.Context, stop context.CancelFunc, p *v1alpha1.Provider) (*network, error) {
	watched := credential.NewWatchedSecrets(n.client, secretNames(p))
	secrets := credential.NewPinned(watched)
	var signers []*signer
	way, err := grant.NewNetwork(p, grant.NetworkOptions{
		Secrets: secrets, Observer: n.observer, Traffic: n.traffic, InForce: n.allowed.network,
		Signer: func(name string, c *v1alpha1.SignerCredential) (credential.Signer, error) {
			s, err := n.signers.signer(name, p.Engine, c)
			if err != nil {
				return nil, err
			}
			signers = append(signers, s)
			return credential.NewSigner(s.slot.Invoke), nil
		},
		Credentials: credential.Options{Scrubber: n.scrubber, SignerFailed: n.signerFailed()},
	})
	if err != nil {
		return nil, err
	}
	net := &network{
		Network: way, secrets: secrets, capabilities: p.Capabilities, kube: n.caches.Open(grant.Kube(&p.Kube), n.refused),
		signers: signers, stop: stop, number: n.built.Add(1),
	}
	net.retain()
	if n.traffic == nil { // the first network, before there are goroutines
		n.traffic = net.Client.Traffic()
	}
	n.tasks.Go(fmt.Sprintf("the Secrets of network %d", net.number), func() { watched.Run(ctx) })
	for _, s := range signers {
		s.start(ctx, n.tasks)
	}
	return net, nil
}

// signerFailed returns the logger of signers' errors: one a second with a burst of ten.
func (n *networkBuilder) signerFailed() func(credential, message string) {
	lines := rate.NewLimiter(1, 10)
	return func(credential, message string) {
		if lines.Allow() {
			n.logger.Info("The signer of a credential failed", "credential", credential, "words", message)
		}
	}
}

// secretNames are the Secrets of the credentials and client certificates.
func secretNames(p *v1alpha1.Provider) (names []types.NamespacedName) {
	for i := range p.Credentials {
		names = append(names, types.NamespacedName(p.Credentials[i].Secret))
	}
	for i := range p.Grants {
		if c := p.Grants[i].ClientCertificate; c != nil {
			names = append(names, types.NamespacedName(*c))
		}
	}
	return names
}

// ready waits until the signers serve, so that a switch to this network breaks
// no working credential.
func (n *network) ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, grant.LoadTimeout)
	defer cancel()
	for _, s := range n.signers {
		if err := s.slot.WaitServing(ctx); err != nil {
			return fmt.Errorf("signer of the credential %s: it does not serve: %w; see the Events of its ConfigMap and the log", s.name, err)
		}
	}
	return nil
}

// close ends the network's tasks. Running requests end by themselves.
func (n *network) close() {
	n.stop()
	n.Close()
	n.kube.Close()
}

// allowed is the network of the present configuration. Every generation is
// subject to a restriction at once; an extension comes with a new generation.
type allowed struct{ current atomic.Pointer[network] }

// capability reports whether the administrator presently grants a capability.
func (a *allowed) capability(name string) bool {
	return slices.Contains(a.current.Load().capabilities, name)
}

// network is the network whose grants bind every generation's requests. Without
// a configuration nothing is allowed.
func (a *allowed) network() *grant.Network {
	if now := a.current.Load(); now != nil {
		return now.Network
	}
	return nil
}

// scrub replaces secrets in a text.
func (a *allowed) scrub(text string) string {
	return string(a.current.Load().Credentials.Scrub([]byte(text)))
}

// seen is one generation's view of the cluster: its grants at loading,
// restricted to the present ones.
type seen struct {
	own     *network
	allowed *allowed
	// generation is part of its cursors.
	generation uint64
	clients    kubecache.Clients
}

// Read implements hostfunc.Kube.
func (s seen) Read(ctx context.Context, request *abi.KubeRequest) ([]byte, int, error) {
	// Invariant G3 (host/SECURITY.md): what is granted now counts at each call.
	if err := s.allowed.current.Load().kube.Refusal(request); err != nil {
		return nil, 0, err
	}
	return s.own.kube.Read(ctx, s.generation, request)
}

// Patch implements hostfunc.Kube.
func (s seen) Patch(ctx context.Context, request *abi.KubeRequest, own *corev1.ObjectReference) error {
	// Invariant G3 (host/SECURITY.md): both must allow it.
	if _, err := s.allowed.current.Load().kube.Patch(request, own); err != nil {
		return err
	}
	patch, err := s.own.kube.Patch(request, own)
	if err != nil {
		return err
	}
	return patch.Apply(ctx, s.clients)
}
