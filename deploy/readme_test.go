package deploy_test

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/wasm-ccm/wasm-ccm/host/test/hostconfig"
)

// readme is the text of all pages for operators.
func readme(t *testing.T) (text string) {
	t.Helper()
	for _, page := range docs(t) {
		text += read(t, page)
	}
	return text
}

// testReadmeConfiguration checks that what the pages show of a
// HostConfiguration is one.
func testReadmeConfiguration(t *testing.T) {
	blocks := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(readme(t), -1)
	block := func(begin string) string {
		for _, b := range blocks {
			if strings.HasPrefix(b[1], begin) {
				return b[1]
			}
		}
		t.Fatalf("no block of YAML begins with %q", begin)
		return ""
	}
	// The certificate is left out there, too.
	full := regexp.MustCompile(`(?m)^ +caBundle:.*\n.*\n`).ReplaceAllString(block("apiVersion: "), "")
	signed := regexp.MustCompile(`(?m)^  provenance: .*\n`).ReplaceAllLiteralString(full, block("  provenance:"))
	if full == signed {
		t.Error("the first block has no provenance")
	}
	logins := read(t, "../guests/upstream/vsphere/host.yaml") // to which a page leads
	for _, text := range []string{full, signed, logins} {
		if _, err := hostconfig.Decode([]byte(text)); err != nil {
			t.Errorf("%v\nof\n%s", err, text)
		}
	}
}

// testReadmeCommands runs those that look at a rollout and steer it.
func testReadmeCommands(t *testing.T, c cluster) {
	const name, prefix = "wasm-ccm-provider-static", "wasm-ccm.dev/"
	state := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
			prefix + "provider": "static", prefix + "phase": "Held", prefix + "reason": "ShadowDiffers", prefix + "generation": "7",
			prefix + "version": "1.2.3", prefix + "offered": "3f2a9c01d4e5", prefix + "serving": "0a1b2c3d4e5f", prefix + "since": "20261121T150405Z",
		}},
		Data: map[string]string{"status": "the status"},
	}
	configMaps := c.admin.CoreV1().ConfigMaps(namespace)
	if _, err := configMaps.Create(t.Context(), state, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	defer c.kubectl(t, "-n", namespace, "delete", "configmap", name)

	line := string(c.kubectl(t, command(t, "get configmap -l wasm-ccm.dev/provider -L wasm-ccm.dev/phase,wasm-ccm.dev/reason,wasm-ccm.dev/offered")...))
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

// command is the one of the pages that begins so, after the namespace.
func command(t *testing.T, begin string) []string {
	t.Helper()
	for line := range strings.Lines(readme(t)) {
		rest, ok := strings.CutPrefix(line, "    kubectl -n kube-system ")
		if ok && strings.HasPrefix(rest, begin) {
			return append([]string{"-n", namespace}, strings.Fields(rest)...)
		}
	}
	t.Fatalf("no page has kubectl -n kube-system %s", begin)
	return nil
}

// The limits of large modules that the page names are those of the guests' own files.
func TestReadmeSaysTheLimitsOfLargeModules(t *testing.T) {
	page := readme(t)
	files, err := filepath.Glob("../guests/upstream/*/host.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d files: %v", len(files), err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, limits := range regexp.MustCompile(`compile: (\{[^}]*\})`).FindAllSubmatch(data, -1) {
			if !strings.Contains(page, "`providers[].limits.compile` | `"+string(limits[1])+"`") {
				t.Errorf("%s has %s, the page something else", file, limits[1])
			}
		}
	}
}
