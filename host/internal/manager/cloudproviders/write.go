package cloudproviders

import (
	"context"
	"fmt"
	"maps"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/klog/v2"

	"github.com/wasm-ccm/wasm-ccm/host/config/v1alpha1"
	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/rollout"
	status "github.com/wasm-ccm/wasm-ccm/host/status/v1alpha1"
)

const (
	// fieldManager owns the status in server-side apply.
	fieldManager = "wasm-ccm"
	// writeTimeout bounds one request.
	writeTimeout = 10 * time.Second
	// settlePeriod is the time for a rollout to begin after a change. Until
	// then a provider still seems to be done.
	settlePeriod = time.Second
)

// WriteStatuses writes changed statuses until the context ends. The leading
// manager calls it, once.
func (o *Objects) WriteStatuses(ctx context.Context) {
	defer context.AfterFunc(ctx, o.queue.ShutDown)()
	for {
		name, ended := o.queue.Get()
		if ended {
			return
		}
		o.writeOne(ctx, name)
		o.queue.Done(name)
	}
}

func (o *Objects) writeOne(ctx context.Context, name string) {
	err := o.write(ctx, name)
	if err == nil || apierrors.IsNotFound(err) || ctx.Err() != nil {
		o.queue.Forget(name)
		return
	}
	klog.FromContext(ctx).Error(explain(err), "The status of a CloudProvider was not written; this is tried again", "cloudProvider", name)
	o.queue.AddRateLimited(name)
}

// seen returns an object as last seen, nil when it is deleted or being deleted.
func (o *Objects) seen(name string) (object *unstructured.Unstructured, s v1alpha1.CloudProviderStatus) {
	item, _, _ := o.informer.GetStore().GetByKey(name) // a store in memory returns no errors
	object, ok := item.(*unstructured.Unstructured)
	if !ok || object.GetDeletionTimestamp() != nil {
		return nil, s
	}
	if given, ok := object.Object["status"].(map[string]any); ok {
		// An unreadable status has another writer.
		_ = runtime.DefaultUnstructuredConverter.FromUnstructured(given, &s)
	}
	return object, s
}

// Lacks names a provider that another manager serves, and this one does not:
// its object had a mistake when this manager started, so that its earlier form
// is unknown. "": none.
func (o *Objects) Lacks() string {
	o.mu.Lock()
	states := maps.Clone(o.states)
	o.mu.Unlock()
	for name, state := range states {
		if _, s := o.seen(name); state.reason == reasonInvalid && state.inForce == 0 && meta.IsStatusConditionTrue(s.Conditions, v1alpha1.ConditionReady) {
			return name
		}
	}
	return ""
}

func (o *Objects) write(ctx context.Context, name string) error {
	object, before := o.seen(name)
	if object == nil {
		delete(o.written, name)
		return nil
	}
	if last := o.written[name]; last.over == object {
		before = last.status
	}
	next, ready := o.next(object, before)
	if !ready || equality.Semantic.DeepEqual(before, next) {
		return nil
	}
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&next)
	if err != nil {
		return fmt.Errorf("the status of CloudProvider %s: %w", name, err)
	}
	applied := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": v1alpha1.APIVersion, "kind": v1alpha1.CloudProviderKind,
		// The UID protects a new object with the same name.
		"metadata": map[string]any{"name": name, "uid": string(object.GetUID())},
		"status":   fields,
	}}
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	_, err = o.options.Client.Resource(v1alpha1.CloudProviderResource()).ApplyStatus(ctx, name, applied, metav1.ApplyOptions{FieldManager: fieldManager, Force: true})
	if err == nil {
		o.written[name] = written{object, next}
		o.tell(object, before, next)
	}
	return err
}

// written is a written status, with the object that the watch showed before.
type written struct {
	over   *unstructured.Unstructured
	status v1alpha1.CloudProviderStatus
}

// next returns an object's new status; not ready while the report may be about
// an earlier spec.
func (o *Objects) next(object *unstructured.Unstructured, before v1alpha1.CloudProviderStatus) (s v1alpha1.CloudProviderStatus, ready bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	name, generation := object.GetName(), object.GetGeneration()
	state, judged := o.states[name]
	if !judged || state.generation != generation {
		return s, false // the verdict is still to come
	}
	known := o.knownOf(name, state)
	if state.reason == "" {
		if known == nil && before.ObservedGeneration > 0 {
			return s, false // a starting manager does not take a status back
		}
		if wait := settlePeriod - time.Since(state.since); wait > 0 && known != nil && known.Phase == string(rollout.Kept) && before.ObservedGeneration != generation {
			o.queue.AddAfter(name, wait)
			return s, false
		}
	}
	return statusOf(generation, before, state.verdict, known), true
}

func (o *Objects) knownOf(name string, state state) *status.Provider {
	known, ok := o.known[name]
	if !ok || state.inForce == 0 {
		return nil
	}
	return &known
}
