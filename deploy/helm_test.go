package deploy_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

const (
	release = "ccm"
	chart   = "chart"
)

// helm runs Helm as an administrator does, in the namespace of the release.
func (c cluster) helm(t *testing.T, args ...string) []byte {
	t.Helper()
	out, err := c.tryHelm(t, args...)
	if err != nil {
		t.Fatalf("helm %q: %v", args, err)
	}
	return out
}

func (c cluster) tryHelm(t *testing.T, args ...string) ([]byte, error) {
	t.Helper()
	cmd := helmCommand(t, args...)
	cmd.Env = append(cmd.Env, "KUBECONFIG="+c.kubeconfig)
	return outputOf(cmd)
}

// install makes the release what the chart makes of the values. Without
// --reset-values Helm takes those of before where there are none.
func (c cluster) install(t *testing.T, values ...string) {
	t.Helper()
	c.helm(t, append([]string{"upgrade", "--install", "--reset-values", release, chart}, valueFlags(values)...)...)
}

// render is what Helm makes of the chart without a cluster.
func render(t *testing.T, values ...string) []byte {
	t.Helper()
	out, err := tryRender(t, values...)
	if err != nil {
		t.Fatalf("helm template of %q: %v", values, err)
	}
	return out
}

func tryRender(t *testing.T, values ...string) ([]byte, error) {
	t.Helper()
	return outputOf(helmCommand(t, append([]string{"template", release, chart}, valueFlags(values)...)...))
}

// valueFlags are for files with values, for single ones (name=value), and for
// flags.
func valueFlags(values []string) (flags []string) {
	for _, v := range values {
		if strings.HasPrefix(v, "--") {
			flags = append(flags, v)
		} else if strings.Contains(v, "=") {
			flags = append(flags, "--set", v)
		} else {
			flags = append(flags, "-f", v)
		}
	}
	return flags
}

func helmCommand(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	binary := filepath.Join(os.Getenv("KUBEBUILDER_ASSETS"), "helm")
	if _, err := os.Stat(binary); err != nil {
		t.Fatalf("%v: run `make helm`", err)
	}
	cmd := exec.CommandContext(t.Context(), binary, append([]string{"--namespace", namespace}, args...)...)
	cmd.Env = helmEnv(t)
	return cmd
}

// helmEnv keeps Helm from what the user of this machine has set.
func helmEnv(t *testing.T) []string {
	dir := t.TempDir()
	return append(os.Environ(), "HELM_CONFIG_HOME="+dir, "HELM_CACHE_HOME="+dir, "HELM_DATA_HOME="+dir)
}

func outputOf(cmd *exec.Cmd) ([]byte, error) {
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return nil, &commandError{err, strings.TrimSpace(stderr.String())}
	}
	return stdout.Bytes(), nil
}

// commandError has what a command wrote about its end.
type commandError struct {
	error
	stderr string
}

func (e *commandError) Error() string { return e.error.Error() + ": " + e.stderr }
func (e *commandError) Unwrap() error { return e.error }

// examples are the files with values that the chart ships, and "" for none.
func examples(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob(chart + "/examples/*.yaml")
	if err != nil || len(files) < 5 {
		t.Fatalf("%d examples, %v", len(files), err)
	}
	return append([]string{""}, files...)
}

// nameOf is the name of a subtest.
func nameOf(example string) string {
	if example == "" {
		return "default"
	}
	return strings.TrimSuffix(filepath.Base(example), ".yaml")
}

// with are the values of an example.
func with(example string) []string {
	if example == "" {
		return nil
	}
	return []string{example}
}

// objects are those of rendered manifests.
func objects(t *testing.T, rendered []byte) (all []unstructured.Unstructured) {
	t.Helper()
	for _, document := range bytes.Split(rendered, []byte("\n---\n")) {
		var object unstructured.Unstructured
		if err := yaml.Unmarshal(document, &object.Object); err != nil {
			t.Fatalf("%v in\n%s", err, document)
		}
		if object.Object != nil {
			all = append(all, object)
		}
	}
	return all
}

// hostConfiguration is the file that the manager reads.
func hostConfiguration(t *testing.T, rendered []byte) []byte {
	t.Helper()
	for _, document := range bytes.Split(rendered, []byte("\n---\n")) {
		var object corev1.ConfigMap
		if yaml.Unmarshal(document, &object) == nil && object.Kind == "ConfigMap" && object.Name == manager {
			return []byte(object.Data["config.yaml"])
		}
	}
	t.Fatal("no HostConfiguration")
	return nil
}

// What Helm says after an installation is the next command, with what is still
// missing.
func TestNotes(t *testing.T) {
	depend(t)
	for example, want := range map[string]string{
		"chart/examples/static.yaml":    "kubectl -n kube-system create configmap cloud-provider-static --from-file=provider.wasm=MODULE\n",
		"chart/examples/providers.yaml": "kubectl -n kube-system create configmap cloud-provider-openstack --from-file=provider.wasm=MODULE --from-file=config.yaml=CONFIGURATION\n",
		"chart/examples/oci.yaml":       "rollout status daemonset/cloud-controller-manager",
	} {
		out, err := outputOf(helmCommand(t, "install", release, chart, "--dry-run=client", "-f", example))
		if _, notes, _ := strings.Cut(string(out), "\nNOTES:\n"); err != nil || !strings.Contains(notes, want) {
			t.Errorf("%s: %v, the notes are\n%s", example, err, notes)
		}
	}
}
