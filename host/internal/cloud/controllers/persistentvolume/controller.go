// Package persistentvolume is the control loop that labels PersistentVolumes with their zone
// and region and makes the scheduler respect both, as Kubernetes' own
// cloud-controller-manager once did.
//
// It sees the cloud only through Labeler.
package persistentvolume

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	cloudprovider "k8s.io/cloud-provider"
	cloudproviderapi "k8s.io/cloud-provider/api"
	"k8s.io/klog/v2"
)

// Name is the controller's name in --controllers and in health checks.
const Name = "persistentvolume-label"

const (
	firstRetry = time.Second
	lastRetry  = 5 * time.Minute
)

// Labeler asks the cloud for the labels of a volume.
type Labeler interface {
	// GetLabelsForVolume returns no labels for a volume of another cloud, and
	// cloudprovider.NotImplemented if the provider labels no volumes.
	GetLabelsForVolume(ctx context.Context, pv *corev1.PersistentVolume) (map[string]string, error)
	// Supports reports whether the provider labels volumes now. The loop should run only then.
	Supports() bool
}

// Controller labels PersistentVolumes. Run may be called once.
type Controller struct {
	client  kubernetes.Interface
	labeler Labeler
	lister  corelisters.PersistentVolumeLister
	synced  cache.InformerSynced
	queue   workqueue.TypedRateLimitingInterface[string]
	busy    busy
}

// NewController returns a loop over the informer's volumes; the caller starts
// the informer. The client needs the verb patch on persistentvolumes, the
// informer list and watch.
func NewController(client kubernetes.Interface, informer coreinformers.PersistentVolumeInformer, labeler Labeler) (*Controller, error) {
	c := &Controller{
		client:  client,
		labeler: labeler,
		lister:  informer.Lister(),
		queue: workqueue.NewTypedRateLimitingQueueWithConfig(
			workqueue.NewTypedItemExponentialFailureRateLimiter[string](firstRetry, lastRetry),
			workqueue.TypedRateLimitingQueueConfig[string]{Name: Name},
		),
		busy: busy{since: map[string]time.Time{}},
	}
	registration, err := informer.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) { c.enqueue(obj) },
		UpdateFunc: func(old, obj any) {
			if changed(old, obj) {
				c.enqueue(obj)
			}
		},
	})
	if err != nil {
		c.queue.ShutDown() // the queue has goroutines from the start, and Run will not end them
		return nil, fmt.Errorf("watching PersistentVolumes: %w", err)
	}
	c.synced = registration.HasSynced
	return c, nil
}

// Name implements controller.Interface.
func (c *Controller) Name() string { return Name }

// Run works until the context is done and its workers have returned.
func (c *Controller) Run(ctx context.Context, workers int) {
	defer utilruntime.HandleCrash()
	var group sync.WaitGroup
	defer group.Wait()
	defer c.queue.ShutDown()
	if !cache.WaitForNamedCacheSyncWithContext(ctx, c.synced) {
		return
	}
	for range workers {
		group.Go(func() { wait.UntilWithContext(ctx, c.work, time.Second) })
	}
	<-ctx.Done()
}

func (c *Controller) enqueue(obj any) {
	if pv, ok := obj.(*corev1.PersistentVolume); ok && needsLabels(pv) {
		c.queue.Add(pv.Name)
	}
}

func (c *Controller) work(ctx context.Context) {
	for c.next(ctx) {
	}
}

func (c *Controller) next(ctx context.Context) bool {
	name, shutdown := c.queue.Get()
	if shutdown {
		return false
	}
	defer c.queue.Done(name)
	c.busy.start(name, time.Now())
	defer c.busy.end(name)

	if err := c.sync(ctx, name); err != nil {
		klog.FromContext(ctx).Error(err, "Labelling a PersistentVolume failed, it is tried again", "persistentVolume", name)
		c.retry(name, err)
		return true
	}
	c.queue.Forget(name)
	return true
}

// retry waits for the cloud's delay, or with exponential back-off.
func (c *Controller) retry(name string, err error) {
	var asked *cloudproviderapi.RetryError
	if errors.As(err, &asked) {
		c.queue.AddAfter(name, asked.RetryAfter())
		return
	}
	c.queue.AddRateLimited(name)
}

// sync gives one volume the labeler's labels.
func (c *Controller) sync(ctx context.Context, name string) error {
	pv, err := c.lister.Get(name)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading PersistentVolume %s: %w", name, err)
	}
	if !needsLabels(pv) {
		return nil
	}
	// A replaced provider may support volumes again before this loop is stopped.
	if !c.labeler.Supports() {
		return errors.New("the provider labels no volumes now")
	}
	answer, err := c.labeler.GetLabelsForVolume(ctx, pv.DeepCopy())
	if errors.Is(err, cloudprovider.NotImplemented) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("asking for the labels of PersistentVolume %s: %w", name, err)
	}
	return c.apply(ctx, pv, answer)
}

func (c *Controller) apply(ctx context.Context, pv *corev1.PersistentVolume, answer map[string]string) error {
	patch, err := patchFor(pv, answer)
	if err != nil {
		return fmt.Errorf("labels for PersistentVolume %s: %w", pv.Name, err)
	}
	if patch == nil {
		return nil
	}
	_, err = c.client.CoreV1().PersistentVolumes().Patch(ctx, pv.Name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: Name})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("patching PersistentVolume %s: %w", pv.Name, err)
	}
	klog.FromContext(ctx).Info("Labelled a PersistentVolume", "persistentVolume", pv.Name, "labels", answer)
	return nil
}

// needsLabels reports whether the cloud's answer can still matter: an existing zone label,
// ours or a user's, is final.
func needsLabels(pv *corev1.PersistentVolume) bool {
	if pv.DeletionTimestamp != nil {
		return false
	}
	_, stable := pv.Labels[corev1.LabelTopologyZone]
	_, beta := pv.Labels[corev1.LabelFailureDomainBetaZone]
	return !stable && !beta
}

// changed reports whether an update touches the input of an answer. The status changes when
// a claim is bound, and a resync changes nothing: neither is a reason to ask the cloud
// again.
func changed(old, obj any) bool {
	a, okA := old.(*corev1.PersistentVolume)
	b, okB := obj.(*corev1.PersistentVolume)
	if !okA || !okB {
		return false
	}
	return a.UID != b.UID || !maps.Equal(a.Labels, b.Labels) || !maps.Equal(a.Annotations, b.Annotations) ||
		!equality.Semantic.DeepEqual(volumeSpec(a), volumeSpec(b))
}

// volumeSpec is the spec without the claim that the volume is bound to.
func volumeSpec(pv *corev1.PersistentVolume) corev1.PersistentVolumeSpec {
	spec := pv.Spec
	spec.ClaimRef = nil
	return spec
}
