package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	restclient "k8s.io/client-go/rest"
)

// Without a running manager the error is one line with the reason, and no such Pod is asked.
func TestNobody(t *testing.T) {
	meta := metav1.TypeMeta{Kind: "DaemonSet", APIVersion: "apps/v1"}
	waiting := func(phase corev1.PodPhase, reason string) corev1.Pod {
		return corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "kube-system", Labels: map[string]string{"app.kubernetes.io/name": managerName}}, Status: corev1.PodStatus{Phase: phase,
			ContainerStatuses: []corev1.ContainerStatus{{Image: "i", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason}},
				LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 1, Message: "no provider\nat all"}}}}}}
	}
	for name, test := range map[string]struct {
		pods   []corev1.Pod
		status appsv1.DaemonSetStatus
		want   string
	}{
		"not installed":   {nil, appsv1.DaemonSetStatus{ObservedGeneration: -1}, "or --server for one in no Pod"},
		"no node matches": {nil, appsv1.DaemonSetStatus{ObservedGeneration: 1}, "0 of 0 Pods: no Node matches"},
		"no image":        {[]corev1.Pod{waiting(corev1.PodPending, "ErrImagePull")}, appsv1.DaemonSetStatus{ObservedGeneration: 1, DesiredNumberScheduled: 1, CurrentNumberScheduled: 1}, "ErrImagePull"},
		"it cannot start": {[]corev1.Pod{waiting(corev1.PodRunning, "CrashLoopBackOff")}, appsv1.DaemonSetStatus{}, "pod p: the manager has ended, and does not run: CrashLoopBackOff; exit code 1: no provider; at all"},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			switch {
			case strings.HasSuffix(r.URL.Path, "/pods"):
				_ = json.NewEncoder(w).Encode(corev1.PodList{TypeMeta: metav1.TypeMeta{Kind: "PodList", APIVersion: "v1"}, Items: test.pods})
			case strings.HasSuffix(r.URL.Path, "/daemonsets/"+managerName) && test.status.ObservedGeneration >= 0:
				_ = json.NewEncoder(w).Encode(appsv1.DaemonSet{TypeMeta: meta, Status: test.status})
			case strings.HasSuffix(r.URL.Path, "/token"):
				_, _ = w.Write([]byte(`{"kind": "TokenRequest", "apiVersion": "authentication.k8s.io/v1", "status": {"token": "t"}}`))
			default:
				w.WriteHeader(http.StatusNotFound)
				_, _ = w.Write([]byte(`{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "code": 404}`))
			}
		}))
		config := &restclient.Config{Host: server.URL}
		c := &cluster{config: config, client: kubernetes.NewForConfigOrDie(config), namespace: "kube-system"}
		_, err := c.connect(t.Context(), true)
		if err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "\n") || strings.Contains(err.Error(), "(-f)") {
			t.Errorf("%s: %v", name, err)
		}
		server.Close()
	}
}
