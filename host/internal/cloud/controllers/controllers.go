// Package controllers makes the control loops of the manager: for each provider Kubernetes'
// own four, and the PersistentVolume label loop of the package below. Each loop sees only
// its provider's objects. It starts and stops in process as its provider gains and loses the
// ops that the loop needs.
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

// serviceWorkers is the minimum of Services of a provider in work at once. Each worker waits
// for the end of its call; the provider's instances bound the running calls.
const serviceWorkers = 64

// nodeWorkers is the same for Nodes: for the uninitialised, and for the others.
const nodeWorkers = 16

// Provider is one provider as its control loops see it. Its functions are called from
// several goroutines at once and must not block; those that take an object must be cheap and
// depend on the object alone.
//
// To a loop, an object that leaves a filter is deleted. That is harmless for Nodes and
// volumes, but not for a Service: at its next sync upstream's service controller deletes the
// load balancer. So Services must keep its answer while a load balancer exists.
type Provider struct {
	// Name names the provider in logs, health checks and metrics.
	Name string
	// Cloud is what the provider can do now: LoadBalancer, InstancesV2 and Routes answer anew at
	// each call. The loop keeps the results until it stops, which happens when Changed tells of
	// a change.
	Cloud cloudprovider.Interface
	// Volumes labels volumes; nil: the provider cannot.
	Volumes persistentvolume.Labeler
	// Changed returns a channel that is closed at the next change of the serving generation,
	// also the first; nil: it never changes.
	Changed func() <-chan struct{}
	// Reconfigured returns a channel that is closed when the next generation with another
	// configuration serves; nil: never.
	Reconfigured func() <-chan struct{}
	// Nodes selects the provider's own Nodes; nil: all. The cloud-node and route loops and the
	// load balancers use these.
	Nodes func(*corev1.Node) bool
	// OwnedNodes selects Nodes for the lifecycle loop, which deletes Nodes: only those that
	// surely are the provider's own; nil: as Nodes.
	OwnedNodes func(*corev1.Node) bool
	// Services selects the provider's own Services; nil: all.
	Services func(*corev1.Service) bool
	// Classes selects its Services with a spec.loadBalancerClass that the provider serves:
	// upstream's loop sees them without the class, and would ignore them otherwise. nil: none.
	Classes func(*corev1.Service) bool
	// PersistentVolumes selects the provider's own volumes; nil: all.
	PersistentVolumes func(*corev1.PersistentVolume) bool
	// Uninitialised is told, once for each cause, why a Node cannot be initialised; it may be
	// nil. It must not change the Node.
	Uninitialised func(*corev1.Node, error)
	// Delayed is told when an op on a Service takes more than a minute, and repeatedly from
	// report.DelayedAfter on; err is the provider's last error, or nil. It may be nil.
	Delayed func(service *corev1.Service, took time.Duration, err error)
	// Heard is told the outcome of each call about an object, as the loop got it; it may be nil.
	Heard func(Call)
	// Healthy returns an error when a call of the provider holds a loop for good, which makes
	// /healthz fail; nil: it is always healthy.
	Healthy func() error
}

// Call is one call of a loop about one object.
type Call struct {
	// Kind is Service, Node or Route; Name is NAMESPACE/NAME, or the Node's, "" for all routes.
	Kind, Name string
	// UID is the object's; "" for a route.
	UID types.UID
	// Op is the loop's request, such as ensure.
	Op string
	// Began is the start of the call: the generation that served then may have answered.
	Began time.Time
	// Err is the outcome.
	Err error
}

// loop is a kind of control loop; each provider gets its own.
type loop struct {
	name       string
	clientName string // its ServiceAccount with --use-service-account-credentials
	// constructor's InitFunc starts the loop for one provider.
	start func(Provider) app.InitFuncConstructor
	// reasonAgainst says why the loop cannot run now, or "".
	reasonAgainst func(*config.CompletedConfig, Provider) string
	// nodes are the Nodes that the loop sees.
	nodes func(Provider) func(*corev1.Node) bool
	// queued is the kind of objects that the loop keeps in a queue with a back-off; "": no
	// queue.
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

// Why there are no routes on purpose.
const (
	routesOff = "--configure-cloud-routes is false"
	noRoutes  = "no provider serves that has routes"
)

// canRoute says why there is no route controller, or "". With an empty --cluster-cidr
// upstream's ends the process, although its flag is on by default and a replaced provider
// may add routes at any time.
func canRoute(completed *config.CompletedConfig, p Provider) string {
	shared := completed.ComponentConfig.KubeCloudShared
	if !shared.ConfigureCloudRoutes {
		return routesOff
	}
	if _, ok := p.Cloud.Routes(); !ok {
		return noRoutes
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
