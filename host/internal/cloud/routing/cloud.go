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
	// maxAsks is how many questions of others a provider has before it at
	// once, so that one that hangs holds no more goroutines than that.
	maxAsks = 16
	// remembered is how many things that were said of an object are not said
	// again.
	remembered = 4096
)

// CloudOptions are what the guards of a provider need.
type CloudOptions struct {
	// Client needs the verbs get on services and patch on services/status.
	Client kubernetes.Interface
	// Recorder tells users by Events. Nil tells nobody.
	Recorder record.EventRecorder
	// AskTimeout is how long another provider is asked whether it knows a Node,
	// too. Zero means 2 seconds.
	AskTimeout time.Duration
}

// Cloud returns the provider's cloud behind guards, and lets the guards of the
// others ask the cloud about Nodes. It is called once for each provider, before
// or after the rules name it. Where everything belongs to the provider only its
// load balancers are guarded; whoever holds its instances while that changes has
// to ask for them anew.
//
// What LoadBalancer and InstancesV2 return belongs to what the cloud returned
// then: they ask it each time. Instances and Zones know a Node by its name
// only, which says nothing of its provider, so they are not supported.
func (r *Router) Cloud(provider string, cloud cloudprovider.Interface, options CloudOptions) cloudprovider.Interface {
	if options.AskTimeout <= 0 {
		options.AskTimeout = defaultAskTimeout
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.peers[provider] = &peer{cloud: cloud, slots: make(chan struct{}, maxAsks)}
	return &guarded{Interface: cloud, router: r, provider: provider, options: options, said: lru.New(remembered)}
}

// guarded is a provider's cloud among others. Where everything belongs to the
// provider, only the Services of its classes have an owner label, since its
// classes may change.
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
