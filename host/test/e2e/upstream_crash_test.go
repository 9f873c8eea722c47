//go:build upstream

package e2e

import (
	"os"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const crashProvider = `
- name: crash
  source: {directory: $DIR}
  capabilities: [http_send, nodes, event, kube]
  limits: {instances: 2, memory: 128Mi, module: 128Mi, compile: {memory: 3Gi, cpu: 20m, wall: 20m, output: 512Mi}}
  rollout: {shadow: "Off", observe: "Off"}
`

// TestUpstreamCrashes: a panic and klog.Fatal of an upstream provider end its
// instance, with the stack in the manager's log, and nothing else.
func TestUpstreamCrashes(t *testing.T) {
	r := newRig(t, "crash")
	dir := t.TempDir()
	if err := os.WriteFile(dir+"/provider.wasm", r.wasm(t, "crash.wasm"), 0o600); err != nil {
		t.Fatal(err)
	}
	m := r.startManager(t, "a", r.hostConfiguration(t, strings.ReplaceAll(crashProvider, "$DIR", dir)))
	r.untilWithin(t.Context(), t, m, awsPatience, "the provider serves", m.readyz)
	for _, how := range []string{"panic", "goroutine", "fatal", ""} {
		s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "crash-" + how + "x", Annotations: map[string]string{"crash": how}}, Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeLoadBalancer, Ports: []corev1.ServicePort{{Port: 80}},
		}}
		if _, err := r.client.CoreV1().Services(r.namespace).Create(t.Context(), s, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	for what, words := range map[string][]string{
		"a panic":                {"the provider panics for crash-panicx", "panicInTheProvider", "crash/main.go:"},
		"a panic in a goroutine": {"the provider panics for crash-goroutinex"},
		"klog.Fatal":             {"the provider gives up on crash-fatalx: unexpected EOF", "fatalInTheProvider"},
	} {
		r.until(t.Context(), t, m, "the log tells of "+what, func() (bool, string) {
			log, err := os.ReadFile(m.logPath)
			if err != nil {
				return false, err.Error()
			}
			for _, word := range words {
				if !strings.Contains(string(log), word) {
					return false, "no " + word
				}
			}
			return true, ""
		})
	}
	r.until(t.Context(), t, m, "the Service beside them has its address", func() (bool, string) {
		s, err := r.client.CoreV1().Services(r.namespace).Get(t.Context(), "crash-x", metav1.GetOptions{})
		return err == nil && len(s.Status.LoadBalancer.Ingress) == 1, ""
	})
}
