// Package deploy_test applies the manifests to a real kube-apiserver and checks
// what the manager may do with them, and that it works with no more than that.
package deploy_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/yaml"
)

const (
	namespace = "kube-system"
	manager   = "cloud-controller-manager"
)

// variants are those beside the one that is applied for real.
func variants() []string {
	return []string{"deployment", "volume", "imagevolume", "modules", "config", "providers"}
}

// cluster is a control plane with RBAC and one identity: its administrator.
type cluster struct {
	config     *rest.Config
	admin      kubernetes.Interface
	binary     string // kubectl
	kubeconfig string
}

func start(t *testing.T) cluster {
	t.Helper()
	assets := os.Getenv("KUBEBUILDER_ASSETS")
	if _, err := os.Stat(filepath.Join(assets, "kube-apiserver")); err != nil {
		t.Fatalf("%v: run `make control-plane` and set KUBEBUILDER_ASSETS to build/bin", err)
	}
	logf.SetLogger(logr.Discard())
	env := &envtest.Environment{BinaryAssetsDirectory: assets}
	config, err := env.Start()
	if err != nil {
		t.Fatalf("starting the control plane: %v", err)
	}
	t.Cleanup(func() {
		if err := env.Stop(); err != nil {
			t.Errorf("stopping the control plane: %v", err)
		}
	})
	admin, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	kubeconfig := filepath.Join(t.TempDir(), "admin.kubeconfig")
	if err := os.WriteFile(kubeconfig, env.KubeConfig, 0o600); err != nil {
		t.Fatal(err)
	}
	return cluster{config: config, admin: admin, binary: filepath.Join(assets, "kubectl"), kubeconfig: kubeconfig}
}

func (c cluster) kubectl(t *testing.T, args ...string) []byte {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), c.binary, append([]string{"--kubeconfig", c.kubeconfig}, args...)...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		t.Fatalf("kubectl %q: %v: %s", args, err, stderr.Bytes())
	}
	return stdout.Bytes()
}

// depend opens every manifest: kubectl reads them, which go test does not see,
// and it would say of changed ones what it remembers of those before.
func depend(t *testing.T) {
	t.Helper()
	manifests, err := filepath.Glob("*/*.yaml")
	if err != nil || len(manifests) == 0 {
		t.Fatalf("%d manifests, %v", len(manifests), err)
	}
	for _, name := range append(manifests, "kustomization.yaml") {
		if _, err := os.ReadFile(name); err != nil {
			t.Fatal(err)
		}
	}
}

func TestDeploy(t *testing.T) {
	if testing.Short() {
		t.Skip("make test-all runs it")
	}
	depend(t)
	c := start(t)
	// A dry run makes no namespace for what is to be in it.
	c.kubectl(t, "apply", "-f", "modules/namespace.yaml")
	// The others first, by dry run, so that nothing of them is left.
	for _, variant := range variants() {
		t.Run(variant, func(t *testing.T) { c.kubectl(t, "apply", "--dry-run=server", "-k", variant) })
	}
	c.kubectl(t, "apply", "-k", ".")
	t.Run("again changes nothing", func(t *testing.T) {
		for _, line := range bytes.Split(bytes.TrimSpace(c.kubectl(t, "apply", "-k", ".")), []byte("\n")) {
			if !bytes.HasSuffix(line, []byte(" unchanged")) {
				t.Errorf("applied again: %s", line)
			}
		}
	})
	t.Run("example", func(t *testing.T) { testExample(t, c) })
	for _, variant := range []string{"config", "providers"} {
		t.Run("configuration of "+variant, func(t *testing.T) { testConfiguration(t, c, variant) })
	}
	t.Run("configuration of the README", testReadmeConfiguration)
	t.Run("commands of the README", func(t *testing.T) { testReadmeCommands(t, c) })
	t.Run("the shipped workload", func(t *testing.T) { testShipped(t, c) })
	t.Run("pods", func(t *testing.T) { testPods(t, c) })
	t.Run("granted", func(t *testing.T) { testGranted(t, c) })
	t.Run("allowed and denied", func(t *testing.T) { testAllowed(t, c) })
	t.Run("the label of a Service's owner", func(t *testing.T) { testOwner(t, c) })
	t.Run("token of another account", func(t *testing.T) { testTokens(t, c) })
	t.Run("manager", func(t *testing.T) { testManager(t, c) })
}

// testExample applies example/ with a module of 700 KB, which is what TinyGo
// makes of the largest guest that is to fit uncompressed.
func testExample(t *testing.T, c cluster) {
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("example")); err != nil {
		t.Fatal(err)
	}
	module := bytes.Repeat([]byte("\x00asm\x01\x00\x00\xff"), 700<<10/8) // not text, as every real module
	if err := os.WriteFile(filepath.Join(dir, "provider.wasm"), module, 0o600); err != nil {
		t.Fatal(err)
	}
	var got corev1.ConfigMap
	if err := yaml.Unmarshal(c.kubectl(t, "apply", "--server-side", "--dry-run=server", "-o", "yaml", "-k", dir), &got); err != nil {
		t.Fatal(err)
	}
	if got.Name != "cloud-provider" || !bytes.Equal(got.BinaryData["provider.wasm"], module) || got.Data["config.yaml"] == "" {
		t.Errorf("ConfigMap %s with %d bytes of module and configuration %q", got.Name, len(got.BinaryData["provider.wasm"]), got.Data["config.yaml"])
	}
}

// testPods lets the API server check a Pod of each variant's template, since
// it checks less of a template, and what the container is confined by.
func testPods(t *testing.T, c cluster) {
	for _, variant := range append(variants(), ".") {
		t.Run(variant, func(t *testing.T) {
			template := podTemplate(t, c.kubectl(t, "kustomize", variant))
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{GenerateName: "ccm-", Namespace: namespace}, Spec: template.Spec}
			pod, err := c.admin.CoreV1().Pods(namespace).Create(t.Context(), pod, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
			if err != nil {
				t.Fatal(err)
			}
			if pod.Spec.Priority == nil || *pod.Spec.Priority < 2_000_000_000 {
				t.Errorf("priority %v, want that of system-node-critical", pod.Spec.Priority)
			}
			checkConfined(t, pod.Spec)
		})
	}
}

func checkConfined(t *testing.T, spec corev1.PodSpec) {
	t.Helper()
	if s := spec.SecurityContext; s.RunAsNonRoot == nil || !*s.RunAsNonRoot || *s.RunAsUser != 65532 || s.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault {
		t.Errorf("pod security context %+v: want user 65532 and RuntimeDefault", s)
	}
	s := spec.Containers[0].SecurityContext
	if !*s.ReadOnlyRootFilesystem || *s.AllowPrivilegeEscalation || s.Privileged != nil || len(s.Capabilities.Add) > 0 || len(s.Capabilities.Drop) != 1 || s.Capabilities.Drop[0] != "ALL" {
		t.Errorf("container security context %+v", s)
	}
	for _, volume := range spec.Volumes {
		if volume.HostPath != nil {
			t.Errorf("volume %s is a path of the host", volume.Name)
		}
	}
}

// podTemplate is that of the only workload in rendered manifests.
func podTemplate(t *testing.T, rendered []byte) corev1.PodTemplateSpec {
	t.Helper()
	var found []corev1.PodTemplateSpec
	for _, document := range bytes.Split(rendered, []byte("\n---\n")) {
		// Deployment and DaemonSet have the template at the same place.
		var workload appsv1.Deployment
		if err := yaml.Unmarshal(document, &workload); err != nil {
			continue // another kind
		}
		if workload.Kind == "Deployment" || workload.Kind == "DaemonSet" {
			found = append(found, workload.Spec.Template)
		}
	}
	if len(found) != 1 {
		t.Fatalf("%d workloads, want 1", len(found))
	}
	return found[0]
}

// built is a file that the Makefile builds.
func built(t *testing.T, name string) string {
	t.Helper()
	dir := os.Getenv("CCM_BUILD")
	if dir == "" {
		dir = filepath.Join("..", "build")
	}
	path, err := filepath.Abs(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("%v: run `make build guests` first, or set CCM_BUILD", err)
	}
	return path
}
