package routing

import (
	"context"
	"encoding/json"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
)

// Condition is that of the Services of no provider.
type Condition struct {
	// Type is the one that a provider's loop writes as well, which so takes it over.
	Type string
	// Client has the verb patch on services/status.
	Client kubernetes.Interface
}

// conditionTimeout bounds a write.
const conditionTimeout = 5 * time.Second

// lacking reports whether a Service of no provider is yet to say so. One with a
// class may be another controller's: without the label of a provider nothing is
// written to it.
func (c Condition) lacking(service *corev1.Service, message string) bool {
	if message == "" || service.Spec.LoadBalancerClass != nil && service.Labels[ServiceOwnerLabel] == "" {
		return false
	}
	now := meta.FindStatusCondition(service.Status.Conditions, c.Type)
	return now == nil || now.Reason != noProvider || now.Message != message
}

// write leaves it open whether a load balancer that was in order still is.
func (c Condition) write(ctx context.Context, service *corev1.Service, message string) error {
	want := metav1.Condition{Type: c.Type, Status: metav1.ConditionFalse, Reason: noProvider, Message: message, LastTransitionTime: metav1.Now()}
	if now := meta.FindStatusCondition(service.Status.Conditions, c.Type); now != nil {
		if now.Status != metav1.ConditionFalse {
			want.Status = metav1.ConditionUnknown
		}
		if now.Status == want.Status {
			want.LastTransitionTime = now.LastTransitionTime
		}
	}
	return c.patch(ctx, service, want)
}

// stale reports whether a Service has the condition and waits for no provider:
// it has ceased to want a load balancer. Where a provider makes one, its loop says
// so in place of this.
func (c Condition) stale(r *Router, service *corev1.Service) bool {
	now := meta.FindStatusCondition(service.Status.Conditions, c.Type)
	if now == nil || now.Reason != noProvider || r.UnroutedService(service) {
		return false
	}
	t := r.table()
	return !wantsLoadBalancer(service) || !t.everything && !t.known(t.serviceName(service))
}

func (c Condition) remove(ctx context.Context, service *corev1.Service) error {
	return c.patch(ctx, service, map[string]string{"$patch": "delete", "type": c.Type})
}

// patch changes the condition of a Service that is still as it was seen: a
// provider's loop may have written another one since, and then this looks again.
func (c Condition) patch(ctx context.Context, service *corev1.Service, condition any) error {
	ctx, cancel := context.WithTimeout(ctx, conditionTimeout)
	defer cancel()
	data, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"resourceVersion": service.ResourceVersion, "uid": service.UID},
		"status":   map[string]any{"conditions": []any{condition}},
	})
	if err != nil {
		return err
	}
	_, err = c.Client.CoreV1().Services(service.Namespace).Patch(ctx, service.Name, types.StrategicMergePatchType, data, metav1.PatchOptions{}, "status")
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) || apierrors.IsInvalid(err) { // it is gone, changed, or another one of its name
		return nil
	}
	return err
}
