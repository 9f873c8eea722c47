package manager

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"

	"github.com/wasm-ccm/wasm-ccm/host/internal/cloud/addresses"
	"github.com/wasm-ccm/wasm-ccm/host/internal/report"
	"github.com/wasm-ccm/wasm-ccm/host/internal/text"
)

// eventMetadataRefused is the reason of the Event on a Node with refused
// metadata, such as an address.
const eventMetadataRefused = report.ProviderMetadataRefused

// refusedEvents is the rate of these Events, per second.
const (
	refusedEvents      = 1
	refusedEventsBurst = 20
)

// steering decides about the addresses in a provider's answers, by the
// administrator's lists and the networks of the cluster's Services. Both may
// change while it is in use.
type steering struct {
	lists    atomic.Pointer[addresses.Policy]
	services *serviceCIDRs
	events   record.EventRecorder
	told     *rate.Limiter
}

func newSteering(services *serviceCIDRs, events record.EventRecorder, lists *addresses.Policy) *steering {
	s := &steering{services: services, events: events, told: rate.NewLimiter(refusedEvents, refusedEventsBurst)}
	s.set(lists)
	return s
}

func (s *steering) set(lists *addresses.Policy) { s.lists.Store(lists) }

func (s *steering) policy() *addresses.Policy {
	// Invariant A6 (host/SECURITY.md): each answer is held against the lists of now.
	return s.lists.Load().WithServiceCIDRs(s.services.known())
}

// idle are the entries of addresses.allow without an effect. There are none
// while the networks of the cluster's Services are unknown: an entry may be
// within one of them.
func (s *steering) idle() []string {
	if s.services.known() == nil {
		return nil
	}
	return s.policy().Idle()
}

// refused makes an Event on a Node: upstream only logs the error.
func (s *steering) refused(node *corev1.Node, err error) {
	if s.told.Allow() {
		s.events.Event(nodeReference(node), corev1.EventTypeWarning, eventMetadataRefused, text.Line(err.Error(), maxEventBytes))
	}
}

// The period of listing the networks of Services, and the time limit of one
// list. They change when an administrator adds one.
const (
	serviceCIDRsPeriod  = time.Minute
	serviceCIDRsRetry   = 5 * time.Second
	serviceCIDRsTimeout = 10 * time.Second
	maxServiceCIDRs     = 500
)

// serviceCIDRs are the networks of the cluster's Services, from its ServiceCIDR
// objects. They are listed and not watched, to need one right less.
type serviceCIDRs struct {
	client  kubernetes.Interface
	logger  klog.Logger
	current atomic.Pointer[[]netip.Prefix]
	failure string // the last reported one
}

// run lists the networks repeatedly until the context ends.
func (s *serviceCIDRs) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(s.pause()):
			s.refresh(ctx)
		}
	}
}

// pause is short while the networks are unknown.
func (s *serviceCIDRs) pause() time.Duration {
	if s.current.Load() == nil {
		return serviceCIDRsRetry
	}
	return serviceCIDRsPeriod
}

// known returns the last listed networks; nil before the first list.
func (s *serviceCIDRs) known() []netip.Prefix {
	if all := s.current.Load(); all != nil {
		return *all
	}
	return nil
}

// refresh keeps the known networks when the list fails.
func (s *serviceCIDRs) refresh(ctx context.Context) {
	all, err := s.list(ctx)
	if err != nil {
		if text := err.Error(); text != s.failure && ctx.Err() == nil {
			s.failure = text
			s.logger.Error(err, "The networks of the cluster's Services cannot be listed: addresses in unknown ones are not refused. "+
				"Grant the right to list them, or write them into providers[].addresses.deny of the HostConfiguration",
				"known", s.known())
		}
		return
	}
	if s.failure = ""; !slices.Equal(all, s.known()) {
		s.logger.Info("Addresses of the cluster's Services are refused in a provider's answers", "networks", all)
	}
	// Invariant A7 (host/SECURITY.md): what was known is replaced only by a whole list.
	s.current.Store(&all)
}

func (s *serviceCIDRs) list(ctx context.Context) ([]netip.Prefix, error) {
	ctx, cancel := context.WithTimeout(ctx, serviceCIDRsTimeout)
	defer cancel()
	list, err := s.client.NetworkingV1().ServiceCIDRs().List(ctx, metav1.ListOptions{Limit: maxServiceCIDRs})
	switch {
	case apierrors.IsNotFound(err):
		return nil, errors.New("the API server has no ServiceCIDR objects: it is older than Kubernetes 1.33")
	case err != nil:
		return nil, withRule(err, "", text.Rule{Group: "networking.k8s.io", Resource: "servicecidrs", Verbs: []string{"list"}})
	}
	var all []netip.Prefix
	for i := range list.Items {
		for _, cidr := range list.Items[i].Spec.CIDRs {
			block, err := addresses.ParseCIDR(cidr)
			if err != nil {
				return nil, fmt.Errorf("ServiceCIDR %s: %w", list.Items[i].Name, err)
			}
			all = append(all, block)
		}
	}
	slices.SortFunc(all, netip.Prefix.Compare)
	return slices.Compact(all), nil
}
