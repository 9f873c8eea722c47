package deploy_test

import (
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/wasm-ccm/wasm-ccm/host/config/v1alpha1"
)

func readme(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// testReadmeConfiguration checks that what README.md shows of a
// HostConfiguration is one.
func testReadmeConfiguration(t *testing.T) {
	blocks := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(readme(t), -1)
	if len(blocks) < 2 {
		t.Fatalf("%d blocks of YAML", len(blocks))
	}
	// The certificate is left out there, too.
	full := regexp.MustCompile(`(?m)^ +caBundle:.*\n.*\n`).ReplaceAllString(blocks[0][1], "")
	signed := regexp.MustCompile(`(?m)^  provenance: .*\n`).ReplaceAllLiteralString(full, blocks[1][1])
	if full == signed {
		t.Error("the first block has no provenance")
	}
	for _, text := range []string{full, signed} {
		if _, err := v1alpha1.Decode([]byte(text)); err != nil {
			t.Errorf("%v\nof\n%s", err, text)
		}
	}
}

// testReadmeCommands runs those that look at a rollout and steer it.
func testReadmeCommands(t *testing.T, c cluster) {
	const name, prefix = "wasm-ccm-provider-provider", "wasm-ccm.dev/"
	state := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
			prefix + "provider": "provider", prefix + "phase": "Held", prefix + "reason": "ShadowDiffers", prefix + "generation": "7",
			prefix + "version": "1.2.3", prefix + "offered": "3f2a9c01d4e5", prefix + "serving": "0a1b2c3d4e5f", prefix + "since": "20261121T150405Z",
		}},
		Data: map[string]string{"status": "the status"},
	}
	configMaps := c.admin.CoreV1().ConfigMaps(namespace)
	if _, err := configMaps.Create(t.Context(), state, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	defer c.kubectl(t, "-n", namespace, "delete", "configmap", name)

	line := string(c.kubectl(t, command(t, "get configmap -l")...))
	for _, value := range state.Labels {
		if !strings.Contains(line, value) {
			t.Errorf("no %q in\n%s", value, line)
		}
	}
	if got := string(c.kubectl(t, command(t, "get configmap "+name)...)); got != "'the status'" {
		t.Errorf("the status is shown as %s", got)
	}
	for _, test := range []struct{ annotation, argument string }{{"pause", "pause="}, {"", "pause-"}, {"promote", "promote="}, {"rollback", "rollback=true"}} {
		c.kubectl(t, command(t, "annotate configmap "+name+" "+prefix+test.argument)...)
		got, err := configMaps.Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		var want []string
		if test.annotation != "" {
			want = []string{prefix + test.annotation}
		}
		if diff := cmp.Diff(want, slices.Collect(maps.Keys(got.Annotations))); diff != "" {
			t.Errorf("annotations after %s (-want +got):\n%s", test.argument, diff)
		}
		got.Annotations = nil // as the manager does
		if _, err := configMaps.Update(t.Context(), got, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
}

// command is the one of README.md that begins so, after the namespace.
func command(t *testing.T, begin string) []string {
	t.Helper()
	for line := range strings.Lines(readme(t)) {
		rest, ok := strings.CutPrefix(line, "    kubectl -n kube-system ")
		if ok && strings.HasPrefix(rest, begin) {
			return append([]string{"-n", namespace}, strings.Fields(rest)...)
		}
	}
	t.Fatalf("README.md has no kubectl -n kube-system %s", begin)
	return nil
}
