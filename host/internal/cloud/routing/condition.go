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

// Condition is the condition of Services without a provider.
type Condition struct {
	// Type is also the type that a provider's loop writes, which thereby takes the condition
	// over.
	Type string
	// Client has the verb patch on services/status.
	Client kubernetes.Interface
}

// conditionTimeout bounds a write.
const conditionTimeout = 5 * time.Second

// lacking reports whether a Service without a provider needs the condition. A Service with a
// class may be another controller's: it is written to only with a provider's label.
func (c Condition) lacking(service *corev1.Service, message string) bool {
	if message == "" || service.Spec.LoadBalancerClass != nil && service.Labels[ServiceOwnerLabel] == "" {
		return false
	}
	now := meta.FindStatusCondition(service.Status.Conditions, c.Type)
	return now == nil || now.Reason != noProvider || now.Message != message
}

// write sets the status to Unknown: a load balancer that was in order may still be.
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

// stale reports whether a Service has the condition but waits for no provider: it no longer
// wants a load balancer. Where a provider makes one, its loop overwrites the condition.
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

// patch changes the condition of a Service if nobody has written since it was read: after
// another write, for example of a provider's loop, the Service is examined again.
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
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) || apierrors.IsInvalid(err) { // it is gone, changed, or a new one of its name
		return nil
	}
	return err
}
