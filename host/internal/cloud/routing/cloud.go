package routing

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/record"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/utils/lru"
)

const (
	defaultAskTimeout = 2 * time.Second
	// maxAsks bounds the concurrent questions of other providers to one, so that a hung provider
	// holds no more goroutines.
	maxAsks = 16
	// remembered bounds the reports about objects that are not repeated.
	remembered = 4096
)

// CloudOptions are the needs of a provider's guards.
type CloudOptions struct {
	// Client needs the verbs get on services and patch on services/status.
	Client kubernetes.Interface
	// Recorder sends Events to users; nil sends none.
	Recorder record.EventRecorder
	// AskTimeout bounds the question to another provider whether it knows a Node. Zero means 2
	// seconds.
	AskTimeout time.Duration
}

// Cloud returns the provider's cloud behind guards, and lets the guards of other providers
// ask it about Nodes. It is called once for each provider, before or after the rules name
// it. If everything belongs to the provider only its load balancers are guarded; callers
// must get its instances again when that changes.
//
// The results of LoadBalancer and InstancesV2 wrap the cloud's results of that moment, and
// ask them each time. Instances and Zones identify a Node by its name only, which does not
// tell its provider, so they are not supported.
func (r *Router) Cloud(provider string, cloud cloudprovider.Interface, options CloudOptions) cloudprovider.Interface {
	if options.AskTimeout <= 0 {
		options.AskTimeout = defaultAskTimeout
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.peers[provider] = &peer{cloud: cloud, slots: make(chan struct{}, maxAsks)}
	return &guarded{Interface: cloud, router: r, provider: provider, options: options, said: lru.New(remembered)}
}

// guarded is a provider's cloud among others. If everything belongs to the provider, only
// the Services of its classes get an owner label, since its classes may change.
type guarded struct {
	cloudprovider.Interface
	router   *Router
	provider string
	options  CloudOptions
	said     *lru.Cache // of saying
}

func (g *guarded) LoadBalancer() (cloudprovider.LoadBalancer, bool) {
	balancer, ok := g.Interface.LoadBalancer()
	if !ok || balancer == nil {
		return nil, false
	}
	return &loadBalancer{LoadBalancer: balancer, guarded: g}, true
}

func (g *guarded) InstancesV2() (cloudprovider.InstancesV2, bool) {
	inner, ok := g.Interface.InstancesV2()
	if !ok || inner == nil || g.router.Everything() {
		return inner, ok && inner != nil
	}
	return &instances{inner: inner, guarded: g}, true
}

func (g *guarded) Instances() (cloudprovider.Instances, bool) {
	if g.router.Everything() {
		return g.Interface.Instances()
	}
	return nil, false
}

func (g *guarded) Zones() (cloudprovider.Zones, bool) {
	if g.router.Everything() {
		return g.Interface.Zones()
	}
	return nil, false
}

func (g *guarded) owns(node *corev1.Node) bool { return g.router.table().owns(g.provider, node) }
