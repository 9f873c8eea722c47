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

// Programmed is the type of the condition of a Service that says whether its load balancer
// matches the Service. Its reasons follow.
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

// conditions keeps the condition Programmed of the Services of one loop. It writes nothing
// else, and nothing without a change. When upstream writes the load balancer's address or
// removes its finalizer, the same patch has the condition: whoever waits for the condition
// finds the address, and no loop sees one without the other.
type conditions struct {
	provider string
	client   kubernetes.Interface
	later    *later

	mu sync.Mutex
	// next are the changes that join upstream's next write of a Service, by key.
	next map[string]change
	// written are the last written changes, by key: upstream's copy may be older.
	written map[string]change
	// failing are the Services whose last ensure failed.
	failing map[string]struct{}
}

// change sets or, with nil, removes the condition of a Service.
type change struct {
	service   types.UID
	condition *metav1.Condition
}

// MarshalJSON implements json.Marshaler as an element of a strategic merge patch: the type
// selects the condition, so others stay.
func (c change) MarshalJSON() ([]byte, error) {
	if c.condition == nil {
		return json.Marshal(map[string]string{"$patch": "delete", "type": Programmed})
	}
	return json.Marshal(c.condition)
}

func newConditions(provider string, client kubernetes.Interface, l *later) *conditions {
	return &conditions{provider: provider, client: client, later: l, next: map[string]change{}, written: map[string]change{}, failing: map[string]struct{}{}}
}

// ensured is told the outcome of an ensure, after later was.
func (c *conditions) ensured(ctx context.Context, service *corev1.Service, status *corev1.LoadBalancerStatus, err error) {
	key := service.Namespace + "/" + service.Name
	again := c.failsAgain(key, err)
	want, ok := c.wanted(service, err, again)
	if errors.Is(err, cloudprovider.ImplementedElsewhere) && isKnown(service) && ctx.Err() == nil {
		c.patch(ctx, service, change{}) // for example while it goes on
	}
	if !ok || ctx.Err() != nil || service.DeletionTimestamp != nil {
		return
	}
	c.set(ctx, service, want, err == nil && status != nil && !servicehelper.LoadBalancerStatusEqual(&service.Status.LoadBalancer, status))
}

// goesOn is told of an unfinished ensure, and returns the Service with its new condition. At
// each start of the manager a slow cloud is asked about all Services; for one that has the
// condition this is no news until the ensure takes long.
func (c *conditions) goesOn(ctx context.Context, service *corev1.Service, long bool) *corev1.Service {
	if isKnown(service) && !long || ctx.Err() != nil || service.DeletionTimestamp != nil {
		return service
	}
	want := c.provisioning()
	if !c.set(ctx, service, want, false) {
		return service
	}
	service = service.DeepCopy() // also after a failed write: it may have reached the API server
	meta.SetStatusCondition(&service.Status.Conditions, want)
	return service
}

func (c *conditions) provisioning() metav1.Condition {
	return metav1.Condition{
		Type: Programmed, Status: metav1.ConditionFalse, LastTransitionTime: metav1.Now(),
		Reason: provisioning, Message: fmt.Sprintf("Provider %q has not finished yet", c.provider),
	}
}

// set writes the condition if it differs, now or with upstream's coming write. It reports
// whether it tried now.
func (c *conditions) set(ctx context.Context, service *corev1.Service, want metav1.Condition, comes bool) (tried bool) {
	seen, now := meta.FindStatusCondition(service.Status.Conditions, Programmed), c.now(service)
	// Invariant O9 (host/SECURITY.md): an unchanged condition is not written.
	if says(seen, want) && says(now, want) {
		return false
	}
	if now != nil && now.Status == want.Status {
		want.LastTransitionTime = now.LastTransitionTime
	}
	if comes {
		c.wait(service.Namespace+"/"+service.Name, change{service.UID, &want})
		return false
	}
	c.patch(ctx, service, change{condition: &want})
	return true
}

// says reports whether a condition, or nil, equals the wanted one.
func says(now *metav1.Condition, want metav1.Condition) bool {
	return now != nil && now.Status == want.Status && now.Reason == want.Reason && withoutDigits(now.Message) == withoutDigits(want.Message)
}

// now returns the last written condition, else the copy's: also after somebody else, for
// example another provider's loop, has changed it.
func (c *conditions) now(service *corev1.Service) *metav1.Condition {
	c.mu.Lock()
	defer c.mu.Unlock()
	seen := meta.FindStatusCondition(service.Status.Conditions, Programmed)
	last, ok := c.written[service.Namespace+"/"+service.Name]
	since := ok && seen != nil && last.condition != nil && seen.LastTransitionTime.After(last.condition.LastTransitionTime.Time)
	if !ok || last.service != service.UID || since {
		return seen
	}
	return last.condition
}

func (c *conditions) patch(ctx context.Context, service *corev1.Service, now change) {
	now.service = service.UID
	c.mu.Lock()
	remember(c.written, service.Namespace+"/"+service.Name, now)
	c.mu.Unlock()
	if err := patchCondition(ctx, c.client, service, now); err != nil {
		// The next ensure that changes the condition tries again: the load balancer matters more
		// than its condition.
		klog.FromContext(ctx).Error(err, "Writing the condition of a Service failed", "service", klog.KObj(service), "condition", Programmed)
	}
}

// failsAgain records whether an ensure failed, and returns whether the one before failed,
// too. A first failure may be that of a loop which has just lost the Service to another
// provider; upstream makes an Event of it anyway.
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

// wanted returns the condition after an ensure; false leaves it as it is.
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
		return c.provisioning(), !isKnown(service) || c.later.isLong(service.Namespace+"/"+service.Name)
	case !again:
		return want, false
	default:
		want.Reason, want.Message = failed, text.Line(err.Error(), conditionBytes)
	}
	return want, true
}

// isKnown reports whether a provider's loop has written the condition. The condition
// NoProvider says nothing about this provider.
func isKnown(service *corev1.Service) bool {
	now := meta.FindStatusCondition(service.Status.Conditions, Programmed)
	return now != nil && slices.Contains([]string{programmed, provisioning, failed}, now.Reason)
}

// deleted is told that the load balancer of a Service is gone. If the Service stays, the
// condition is removed together with upstream's finalizer.
func (c *conditions) deleted(service *corev1.Service) {
	key := service.Namespace + "/" + service.Name
	c.failsAgain(key, nil)
	switch {
	case service.DeletionTimestamp != nil:
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.written, key)
	case c.now(service) != nil || meta.FindStatusCondition(service.Status.Conditions, Programmed) != nil:
		c.wait(key, change{service: service.UID})
	}
}

func (c *conditions) wait(key string, next change) {
	c.mu.Lock()
	defer c.mu.Unlock()
	remember(c.next, key, next)
}

// patchCondition writes the condition now. A deleted Service, or a new one of its name, gets
// none.
func patchCondition(ctx context.Context, client kubernetes.Interface, service *corev1.Service, now change) error {
	data, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": service.UID},
		"status":   map[string]any{"conditions": []change{now}},
	})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, conditionTimeout)
	defer cancel()
	_, err = client.CoreV1().Services(service.Namespace).Patch(ctx, service.Name, types.StrategicMergePatchType, data, metav1.PatchOptions{}, "status")
	if apierrors.IsNotFound(err) || apierrors.IsInvalid(err) { // the API server's answer to another UID
		return nil
	}
	return err
}

// statusServices is the Service client of a loop.
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

// join adds the waiting change of the condition to a patch of upstream's.
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
	status["conditions"] = []change{next} // upstream sets no conditions
	metadata, ok := patch["metadata"].(map[string]any)
	if !ok {
		metadata = map[string]any{}
		patch["metadata"] = metadata
	}
	metadata["uid"] = next.service // neither address nor condition may reach a new Service of the same name
	joined, err := json.Marshal(patch)
	if err != nil {
		return data
	}
	delete(c.next, key)
	remember(c.written, key, next)
	return joined
}
