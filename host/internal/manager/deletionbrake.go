package manager

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
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/wasm-ccm/wasm-ccm/host/config/v1alpha1"
	"github.com/wasm-ccm/wasm-ccm/host/internal/cloud/brake"
	"github.com/wasm-ccm/wasm-ccm/host/internal/cloud/listing"
	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/status"
	"github.com/wasm-ccm/wasm-ccm/host/internal/manager/explain"
	"github.com/wasm-ccm/wasm-ccm/host/internal/manager/metrics"
	"github.com/wasm-ccm/wasm-ccm/host/internal/report"
	"github.com/wasm-ccm/wasm-ccm/host/internal/text"
)

// Reasons of the Events of the deletion brake.
const (
	eventBrakeEngaged  = report.DeletionBrakeEngaged
	eventBrakeReleased = report.DeletionBrakeReleased
	eventBrakeFailing  = report.DeletionBrakeFailing
	eventDeletionHeld  = report.DeletionHeld
)

// heldEvents is the rate of Events on held Nodes, per second.
const (
	heldEvents      = 1
	heldEventsBurst = 20
)

// newBrake puts the deletion brake between the guest and the controllers that
// delete Nodes. Its annotation is on the namespace of the stores, which an
// account that may replace the module need not be able to change. The shares
// are of the provider's own Nodes.
func newBrake(s *shared, b *base, instances *listing.Listing, limits v1alpha1.DeletionBrake) *brake.Brake {
	nodes := ownNodes{s.completed.SharedInformers.Core().V1().Nodes().Lister(), func(n *corev1.Node) bool { return s.router.OwnsNode(b.name, n) }}
	namespace, client := s.storeNamespace, b.client
	return brake.New(instances, brake.Options{
		Limits:     brakeLimits(limits),
		Cluster:    func() corelisters.NodeLister { return nodes },
		Heartbeats: func(ctx context.Context) (map[string]time.Time, error) { return heartbeats(ctx, client) },
		Ledger:     brakeRecord{b.status},
		Lifted:     func(ctx context.Context) (time.Time, error) { return liftedUntil(ctx, client, namespace) },
		Observer: &brakeObserver{
			logger: b.logger, provider: b.name, metrics: b.metrics.Brake(), events: b.events,
			namespace: namespace, held: rate.NewLimiter(heldEvents, heldEventsBurst),
		},
		Clock: clock.RealClock{},
	})
}

// brakeRecord is kept beside the provider's status.
type brakeRecord struct{ object *status.Object }

// Change implements brake.Ledger.
func (r brakeRecord) Change(ctx context.Context, change func(string) (string, error)) error {
	return r.object.ChangeBrake(ctx, change)
}

// leasesPage is the page size of the list of Leases.
const leasesPage = 500

// heartbeats reads the times of the kubelets' last Lease renewals.
func heartbeats(ctx context.Context, client kubernetes.Interface) (map[string]time.Time, error) {
	all := map[string]time.Time{}
	options := metav1.ListOptions{Limit: leasesPage}
	for {
		page, err := client.CoordinationV1().Leases(corev1.NamespaceNodeLease).List(ctx, options)
		if err != nil {
			err = withRule(err, corev1.NamespaceNodeLease, text.Rule{Group: "coordination.k8s.io", Resource: "leases", Verbs: []string{"list"}})
			return nil, fmt.Errorf("list the Leases of namespace %s: %w", corev1.NamespaceNodeLease, err)
		}
		for i := range page.Items {
			if renewed := page.Items[i].Spec.RenewTime; renewed != nil {
				all[page.Items[i].Name] = renewed.Time
			}
		}
		if options.Continue = page.Continue; options.Continue == "" {
			return all, nil
		}
	}
}

// ownNodes lists the Nodes of one provider.
type ownNodes struct {
	corelisters.NodeLister
	own func(*corev1.Node) bool
}

// List implements NodeLister.
func (o ownNodes) List(selector labels.Selector) ([]*corev1.Node, error) {
	nodes, err := o.NodeLister.List(selector)
	return slices.DeleteFunc(slices.Clone(nodes), func(n *corev1.Node) bool { return !o.own(n) }), err
}

// Get implements NodeLister.
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

// liftedUntil reads the administrator's annotation; zero without one.
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

// brakeObserver reports about the brake by log, metrics and Events: on the
// namespace, the place of the annotation, and on each Node.
type brakeObserver struct {
	logger    klog.Logger
	provider  string
	metrics   *metrics.Brake
	events    record.EventRecorder
	namespace string
	// held limits the Events on Nodes: the whole cluster may be held.
	held *rate.Limiter
}

func (o *brakeObserver) Held(node *corev1.Node, hold brake.Hold) {
	o.metrics.Held(string(hold.Reason))
	o.logger.Info("A Node stays although the provider says that its machine does not exist", "node", node.Name, "reason", hold.Reason, "why", hold.Message)
}

func (o *brakeObserver) Explain(node *corev1.Node, hold brake.Hold) bool {
	if !o.held.Allow() {
		return false
	}
	kind := corev1.EventTypeWarning
	if hold.Reason == brake.ReasonNever { // the administrator wanted it
		kind = corev1.EventTypeNormal
	}
	message := "the provider says that the machine does not exist, and the Node stays: " + hold.Message
	o.events.Event(nodeReference(node), kind, eventDeletionHeld, text.Line(message, maxEventBytes))
	return true
}

func (o *brakeObserver) LetGo(*corev1.Node) { o.metrics.LetGo() }

func (o *brakeObserver) Contradicted(node *corev1.Node, by string) {
	o.metrics.Contradicted(by)
	o.logger.Info("The provider said that a machine does not exist, but it does; for some time only Nodes with a mark for deletion are deleted", "node", node.Name, "by", by)
}

func (o *brakeObserver) Engaged(s brake.Status) {
	o.metrics.Engaged(s.Engaged)
	values := []any{"gone", s.Gone, "nodes", s.Size, "permits", s.Permits}
	if !s.Engaged {
		o.logger.Info("The deletion brake is released", values...)
		o.events.Event(o.about(), corev1.EventTypeNormal, eventBrakeReleased, "No deletion of a Node is held any more")
		return
	}
	pace := fmt.Sprintf("%.0f may go at once and %.0f in %v", s.Burst, s.Refill, s.Period)
	if s.Permits < 1 && !s.Distrusted.IsZero() {
		pace += fmt.Sprintf(", and none before %s, as it was contradicted", s.Distrusted.UTC().Format(time.RFC3339))
	}
	message := fmt.Sprintf("the provider %s reports that the machines of %d of %d Nodes do not exist; %s. "+
		"If one is gone, annotate its Node with %s=%s. If all are, lift the brake for an hour: %s",
		o.provider, s.Gone, s.Size, pace, brake.NodeDeletionAnnotation, brake.Unbraked, explain.Lift(o.namespace))
	o.logger.Error(nil, "The deletion brake is engaged", append(values, "message", message)...)
	o.events.Event(o.about(), corev1.EventTypeWarning, eventBrakeEngaged, text.Line(message, maxEventBytes))
}

func (o *brakeObserver) Failed(what string, err error) {
	o.metrics.Failing(what, err != nil)
	if err == nil {
		o.logger.Info("The deletion brake can use the API server again", "what", what)
		return
	}
	o.logger.Error(err, "The deletion brake lacks an object of the API server; until then, fewer Nodes are deleted, or none", "what", what)
	o.events.Event(o.about(), corev1.EventTypeWarning, eventBrakeFailing, text.Line(fmt.Sprintf("the deletion brake of provider %s cannot use the %s: %v", o.provider, what, err), maxEventBytes))
}

func (o *brakeObserver) Seen(s brake.Status) { o.metrics.Seen(s.Gone, s.Permits) }

func (o *brakeObserver) about() *corev1.ObjectReference {
	return &corev1.ObjectReference{APIVersion: "v1", Kind: "Namespace", Name: o.namespace}
}
