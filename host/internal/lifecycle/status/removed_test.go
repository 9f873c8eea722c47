package status_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/utils/clock"

	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/status"
)

// kept is the ConfigMap of a provider whose status says so.
func kept(name, text string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: status.Name(name), Labels: map[string]string{status.LabelProvider: name, status.LabelPhase: "Kept"}},
		Data:       map[string]string{"status": text, "record": "{}"},
	}
}

func TestAProviderThatIsNotConfiguredAnyMoreIsRemoved(t *testing.T) {
	client := fake.NewClientset(kept("blue", "phase: Kept\noffered: {name: openstack, version: v2}\nserving: {name: openstack, version: v1}\ngood: {name: openstack, version: v1}\ngeneration: 7\nproviders: [blue, red]\nconditions: [{type: Serving, status: \"True\", reason: Kept}]\n"))
	blue := status.New(client, namespace, "blue", clock.RealClock{})
	removed, err := blue.Remove(t.Context(), "nobody wants it")
	if err != nil || !removed {
		t.Fatalf("removed %v, %v", removed, err)
	}
	cm, err := client.CoreV1().ConfigMaps(namespace).Get(t.Context(), status.Name("blue"), metav1.GetOptions{})
	must(t, err)
	text := cm.Data["status"]
	for _, want := range []string{"phase: Removed", "reason: NotConfigured", "message: nobody wants it", "good:", `status: "False"`} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if strings.Contains(text, "serving:") || strings.Contains(text, "offered:") || cm.Labels[status.LabelPhase] != "Removed" || cm.Data["record"] != "{}" {
		t.Errorf("labels %v, record %q, status\n%s", cm.Labels, cm.Data["record"], text)
	}
	if removed, err := blue.Remove(t.Context(), "again"); err != nil || removed {
		t.Errorf("once more: %v, %v", removed, err)
	}
	nobody := status.New(client, namespace, "nobody", clock.RealClock{})
	if removed, err := nobody.Remove(t.Context(), "never there"); err != nil || removed {
		t.Errorf("a status that there was none of: %v, %v", removed, err)
	}
	if _, err := client.CoreV1().ConfigMaps(namespace).Get(t.Context(), status.Name("nobody"), metav1.GetOptions{}); err == nil {
		t.Error("it was made")
	}
}

func TestWhichProvidersWereConfigured(t *testing.T) {
	for text, want := range map[string]string{
		"phase: Kept\nproviders: [red, blue, red]\n": "blue red",
		"providers: [\"../x\", \"A\", \"\", red]\n":  "red",
		"phase: Kept\n":            "",
		"no: [yaml":                "",
		strings.Repeat("x", 1<<20): "",
		"providers: [" + strings.Repeat("a,", 1000) + "b]": "a b",
	} {
		got, err := status.New(fake.NewClientset(kept("red", text)), namespace, "red", clock.RealClock{}).Providers(t.Context())
		if err != nil || strings.Join(got, " ") != want {
			t.Errorf("%.60q: %q, %v; want %q", text, got, err, want)
		}
	}
	if got, err := status.New(fake.NewClientset(), namespace, "red", clock.RealClock{}).Providers(t.Context()); err != nil || got != nil {
		t.Errorf("without a status: %q, %v", got, err)
	}
}
