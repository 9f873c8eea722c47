package manager

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ccmconfig "k8s.io/cloud-provider/app/config"
	"k8s.io/klog/v2"

	"github.com/wasm-ccm/wasm-ccm/host/internal/report"
	"github.com/wasm-ccm/wasm-ccm/host/internal/text"
)

// eventCannotStart is the reason of the Event of a manager that fails to start.
const eventCannotStart = report.CannotStart

// startFailedTimeout bounds that report; the kubelet starts the next process.
const startFailedTimeout = 5 * time.Second

// startFailed makes an Event with the reason why this manager ends, on its
// lease: with an unreadable HostConfiguration the providers are unknown. The
// Event must reach the API server before the process ends, so it uses no
// recorder.
func startFailed(ctx context.Context, c *ccmconfig.CompletedConfig, cause error) {
	ctx, cancel := context.WithTimeout(ctx, startFailedTimeout)
	defer cancel()
	client, err := newClient(c.Kubeconfig)
	if err == nil {
		lease := c.ComponentConfig.Generic.LeaderElection
		_, err = client.CoreV1().Events(lease.ResourceNamespace).Create(ctx, cannotStart(lease.ResourceNamespace, lease.ResourceName, cause), metav1.CreateOptions{})
	}
	if err != nil {
		klog.FromContext(ctx).Error(err, "The Event CannotStart was not written")
	}
}

func cannotStart(namespace, lease string, cause error) *corev1.Event {
	now := metav1.Now()
	return &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{GenerateName: lease + ".", Namespace: namespace},
		InvolvedObject: corev1.ObjectReference{APIVersion: "coordination.k8s.io/v1", Kind: "Lease", Namespace: namespace, Name: lease},
		Type:           corev1.EventTypeWarning, Reason: eventCannotStart, Message: text.Line(fmt.Sprintf("the manager cannot start: %v", cause), maxEventBytes),
		Source: corev1.EventSource{Component: component}, FirstTimestamp: now, LastTimestamp: now, Count: 1,
	}
}
