package check

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/kubernetes"

	"github.com/wasm-ccm/wasm-ccm/host/internal/report"
)

// Missing returns the findings of a check that explain why no Pod of the
// manager in a namespace runs. The Pods are the manager's.
func Missing(ctx context.Context, client kubernetes.Interface, namespace string, pods []corev1.Pod) []Finding {
	c := &checker{Options: Options{Namespace: namespace, Clock: time.Now}, client: client, dates: &dates{clock: time.Now}}
	c.readWorkload(ctx)
	c.seen.pods = slices.DeleteFunc(append([]corev1.Pod{}, pods...), func(p corev1.Pod) bool { // as readPods
		return p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
	})
	if c.seen.workload == nil {
		c.notInstalled()
	} else if c.pods(ctx); Count(c.findings, OK) > 0 {
		return nil
	}
	return fewer(c.findings)
}

// Fault says why the manager's container of a Pod does not run, and how to mend it; "" if
// it does, or begins to.
func Fault(pod *corev1.Pod) (what, mend string) {
	reason, evidence := fault(pod)
	if reason == "" {
		return "", ""
	}
	return words(reason, podName(pod), evidence, pod.Namespace)
}

// fault is the cause in the register, and the evidence.
func fault(pod *corev1.Pod) (reason, evidence string) {
	if pod.DeletionTimestamp != nil { // it ends as it should
		return "", ""
	}
	for _, s := range pod.Status.ContainerStatuses {
		if s.Name != managerName && len(pod.Status.ContainerStatuses) > 1 {
			continue // of somebody else, such as a proxy: the manager may answer
		}
		ended, waiting := s.State.Terminated, s.State.Waiting
		reason = report.PodEnded
		if waiting != nil && !begins(waiting) {
			reason, evidence, ended = report.PodNotRunning, strings.TrimSpace(waiting.Reason+" "+waiting.Message)+"; ", s.LastTerminationState.Terminated
			if ended == nil || waiting.Reason != crashLoop { // its image or its configuration is at fault, and no log says so
				return report.PodNotStarted, evidence + "image " + s.Image
			}
		}
		if ended != nil {
			return reason, evidence + fmt.Sprintf("exit code %d: %s", ended.ExitCode, strings.TrimSpace(ended.Reason+" "+ended.Message))
		}
	}
	return "", ""
}

// crashLoop is the kubelet's reason of a container that ends again and again.
const crashLoop = "CrashLoopBackOff"

func begins(waiting *corev1.ContainerStateWaiting) bool {
	return waiting.Reason == "ContainerCreating" || waiting.Reason == "PodInitializing"
}

// preparing reports whether the kubelet has not started the Pod's containers yet: it mounts
// their volumes, or pulls their images.
func preparing(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.ContainerStatuses, func(s corev1.ContainerStatus) bool {
		return s.State.Waiting != nil && begins(s.State.Waiting)
	})
}

// noneRuns reports whether no container of the manager runs: then the findings about its Pods
// are the cause of all silence.
func (c *checker) noneRuns() bool {
	if c.seen.pods == nil {
		return false
	}
	return !slices.ContainsFunc(c.ownPods(), up)
}

// up reports whether the manager's container of a Pod runs, by its status, or else by the
// phase.
func up(pod corev1.Pod) bool {
	all := pod.Status.ContainerStatuses
	return len(all) == 0 && pod.Status.Phase == corev1.PodRunning || slices.ContainsFunc(all, func(s corev1.ContainerStatus) bool {
		return s.State.Running != nil && (s.Name == managerName || len(all) == 1)
	})
}

// counts compares the number of Pods with the wanted number.
func (c *checker) counts(ctx context.Context, own int) {
	w := c.seen.workload
	switch {
	case w.kind == "Deployment" && w.replicas == 0:
		c.noReplicas(w)
	case !w.counted && own == 0:
		c.tell(report.NoPods, w.where(), "its controller has not counted how many it needs")
	case !w.counted:
	case w.wanted == 0 && w.kind == "DaemonSet":
		c.tell(report.NoNodeMatches, w.where(), fmt.Sprintf("nodeSelector %v", w.pod.Spec.NodeSelector))
	case w.made < w.wanted:
		refused, reason := w.refused, report.PodsMissing
		if refused == "" {
			refused = c.failedCreate(ctx, w)
		}
		if refused == "" { // the controller may be about to create them
			refused, reason = fmt.Sprintf("no Event of the last %v says why", createRetry), report.PodsAwaited
		}
		c.tell(reason, w.where(), fmt.Sprintf("it has %d of %d Pods: %s", w.made, w.wanted, refused))
	case own == 0:
		c.tell(report.NoPods, w.where(), fmt.Sprintf("it has %d Pods by its controller's count, and none with the label %s=%s that has not ended", w.made, nameLabel, managerName))
	}
}

// createRetry is a little more than the longest pause of kube-controller-manager between two
// attempts to create Pods. An older Event is about the past.
const createRetry = 20 * time.Minute

// failedCreate is the message of the latest Event about a failed creation of Pods, and its
// age; "" if none is recent.
func (c *checker) failedCreate(ctx context.Context, w *workload) (said string) {
	return c.lastEvent(ctx, fields.Set{"involvedObject.name": managerName, "involvedObject.kind": w.kind, "reason": "FailedCreate"}, createRetry, 1)
}

// mountRetry is a little more than the longest pause of a kubelet between two attempts to
// mount a volume.
const mountRetry = 3 * time.Minute

// warned is what the kubelet has said last of a Pod that it prepares. What failed once may be
// about to succeed, as a ConfigMap that it has not read yet.
func (c *checker) warned(ctx context.Context, pod *corev1.Pod) (said string) {
	return c.lastEvent(ctx, fields.Set{"involvedObject.uid": string(pod.UID), "type": corev1.EventTypeWarning}, mountRetry, 2)
}

// lastEvent is the message of the latest of some Events of failures, and its age; "" if none
// is as recent, and was seen so many times.
func (c *checker) lastEvent(ctx context.Context, which fields.Set, recent time.Duration, times int32) (said string) {
	now := c.dates.now()
	at := now.Add(-recent)
	err := each(ctx, c.client.CoreV1().Events(c.Namespace).List, metav1.ListOptions{FieldSelector: which.String()}, func(e *corev1.Event) {
		if e.LastTimestamp.After(at) && (strings.HasPrefix(e.Reason, "Failed") || e.Reason == "NetworkNotReady") && max(e.Count, 1) >= times {
			said, at = e.Message, e.LastTimestamp.Time
		}
	})
	if !c.readable("events in namespace "+c.Namespace, err) || said == "" {
		return ""
	}
	return fmt.Sprintf("%s (%v ago)", said, now.Sub(at).Round(time.Second))
}
