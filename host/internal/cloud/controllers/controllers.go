// Package controllers makes the control loops of the manager: for each provider
// Kubernetes' own four, and the PersistentVolume label loop of the package below.
// Each loop sees only its provider's objects. It starts and stops in process as
// its provider gains and loses the ops that the loop needs.
//
// It sees a provider only through cloudprovider.Interface.
package controllers

import (
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/cloud-provider/app"
	"k8s.io/cloud-provider/app/config"
	"k8s.io/cloud-provider/names"

	"github.com/wasm-ccm/wasm-ccm/host/internal/cloud/controllers/persistentvolume"
)

// volumeWorkers is how many volumes of a provider are asked for at once.
const volumeWorkers = 2

// Provider is one provider as its control loops see it. Its functions are
// called from several goroutines at once and must not block; those that take
// an object must be cheap and depend on the object alone.
//
// An object that leaves a filter is a deleted one for the loop. That is
// harmless for Nodes and volumes. For a Service it is not: when upstream's
// service controller comes to it the next time, it deletes the load balancer.
// So Services must keep its answer for as long as there is a load balancer.
type Provider struct {
	// Name names the provider in logs, health checks and metrics.
	Name string
	// Cloud is what the provider can do now: LoadBalancer, InstancesV2 and
	// Routes answer anew at each call. It is used while Changed tells nothing
	// else, and what it returned is used until the loop stops.
	Cloud cloudprovider.Interface
	// Volumes labels volumes; nil: the provider has none.
	Volumes persistentvolume.Labeler
	// Changed returns a channel that is closed at the next change of the
	// generation that serves, also the first; nil: it never changes.
	Changed func() <-chan struct{}
	// Reconfigured returns a channel that is closed when a generation serves that
	// has another configuration than the one before; nil: never.
	Reconfigured func() <-chan struct{}
	// Nodes are the provider's own; nil: all. They are those of the cloud-node
	// and route loops, and the nodes of its load balancers.
	Nodes func(*corev1.Node) bool
	// OwnedNodes are those of the lifecycle loop, which deletes Nodes: only
	// those that surely are the provider's own; nil: as Nodes.
	OwnedNodes func(*corev1.Node) bool
	// Services are the provider's own; nil: all.
	Services func(*corev1.Service) bool
	// Classes are those of its Services that have a spec.loadBalancerClass which
	// the provider serves: to upstream's loop they are shown without it, as it
	// ignores them else. Nil: none.
	Classes func(*corev1.Service) bool
	// PersistentVolumes are the provider's own; nil: all.
	PersistentVolumes func(*corev1.PersistentVolume) bool
	// Uninitialised is told, once for each cause, why a Node cannot be
	// initialised; nil: nobody is. It must not change the Node.
	Uninitialised func(*corev1.Node, error)
	// Delayed is told now and then that the provider puts an op on a Service off for too long. It may be nil.
	Delayed func(service *corev1.Service, took time.Duration, err error)
	// Heard is told how each call about an object has ended, as the loop was told; nil:
	// nobody is.
	Heard func(Call)
	// Healthy returns an error when a call of the provider holds a loop for
	// good, which makes /healthz fail; nil: it is always healthy.
	Healthy func() error
}

// Call is one call of a loop about one object.
type Call struct {
	// Kind is Service, Node or Route; Name is NAMESPACE/NAME, or the Node's, "" of
	// all routes.
	Kind, Name string
	// UID is the object's; "" of a route.
	UID types.UID
	// Op is what the loop wanted, such as ensure.
	Op string
	// Began is when it did: the generation that served then may have answered.
	Began time.Time
	// Err is how it ended.
	Err error
}

// loop is one kind of control loop; each provider gets one of its own.
type loop struct {
	name       string
	clientName string // its ServiceAccount with --use-service-account-credentials
	// constructor's InitFunc starts the loop for one provider.
	start func(Provider) app.InitFuncConstructor
	// reasonAgainst says why the loop cannot run now, or "".
	reasonAgainst func(*config.CompletedConfig, Provider) string
	// nodes are the Nodes that the loop sees.
	nodes func(Provider) func(*corev1.Node) bool
	// queued are the objects that the loop keeps in a queue with a back-off;
	// "": it has none.
	queued kind
	// ownInformers is true when the loop lists with its own identity instead
	// of the manager's.
	ownInformers bool
}

func loops() []loop {
	nodes := upstream(names.CloudNodeController, hasInstances, ownNodes, kindNode)
	nodes.start = startNodes
	return []loop{
		nodes,
		upstream(names.CloudNodeLifecycleController, hasInstances, surelyOwnNodes, ""),
		upstream(names.ServiceLBController, balancesLoad, ownNodes, kindService),
		upstream(names.NodeRouteController, canRoute, ownNodes, ""),
		{
			name: persistentvolume.Name, clientName: persistentvolume.ClientName,
			start: func(p Provider) app.InitFuncConstructor {
				return persistentvolume.InitFuncConstructor(p.Volumes, volumeWorkers).Constructor
			},
			reasonAgainst: labelsVolumes, nodes: ownNodes, queued: kindVolume, ownInformers: true,
		},
	}
}

func upstream(name string, reasonAgainst func(*config.CompletedConfig, Provider) string, nodes func(Provider) func(*corev1.Node) bool, queued kind) loop {
	constructor := app.DefaultInitFuncConstructors[name]
	return loop{
		name: name, clientName: constructor.InitContext.ClientName,
		start:         func(Provider) app.InitFuncConstructor { return constructor.Constructor },
		reasonAgainst: reasonAgainst, nodes: nodes, queued: queued,
	}
}

func ownNodes(p Provider) func(*corev1.Node) bool { return p.Nodes }

func surelyOwnNodes(p Provider) func(*corev1.Node) bool {
	if p.OwnedNodes != nil {
		return p.OwnedNodes
	}
	return p.Nodes
}

func hasInstances(_ *config.CompletedConfig, p Provider) string {
	if _, ok := p.Cloud.InstancesV2(); !ok {
		return "no provider serves that has instances"
	}
	return ""
}

func balancesLoad(_ *config.CompletedConfig, p Provider) string {
	if _, ok := p.Cloud.LoadBalancer(); !ok {
		return "no provider serves that has load balancers"
	}
	return ""
}

// canRoute says why there is no route controller, or "". With an empty
// --cluster-cidr upstream's ends the process, although its flag is on by
// default and a provider that is replaced may bring routes at any time.
func canRoute(completed *config.CompletedConfig, p Provider) string {
	shared := completed.ComponentConfig.KubeCloudShared
	if !shared.ConfigureCloudRoutes {
		return "--configure-cloud-routes is false"
	}
	if _, ok := p.Cloud.Routes(); !ok {
		return "no provider serves that has routes"
	}
	if strings.TrimSpace(shared.ClusterCIDR) == "" {
		return "--cluster-cidr is empty, so no routes are made although the provider has them; " +
			"set --cluster-cidr to the CIDRs of the Pods, or --configure-cloud-routes=false"
	}
	return ""
}

func labelsVolumes(_ *config.CompletedConfig, p Provider) string {
	if p.Volumes == nil || !p.Volumes.Supports() {
		return "no provider serves that labels volumes"
	}
	return ""
}
