package controllers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	cloudprovider "k8s.io/cloud-provider"
	cloudproviderapi "k8s.io/cloud-provider/api"
	servicehelper "k8s.io/cloud-provider/service/helpers"
	"k8s.io/klog/v2"

	"github.com/wasm-ccm/wasm-ccm/host/internal/text"
)

// Programmed is the type of the condition of a Service that says whether its
// load balancer is as the Service says. Its reasons follow.
const (
	Programmed = "wasm-ccm.dev/LoadBalancerProgrammed"

	programmed   = "Programmed"
	provisioning = "Provisioning"
	failed       = "Failed"
)

const (
	// conditionTimeout bounds a write, for which a worker of the loop waits.
	conditionTimeout = 5 * time.Second
	// conditionBytes bounds its message.
	conditionBytes = 1000
)

// conditions keeps the condition Programmed of the Services of one loop. It
// writes nothing else, and nothing while nothing changes. Where upstream writes
// the load balancer's address or takes its finalizer off, the condition goes
// with it: who waits for it finds the address, and no loop sees a half of that.
type conditions struct {
	provider string
	client   kubernetes.Interface
	later    *later

	mu sync.Mutex
	// next goes with upstream's next write of a Service, by key.
	next map[string]change
	// failing are Services whose last ensure has failed.
	failing map[string]struct{}
}

// change is one of the condition of a Service: another one, or nil for none.
type change struct {
	service   types.UID
	condition *metav1.Condition
}

// MarshalJSON implements json.Marshaler, as a strategic merge patch has it: by
// the type it changes this condition and no other.
func (c change) MarshalJSON() ([]byte, error) {
	if c.condition == nil {
		return json.Marshal(map[string]string{"$patch": "delete", "type": Programmed})
	}
	return json.Marshal(c.condition)
}

func newConditions(provider string, client kubernetes.Interface, l *later) *conditions {
	return &conditions{provider: provider, client: client, later: l, next: map[string]change{}, failing: map[string]struct{}{}}
}

// ensured is told how an ensure of a Service has ended, after later was.
func (c *conditions) ensured(ctx context.Context, service *corev1.Service, status *corev1.LoadBalancerStatus, err error) {
	key := service.Namespace + "/" + service.Name
	again := c.failsAgain(key, err)
	want, ok := c.wanted(service, err, again)
	if !ok || ctx.Err() != nil || service.DeletionTimestamp != nil {
		return
	}
	if now := meta.FindStatusCondition(service.Status.Conditions, Programmed); now != nil {
		// Invariant O9 (host/SECURITY.md): what has not changed is not written.
		if now.Status == want.Status && now.Reason == want.Reason && withoutDigits(now.Message) == withoutDigits(want.Message) {
			return
		}
		if now.Status == want.Status {
			want.LastTransitionTime = now.LastTransitionTime
		}
	}
	if err == nil && status != nil && !servicehelper.LoadBalancerStatusEqual(&service.Status.LoadBalancer, status) {
		c.wait(key, change{service.UID, &want})
		return
	}
	if err := patchCondition(ctx, c.client, service, want); err != nil {
		// The next ensure that changes it tries again: the load balancer matters
		// more than what is said of it.
		klog.FromContext(ctx).Error(err, "The condition of a Service is not written", "service", klog.KObj(service), "condition", Programmed)
	}
}

// failsAgain notes whether an ensure has failed, and returns whether the one
// before had, too. The first may be that of a loop which has just lost the
// Service to another provider; upstream makes an Event of it anyway.
func (c *conditions) failsAgain(key string, err error) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.next, key)
	_, before := c.failing[key]
	var retry *cloudproviderapi.RetryError
	switch {
	case err == nil:
		delete(c.failing, key)
	case !errors.As(err, &retry):
		remember(c.failing, key, struct{}{})
	}
	return before
}

// wanted returns the condition after an ensure, and false if it stays.
func (c *conditions) wanted(service *corev1.Service, err error, again bool) (metav1.Condition, bool) {
	want := metav1.Condition{Type: Programmed, Status: metav1.ConditionFalse, LastTransitionTime: metav1.Now()}
	var retry *cloudproviderapi.RetryError
	switch {
	case err == nil:
		want.Status, want.Reason = metav1.ConditionTrue, programmed
		want.Message = fmt.Sprintf("Provider %q has made the load balancer as the Service says", c.provider)
	case errors.Is(err, cloudprovider.ImplementedElsewhere), errors.Is(err, context.Canceled):
		return want, false
	case errors.As(err, &retry):
		// A cloud that takes some seconds is asked twice for each change, and at
		// each start of the manager. That is no news.
		if isKnown(service) && !c.later.isLong(service.Namespace+"/"+service.Name) {
			return want, false
		}
		want.Reason, want.Message = provisioning, fmt.Sprintf("Provider %q has not finished yet", c.provider)
	case !again:
		return want, false
	default:
		want.Reason, want.Message = failed, text.Line(err.Error(), conditionBytes)
	}
	return want, true
}

// isKnown reports whether the loop of a provider has written the condition. One of
// a Service that had no provider says nothing of this one.
func isKnown(service *corev1.Service) bool {
	now := meta.FindStatusCondition(service.Status.Conditions, Programmed)
	return now != nil && slices.Contains([]string{programmed, provisioning, failed}, now.Reason)
}

// deleted is told that a Service has no load balancer any more. If it stays, the
// condition goes with upstream's finalizer.
func (c *conditions) deleted(service *corev1.Service) {
	c.failsAgain(service.Namespace+"/"+service.Name, nil)
	if service.DeletionTimestamp == nil && meta.FindStatusCondition(service.Status.Conditions, Programmed) != nil {
		c.wait(service.Namespace+"/"+service.Name, change{service: service.UID})
	}
}

func (c *conditions) wait(key string, next change) {
	c.mu.Lock()
	defer c.mu.Unlock()
	remember(c.next, key, next)
}

// patchCondition writes the condition now. What is gone, or is another one of its
// name, has none.
func patchCondition(ctx context.Context, client kubernetes.Interface, service *corev1.Service, now metav1.Condition) error {
	data, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": service.UID},
		"status":   map[string]any{"conditions": []metav1.Condition{now}},
	})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, conditionTimeout)
	defer cancel()
	_, err = client.CoreV1().Services(service.Namespace).Patch(ctx, service.Name, types.StrategicMergePatchType, data, metav1.PatchOptions{}, "status")
	if apierrors.IsNotFound(err) || apierrors.IsInvalid(err) { // so the API server says that the UID differs
		return nil
	}
	return err
}

// statusServices are the Services of a loop's client.
type statusServices struct {
	typedcorev1.ServiceInterface
	namespace  string
	conditions *conditions
}

// Patch implements typedcorev1.ServiceInterface.
func (s statusServices) Patch(ctx context.Context, name string, pt types.PatchType, data []byte, opts metav1.PatchOptions, subresources ...string) (*corev1.Service, error) {
	if pt == types.StrategicMergePatchType && slices.Equal(subresources, []string{"status"}) {
		data = s.conditions.join(s.namespace+"/"+name, data)
	}
	return s.ServiceInterface.Patch(ctx, name, pt, data, opts, subresources...)
}

// join adds to a patch of upstream's the condition that waits for it: a new one
// for a new address, and none for any.
func (c *conditions) join(key string, data []byte) []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	next, waits := c.next[key]
	if !waits {
		return data
	}
	var patch map[string]any
	if err := json.Unmarshal(data, &patch); err != nil {
		return data
	}
	status, ok := patch["status"].(map[string]any)
	if next.condition != nil && (!ok || status["loadBalancer"] == nil) {
		return data
	}
	if !ok {
		status = map[string]any{}
		patch["status"] = status
	}
	status["conditions"] = []change{next} // upstream has none
	metadata, ok := patch["metadata"].(map[string]any)
	if !ok {
		metadata = map[string]any{}
		patch["metadata"] = metadata
	}
	metadata["uid"] = next.service // neither address nor condition are of another one of its name
	joined, err := json.Marshal(patch)
	if err != nil {
		return data
	}
	delete(c.next, key)
	return joined
}
