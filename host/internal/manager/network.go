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

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/host/config/v1alpha1"
	"github.com/wasm-ccm/wasm-ccm/host/internal/hostcall/credential"
	"github.com/wasm-ccm/wasm-ccm/host/internal/hostcall/egress"
	"github.com/wasm-ccm/wasm-ccm/host/internal/hostcall/kubecache"
	"github.com/wasm-ccm/wasm-ccm/host/internal/manager/grant"
	"github.com/wasm-ccm/wasm-ccm/host/internal/manager/tasks"
)

// network is what stands between the requests of a provider and the cloud, as
// one HostConfiguration says. It is replaced as a whole.
// Generations hold the one they were loaded with; the last one closes it.
type network struct {
	client       *egress.Client
	secrets      *credential.Pinned
	credentials  *credential.Set
	capabilities []string
	kube         *kubecache.View
	signers      []*signer
	stop         context.CancelFunc
	users        atomic.Int32
	// number grows from network to network of a provider.
	number int64
}

// retain lets one more use the network. The first user is who built it.
func (n *network) retain() { n.users.Add(1) }

// release ends a use of the network, and closes it with the last one.
func (n *network) release() {
	if n.users.Add(-1) == 0 {
		n.close()
	}
}

// networks makes them.
type networks struct {
	client kubernetes.Interface
	caches *kubecache.Caches
	// refused is told what is asked of the caches and not granted.
	refused  func(what, advice string)
	observer egress.Observer
	// scrubber outlives networks, so that old secrets stay scrubbed.
	scrubber *credential.Scrubber
	signers  *signerLoader
	logger   klog.Logger
	// life is that of what they run, which a reload does not end; tasks waits for it.
	life  context.Context
	tasks *tasks.Group
	built atomic.Int64
	// traffic outlives networks, so that a reload or a changed Secret begins
	// no rate, breaker or budget anew; nil before the first one.
	traffic *egress.Traffic
}

// build makes the network of a provider and starts what watches its Secrets
// and signers; close ends that.
func (n *networks) build(p *v1alpha1.Provider) (*network, error) {
	ctx, cancel := context.WithCancel(n.life)
	net := &network{capabilities: p.Capabilities, stop: cancel, number: n.built.Add(1)}
	net.retain()
	if err := n.fill(ctx, net, p); err != nil {
		cancel()
		return nil, fmt.Errorf("provider %s: %w", p.Name, err)
	}
	return net, nil
}

func (n *networks) fill(ctx context.Context, net *network, p *v1alpha1.Provider) error {
	watched := credential.NewWatchedSecrets(n.client, secretNames(p))
	net.secrets = credential.NewPinned(watched)
	way, err := grant.NewNetwork(p, grant.NetworkOptions{
		Secrets: net.secrets, Signer: n.signer(net, p.Engine), Observer: n.observer, Traffic: n.traffic,
		Credentials: credential.Options{Scrubber: n.scrubber, SignerFailed: n.signerFailed()},
	})
	if err != nil {
		return err
	}
	net.client, net.credentials = way.Client, way.Credentials
	net.kube = n.caches.Open(grant.Kube(&p.Kube), n.refused)
	if n.traffic == nil { // of the first network, before there are goroutines
		n.traffic = net.client.Traffic()
	}
	n.tasks.Go(fmt.Sprintf("the Secrets of network %d", net.number), func() { watched.Run(ctx) })
	for _, s := range net.signers {
		s.start(ctx, n.tasks)
	}
	return nil
}

// signerFailed returns what logs errors of signers, one a second with a burst of ten.
func (n *networks) signerFailed() func(credential, message string) {
	lines := rate.NewLimiter(1, 10)
	return func(credential, message string) {
		if lines.Allow() {
			n.logger.Info("The signer of a credential failed", "credential", credential, "words", message)
		}
	}
}

// signer makes the signer of a credential, which is started with the network.
func (n *networks) signer(net *network, engineName string) grant.SignerFunc {
	return func(name string, c *v1alpha1.SignerCredential) (credential.Signer, error) {
		s, err := n.signers.signer(name, engineName, c)
		if err != nil {
			return nil, err
		}
		net.signers = append(net.signers, s)
		return credential.NewSigner(s.slot.Invoke), nil
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

// close ends what the network runs. Requests under way end by themselves.
func (n *network) close() {
	n.stop()
	n.client.Close()
	n.credentials.Close()
	n.kube.Close()
}

// allowed is the network of the configuration that holds now. A change of what
// the administrator allows is in force at once for every generation where it
// takes something away; what it adds comes with a generation of its own.
type allowed struct{ current atomic.Pointer[network] }

// capability reports whether the administrator grants a capability now.
func (a *allowed) capability(name string) bool {
	return slices.Contains(a.current.Load().capabilities, name)
}

// scrub replaces secrets in a text.
func (a *allowed) scrub(text string) string {
	return string(a.current.Load().credentials.Scrub([]byte(text)))
}

// bound is the network of one generation: what the generation was loaded with,
// as far as it is still allowed.
type bound struct {
	own     *network
	allowed *allowed
}

// Send is hostfunc.HTTP.
func (b bound) Send(ctx context.Context, requests []*abi.HttpRequest) ([]*abi.HttpResult, error) {
	now := b.allowed.current.Load()
	if now == b.own {
		return b.own.client.Send(ctx, requests)
	}
	results := make([]*abi.HttpResult, len(requests))
	var rest []*abi.HttpRequest
	for i, request := range requests {
		// Invariant G3 (host/SECURITY.md): a generation with grants of its own sends nothing that
		// those of now refuse.
		if results[i] = now.client.Refusal(request); results[i] != nil {
			continue
		}
		rest = append(rest, request)
	}
	sent, err := b.send(ctx, rest)
	if err != nil {
		return nil, err
	}
	for i := range results {
		if results[i] == nil {
			results[i], sent = sent[0], sent[1:]
		}
	}
	return results, nil
}

func (b bound) send(ctx context.Context, requests []*abi.HttpRequest) ([]*abi.HttpResult, error) {
	if len(requests) == 0 {
		return nil, nil
	}
	return b.own.client.Send(ctx, requests)
}

// seen is what one generation sees of the cluster: what it was loaded with, as
// far as it is still allowed.
type seen struct {
	own     *network
	allowed *allowed
	// generation is in its cursors.
	generation uint64
	clients    kubecache.Clients
}

// Read is hostfunc.Kube.
func (s seen) Read(ctx context.Context, request *abi.KubeRequest) ([]byte, int, error) {
	// Invariant G3 (host/SECURITY.md): what is granted now counts at each call.
	if err := s.allowed.current.Load().kube.Refusal(request); err != nil {
		return nil, 0, err
	}
	return s.own.kube.Read(ctx, s.generation, request)
}

// Patch is hostfunc.Kube.
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
