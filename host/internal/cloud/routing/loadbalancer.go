package routing

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/wasm-ccm/wasm-ccm/host/internal/report"
	"github.com/wasm-ccm/wasm-ccm/host/internal/text"
)

// notMoved is the Event's reason.
const notMoved = report.LoadBalancerNotMoved

// loadBalancer guards a provider's load balancers: it serves only its own Services. The
// owner label is set before the provider first hears of a Service, and removed with the
// finalizer when the load balancer is gone.
type loadBalancer struct {
	cloudprovider.LoadBalancer
	*guarded
}

// EnsureLoadBalancer makes the Service the provider's before the provider is asked.
func (l *loadBalancer) EnsureLoadBalancer(ctx context.Context, cluster string, service *corev1.Service, nodes []*corev1.Node) (*corev1.LoadBalancerStatus, error) {
	switch owner := service.Labels[ServiceOwnerLabel]; {
	case l.unlabelled(service):
	case owner == "":
		if err := l.claim(ctx, service); err != nil {
			return nil, err
		}
		service = labelled(service, l.provider)
	case owner == l.provider:
		l.tellHowToMove(service)
	// Invariant P3 (host/SECURITY.md): the label decides, not the annotation.
	default:
		return nil, l.foreign(service, owner)
	}
	return l.LoadBalancer.EnsureLoadBalancer(ctx, cluster, service, nodes)
}

// labelled is the Service with the owner label, as later reads show it: a repeated question
// to the provider is then the same.
func labelled(service *corev1.Service, owner string) *corev1.Service {
	service = service.DeepCopy()
	if service.Labels == nil {
		service.Labels = map[string]string{}
	}
	service.Labels[ServiceOwnerLabel] = owner
	return service
}

// GetLoadBalancer gives the Service up when it wants no load balancer and has none: upstream
// then does not ask for the deletion.
func (l *loadBalancer) GetLoadBalancer(ctx context.Context, cluster string, service *corev1.Service) (*corev1.LoadBalancerStatus, bool, error) {
	status, exists, err := l.LoadBalancer.GetLoadBalancer(ctx, cluster, service)
	if err != nil || exists {
		return status, exists, err
	}
	return status, exists, l.release(ctx, service)
}

// EnsureLoadBalancerDeleted gives the Service up when its load balancer is gone.
func (l *loadBalancer) EnsureLoadBalancerDeleted(ctx context.Context, cluster string, service *corev1.Service) error {
	if owner := service.Labels[ServiceOwnerLabel]; owner != "" && owner != l.provider {
		return l.foreign(service, owner)
	}
	if err := l.LoadBalancer.EnsureLoadBalancerDeleted(ctx, cluster, service); err != nil {
		return err
	}
	return l.release(ctx, service)
}

func (l *loadBalancer) foreign(service *corev1.Service, owner string) error {
	return fmt.Errorf("provider %q does not own the load balancer of Service %s: its label %s says %s", l.provider, key(service), ServiceOwnerLabel, text.Quote(owner))
}

func (l *loadBalancer) tellHowToMove(service *corev1.Service) {
	although := l.otherChoice(service)
	if l.options.Recorder == nil || although == "" {
		return
	}
	now := saying{service.UID, although}
	if _, said := l.said.Get(now); said {
		return
	}
	l.said.Add(now, nil)
	l.options.Recorder.Eventf(service, corev1.EventTypeWarning, notMoved,
		"The load balancer stays with provider %q, although %s. To move it, which interrupts its traffic and may change its address: "+
			"delete the Service and make it again; or set its type to ClusterIP, wait until its label %s is gone, and set the type back",
		l.provider, although, ServiceOwnerLabel)
}

// otherChoice returns which annotation or class of a Service asks for another provider, or
// "".
func (l *loadBalancer) otherChoice(service *corev1.Service) string {
	if class := service.Spec.LoadBalancerClass; class != nil {
		switch owner := l.router.table().classes[*class]; owner {
		case l.provider:
			return ""
		case "":
			return fmt.Sprintf("its class %s is in no provider's routing.services.classes", text.Quote(*class))
		default:
			return fmt.Sprintf("its class %s belongs to provider %q", text.Quote(*class), owner)
		}
	}
	choice := service.Annotations[ServiceAnnotation]
	if choice == "" || choice == l.provider {
		return ""
	}
	return fmt.Sprintf("the annotation %s says %s", ServiceAnnotation, text.Quote(choice)) // the annotation may have 256 KiB
}
