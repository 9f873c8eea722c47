package manager

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"

	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/trial"
	"github.com/wasm-ccm/wasm-ccm/host/internal/manager/trials"
	"github.com/wasm-ccm/wasm-ccm/host/internal/text"
)

// The environment variables by which the downward API identifies this process's
// Pod.
const (
	podName      = "POD_NAME"
	podNamespace = "POD_NAMESPACE"
)

const (
	// podTimeout bounds the start's wait for the Pod: the kubelet may report an
	// end to the API server after the next process has started.
	podTimeout = 5 * time.Second
	podRetry   = 250 * time.Millisecond
	// maxSaid bounds the quotation of the kubelet's message, in bytes.
	maxSaid = 256
)

// pod is the Pod of this process; without a name it is unknown.
type pod struct {
	client          kubernetes.Interface
	namespace, name string
}

// ownPod reads the Pod from an environment.
func ownPod(client kubernetes.Interface, environment func(string) string) pod {
	return pod{client, environment(podNamespace), environment(podName)}
}

// ended reads the kubelet's report about the end of the process that left a
// mark. An unreadable Pod gives no report.
func (p pod) ended(ctx context.Context, left trial.Mark) (said trials.Said) {
	if p.namespace == "" || left.Pod == "" {
		return trials.Said{}
	}
	ctx, cancel := context.WithTimeout(ctx, podTimeout)
	defer cancel()
	err := wait.PollUntilContextCancel(ctx, podRetry, true, func(ctx context.Context) (bool, error) {
		found, err := p.client.CoreV1().Pods(p.namespace).Get(ctx, left.Pod, metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		said = saidOf(found, left)
		return said.Text != "" || left.Pod != p.name, nil
	})
	if err != nil {
		klog.FromContext(ctx).Info("Cannot read the kubelet's record of the previous manager's end", "pod", klog.KRef(p.namespace, left.Pod), "reason", err)
	}
	return said
}

// saidOf finds the report about the end of the process that left a mark.
func saidOf(p *corev1.Pod, left trial.Mark) trials.Said {
	said, words := trials.Said{}, ""
	if p.Status.Phase == corev1.PodFailed && p.Status.Reason != "" {
		words = ", " + p.Status.Reason // such as Evicted: nothing runs in it any more
	}
	if end := terminated(p.Status.ContainerStatuses, left); end != nil {
		if end.Reason != "" {
			words += ", " + end.Reason
		}
		words += fmt.Sprintf(", exit code %d, finished at %s", end.ExitCode, end.FinishedAt.UTC().Format(time.RFC3339))
		said.Began = end.StartedAt.Time
		// With several containers it is unknown which one was the manager.
		said.Orderly = end.ExitCode == 0 && end.Signal == 0 && !end.StartedAt.IsZero() && len(p.Status.ContainerStatuses) == 1
	}
	if words != "" {
		said.Text = text.Line("the kubelet says: "+words[len(", "):], maxSaid)
	}
	return said
}

// terminated is the newest end of a container during whose life a mark was
// made, or nil: other ends concern other processes.
func terminated(all []corev1.ContainerStatus, left trial.Mark) *corev1.ContainerStateTerminated {
	var ends []*corev1.ContainerStateTerminated
	for i := range all {
		// The kubelet moves it from the first to the second.
		for _, state := range []*corev1.ContainerState{&all[i].State, &all[i].LastTerminationState} {
			if end := state.Terminated; end != nil && !left.Since.Before(end.StartedAt.Time) && !end.FinishedAt.Time.Before(left.Since) {
				ends = append(ends, end)
			}
		}
	}
	if len(ends) == 0 {
		return nil
	}
	return slices.MaxFunc(ends, func(a, b *corev1.ContainerStateTerminated) int { return a.FinishedAt.Compare(b.FinishedAt.Time) })
}
