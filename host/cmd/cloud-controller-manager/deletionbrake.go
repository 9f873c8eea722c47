package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/record"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/wasm-ccm/wasm-ccm/host/brake"
	"github.com/wasm-ccm/wasm-ccm/host/config/v1alpha1"
	"github.com/wasm-ccm/wasm-ccm/host/listing"
	"github.com/wasm-ccm/wasm-ccm/host/metrics"
	"github.com/wasm-ccm/wasm-ccm/host/provider"
)

// Reasons of the Events of the deletion brake.
const (
	eventBrakeEngaged  = "DeletionBrakeEngaged"
	eventBrakeReleased = "DeletionBrakeReleased"
	eventDeletionHeld  = "DeletionHeld"
)

// heldEvents is the rate of Events on Nodes that are held, per second.
const (
	heldEvents      = 1
	heldEventsBurst = 20
)

// newBrake stands between the guest and the controllers that delete Nodes. Its
// annotation is on the namespace of the stores, which whoever may replace the
// module need not be able to change. The shares are those of the provider's own
// Nodes.
func (s *shared) newBrake(m *managed) func(provider.Instances) cloudprovider.InstancesV2 {
	var nodes = s.completed.SharedInformers.Core().V1().Nodes().Lister()
	if own := s.router.OwnedNodes(m.name); own != nil {
		nodes = ownNodes{nodes, own}
	}
	namespace, limits := s.storeNamespace, brakeLimits(s.brake)
	options := brake.Options{
		Percent: limits.Percent, Nodes: limits.Nodes, Period: limits.Period, Settle: limits.Settle,
		Cluster: func() corelisters.NodeLister { return nodes },
		Lifted:  func(ctx context.Context) (time.Time, error) { return liftedUntil(ctx, s.client, namespace) },
		Observer: &brakeObserver{
			logger: m.logger, provider: m.name, metrics: m.metrics.Brake(), events: s.events,
			namespace: namespace, held: rate.NewLimiter(heldEvents, heldEventsBurst),
		},
		Clock: clock.RealClock{},
	}
	return func(instances provider.Instances) cloudprovider.InstancesV2 {
		m.listing = listing.New(instances, listing.Options{Observer: &listingObserver{m.logger, m.metrics.Listing()}, Addresses: m.steering.policy})
		m.brake = brake.New(m.listing, options)
		return m.brake
	}
}

// ownNodes lists the Nodes of one provider.
type ownNodes struct {
	corelisters.NodeLister
	own func(*corev1.Node) bool
}

// List is NodeLister's.
func (o ownNodes) List(selector labels.Selector) ([]*corev1.Node, error) {
	nodes, err := o.NodeLister.List(selector)
	return slices.DeleteFunc(slices.Clone(nodes), func(n *corev1.Node) bool { return !o.own(n) }), err
}

// Get is NodeLister's.
func (o ownNodes) Get(name string) (*corev1.Node, error) {
	node, err := o.NodeLister.Get(name)
	if err == nil && !o.own(node) {
		return nil, apierrors.NewNotFound(corev1.Resource("nodes"), name)
	}
	return node, err
}

func brakeLimits(b v1alpha1.DeletionBrake) brake.Limits {
	return brake.Limits{Percent: b.Percent, Nodes: b.Nodes, Period: b.Period.Duration, Settle: b.Settle.Duration}
}

// liftedUntil reads the administrator's annotation; zero when there is none.
func liftedUntil(ctx context.Context, client kubernetes.Interface, namespace string) (time.Time, error) {
	object, err := client.CoreV1().Namespaces().Get(ctx, namespace, metav1.GetOptions{})
	if err != nil {
		return time.Time{}, fmt.Errorf("the annotation %s of namespace %s: %w", brake.LiftedUntilAnnotation, namespace, err)
	}
	value, ok := object.Annotations[brake.LiftedUntilAnnotation]
	if !ok {
		return time.Time{}, nil
	}
	until, err := time.Parse(time.RFC3339, value)
	if err != nil {
		return time.Time{}, fmt.Errorf("the annotation %s of namespace %s: %q is not a time such as 2006-01-02T15:04:05Z", brake.LiftedUntilAnnotation, namespace, value)
	}
	return until, nil
}

// brakeObserver tells of the brake by log, metrics and Events: on the
// namespace, where the annotation belongs, and on each Node.
type brakeObserver struct {
	logger    klog.Logger
	provider  string
	metrics   *metrics.Brake
	events    record.EventRecorder
	namespace string
	// held bounds the Events on Nodes: the whole cluster may be held, and is
	// asked about every few seconds.
	held *rate.Limiter
}

func (o *brakeObserver) Refused(node *corev1.Node, status brake.Status) {
	o.metrics.Refused()
	if !o.held.Allow() {
		return // the Event on the namespace says how many there are
	}
	o.events.Event(nodeReference(node), corev1.EventTypeWarning, eventDeletionHeld, cut(fmt.Sprintf(
		"the provider says that the instance does not exist, as it says of %d of %d Nodes; at most %d may go at once, so the Node stays", status.Gone, status.Size, status.Allowed)))
}

func (o *brakeObserver) Contradicted(node *corev1.Node) {
	o.metrics.Contradicted()
	o.logger.Info("The provider said that an instance does not exist, and the contrary when asked again; the Node stays", "node", node.Name)
}

func (o *brakeObserver) Engaged(status brake.Status) {
	o.metrics.Engaged(status.Engaged)
	reference := &corev1.ObjectReference{APIVersion: "v1", Kind: "Namespace", Name: o.namespace}
	if !status.Engaged {
		o.logger.Info("The deletion brake is released", "gone", status.Gone, "nodes", status.Size, "allowed", status.Allowed)
		o.events.Event(reference, corev1.EventTypeNormal, eventBrakeReleased, "Nodes whose instances do not exist are deleted again")
		return
	}
	message := fmt.Sprintf("the provider %s says of %d of %d Nodes that their instances do not exist, at most %d may go at once: "+
		"no Node is deleted any more. If they are gone, lift the brake for an hour: kubectl annotate --overwrite namespace %s %s=$(date -u -d +1hour +%%Y-%%m-%%dT%%H:%%M:%%SZ)",
		o.provider, status.Gone, status.Size, status.Allowed, o.namespace, brake.LiftedUntilAnnotation)
	o.logger.Error(nil, "The deletion brake is engaged", "gone", status.Gone, "nodes", status.Size, "allowed", status.Allowed, "message", message)
	o.events.Event(reference, corev1.EventTypeWarning, eventBrakeEngaged, cut(message))
}

func nodeReference(node *corev1.Node) *corev1.ObjectReference {
	return &corev1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID}
}
