package routing

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"
	servicehelpers "k8s.io/cloud-provider/service/helpers"

	"github.com/wasm-ccm/wasm-ccm/host/internal/text"
)

// claim sets the owner label. It reads the Service first: the copy at hand is older than the
// finalizer that upstream has just added, and perhaps older than another provider's claim.
// The patch fails if the Service has changed since the read.
func (l *loadBalancer) claim(ctx context.Context, service *corev1.Service) error {
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		now, err := l.read(ctx, service)
		if err != nil {
			return err
		}
		if reason := l.againstClaim(service, now); reason != "" {
			return fmt.Errorf("it %s meanwhile", reason)
		}
		if now.Labels[ServiceOwnerLabel] == l.provider {
			return nil
		}
		return l.patch(ctx, now, map[string]any{"labels": map[string]any{ServiceOwnerLabel: l.provider}})
	})
	if err != nil {
		return fmt.Errorf("making Service %s provider %q's by its label %s, before its load balancer is made: %w", key(service), l.provider, ServiceOwnerLabel, mend(err))
	}
	return nil
}

func (l *loadBalancer) againstClaim(service, now *corev1.Service) string {
	switch {
	case now.UID != service.UID:
		return "was deleted and made again"
	case now.DeletionTimestamp != nil:
		return "was deleted"
	case !wantsLoadBalancer(now):
		return "ceased to want a load balancer"
	case l.router.table().serviceName(now) != l.provider:
		return fmt.Sprintf("went to %s", text.Quote(l.router.table().serviceName(now)))
	}
	return ""
}

// release removes the owner label from a Service that stays without a load
// balancer, and upstream's finalizer with it: with the label alone gone, and
// the manager killed then, no provider's loop would remove the finalizer.
func (l *loadBalancer) release(ctx context.Context, service *corev1.Service) error {
	if wantsLoadBalancer(service) || service.DeletionTimestamp != nil || l.unlabelled(service) {
		return nil
	}
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		now, err := l.read(ctx, service)
		switch {
		case apierrors.IsNotFound(err):
			return nil
		case err != nil:
			return err
		case now.UID != service.UID, wantsLoadBalancer(now), now.DeletionTimestamp != nil, now.Labels[ServiceOwnerLabel] != l.provider:
			return nil
		}
		finalizers := slices.DeleteFunc(slices.Clone(now.Finalizers), func(f string) bool { return f == servicehelpers.LoadBalancerCleanupFinalizer })
		return l.patch(ctx, now, map[string]any{"finalizers": finalizers, "labels": map[string]any{ServiceOwnerLabel: nil}})
	})
	if l.router.Everything() && apierrors.IsForbidden(err) {
		return nil // without other providers the label does no harm
	}
	if err != nil {
		return fmt.Errorf("removing the label %s from Service %s, whose load balancer is gone: %w", ServiceOwnerLabel, key(service), mend(err))
	}
	return nil
}

func (l *loadBalancer) read(ctx context.Context, service *corev1.Service) (*corev1.Service, error) {
	return l.options.Client.CoreV1().Services(service.Namespace).Get(ctx, service.Name, metav1.GetOptions{})
}

// patch changes the metadata of a Service if it has not changed since the read. Like
// upstream's finalizer it uses the subresource status, so that the manager needs no right to
// change Services' specs.
func (l *loadBalancer) patch(ctx context.Context, read *corev1.Service, metadata map[string]any) error {
	metadata["resourceVersion"] = read.ResourceVersion
	data, err := json.Marshal(map[string]any{"metadata": metadata})
	if err != nil {
		return err
	}
	_, err = l.options.Client.CoreV1().Services(read.Namespace).Patch(ctx, read.Name, types.MergePatchType, data, metav1.PatchOptions{}, "status")
	return err
}

// mend adds the administrator's remedy to an error.
func mend(err error) error {
	if !apierrors.IsForbidden(err) {
		return err
	}
	return fmt.Errorf("%w; with several providers, or with routing, the service controller's ClusterRole needs the rules %s and %s", err,
		text.Rule{Resource: "services", Verbs: []string{"get"}}, text.Rule{Resource: "services/status", Verbs: []string{"patch"}})
}

// wantsLoadBalancer ignores ownership: a class may be another controller's.
func wantsLoadBalancer(service *corev1.Service) bool {
	return service.Spec.Type == corev1.ServiceTypeLoadBalancer
}

func key(service *corev1.Service) string { return service.Namespace + "/" + service.Name }
