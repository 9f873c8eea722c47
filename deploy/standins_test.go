//go:build node

package deploy_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"
)

// broken in the name of an image has its container end again and again.
const broken = "broken"

// standin is in the place of a kubelet: it registers a control-plane Node, renews
// its Lease, and says that the pods of the node run and are ready. It runs
// nothing. A pod that is deleted is gone when it looks again.
type standin struct {
	name   string
	client kubernetes.Interface
	stop   context.CancelFunc
	wait   sync.WaitGroup
}

// join registers a Node, and keeps it alive until the test ends or down is
// called.
func join(t *testing.T, c cluster, name string) *standin {
	t.Helper()
	s := &standin{name: name, client: c.admin}
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelHostname: name, "node-role.kubernetes.io/control-plane": ""}},
		Spec:       corev1.NodeSpec{Taints: []corev1.Taint{{Key: "node-role.kubernetes.io/control-plane", Effect: corev1.TaintEffectNoSchedule}}},
	}
	if _, err := s.client.CoreV1().Nodes().Create(t.Context(), node, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	s.up(t)
	t.Cleanup(s.down)
	return s
}

// up begins to speak for the node.
func (s *standin) up(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	s.stop = cancel
	s.wait.Go(func() {
		look := time.NewTicker(100 * time.Millisecond)
		defer look.Stop()
		for {
			if err := s.sync(ctx); err != nil && ctx.Err() == nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
				t.Errorf("the stand-in for the kubelet of %s: %v", s.name, err)
			}
			select {
			case <-ctx.Done():
				return
			case <-look.C:
			}
		}
	})
}

// down falls silent, as a node without power.
func (s *standin) down() {
	s.stop()
	s.wait.Wait()
}

func (s *standin) sync(ctx context.Context) error {
	if err := s.renew(ctx); err != nil {
		return err
	}
	if err := s.ready(ctx); err != nil {
		return err
	}
	pods, err := s.client.CoreV1().Pods("").List(ctx, metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector("spec.nodeName", s.name).String()})
	if err != nil {
		return err
	}
	ports := map[int32]string{}
	for i := range pods.Items {
		if err := s.pod(ctx, &pods.Items[i], ports); err != nil {
			return err
		}
	}
	return nil
}

func (s *standin) renew(ctx context.Context) error {
	leases := s.client.CoordinationV1().Leases(corev1.NamespaceNodeLease)
	lease, err := leases.Get(ctx, s.name, metav1.GetOptions{})
	now := ptr.To(metav1.NowMicro())
	if apierrors.IsNotFound(err) {
		_, err = leases.Create(ctx, &coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Name: s.name, Namespace: corev1.NamespaceNodeLease},
			Spec:       coordinationv1.LeaseSpec{HolderIdentity: &s.name, LeaseDurationSeconds: ptr.To[int32](40), RenewTime: now},
		}, metav1.CreateOptions{})
		return err
	}
	if err != nil {
		return err
	}
	lease.Spec.RenewTime = now
	_, err = leases.Update(ctx, lease, metav1.UpdateOptions{})
	return err
}

// ready sets the status of the Node where it says something else.
func (s *standin) ready(ctx context.Context) error {
	node, err := s.client.CoreV1().Nodes().Get(ctx, s.name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady && condition.Status == corev1.ConditionTrue {
			return nil
		}
	}
	node.Status.Capacity = corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("2"), corev1.ResourceMemory: resource.MustParse("4Gi"),
		corev1.ResourcePods: resource.MustParse("110"), corev1.ResourceEphemeralStorage: resource.MustParse("10Gi"),
	}
	node.Status.Allocatable = node.Status.Capacity
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "StandIn", LastHeartbeatTime: metav1.Now(), LastTransitionTime: metav1.Now()}}
	_, err = s.client.CoreV1().Nodes().UpdateStatus(ctx, node, metav1.UpdateOptions{})
	return err
}

// pod says what a kubelet would of one pod. Ports are those that the pods before
// it have taken of the host.
func (s *standin) pod(ctx context.Context, pod *corev1.Pod, ports map[int32]string) error {
	for _, port := range pod.Spec.Containers[0].Ports {
		if other := ports[port.HostPort]; other != "" {
			return fmt.Errorf("pods %s and %s have the port %d of one host", other, pod.Name, port.HostPort)
		}
		ports[port.HostPort] = pod.Name
	}
	if pod.DeletionTimestamp != nil {
		return s.client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, *metav1.NewDeleteOptions(0))
	}
	ready, state := corev1.ConditionTrue, corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.Now()}}
	if strings.Contains(pod.Spec.Containers[0].Image, broken) {
		ready, state = corev1.ConditionFalse, corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}}
	}
	if readiness(pod) == ready {
		return nil
	}
	pod.Status.Phase = corev1.PodRunning
	pod.Status.StartTime = ptr.To(metav1.Now())
	pod.Status.Conditions = []corev1.PodCondition{
		{Type: corev1.PodReady, Status: ready, LastTransitionTime: metav1.Now()},
		{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now()},
	}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: pod.Spec.Containers[0].Name, Image: pod.Spec.Containers[0].Image, Ready: ready == corev1.ConditionTrue, State: state}}
	_, err := s.client.CoreV1().Pods(pod.Namespace).UpdateStatus(ctx, pod, metav1.UpdateOptions{})
	return err
}

// readiness is what the pod's condition says, "" before there is one.
func readiness(pod *corev1.Pod) corev1.ConditionStatus {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodReady {
			return condition.Status
		}
	}
	return ""
}
