// Package deploy_test applies the chart to a real kube-apiserver and checks
// what the manager may do with them, and that it works with no more than that.
package deploy_test

import (
	"bytes"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
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

// cluster is a control plane with RBAC and one identity: its administrator.
type cluster struct {
	config     *rest.Config
	admin      kubernetes.Interface
	binary     string // kubectl
	kubeconfig string
}

func start(t *testing.T, configure ...func(*envtest.APIServer)) cluster {
	t.Helper()
	assets := os.Getenv("KUBEBUILDER_ASSETS")
	if _, err := os.Stat(filepath.Join(assets, "kube-apiserver")); err != nil {
		t.Fatalf("%v: run `make control-plane` and set KUBEBUILDER_ASSETS to build/bin", err)
	}
	logf.SetLogger(logr.Discard())
	env := &envtest.Environment{BinaryAssetsDirectory: assets}
	for _, change := range configure {
		change(env.ControlPlane.GetAPIServer())
	}
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

// depend opens every file of the chart: Helm and kubectl read them, which go
// test does not see, and it would say of changed ones what it remembers of those
// before.
func depend(t *testing.T) {
	t.Helper()
	n := 0
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) == ".go" {
			return err
		}
		n++
		_, err = os.ReadFile(path)
		return err
	})
	if err != nil || n < 15 {
		t.Fatalf("%d files, %v", n, err)
	}
}

// The chart is applied to a real API server with each example of its values, one
// after the other, so that each is an upgrade of the one before, too.
func TestDeploy(t *testing.T) {
	if testing.Short() {
		t.Skip("make test-all runs it")
	}
	depend(t)
	c := start(t)
	c.kubectl(t, "apply", "-f", "testdata/monitoring.yaml")
	c.kubectl(t, "wait", `--for=jsonpath={.status.conditions[?(@.type=="Established")].status}=True`, "--timeout=1m", "-f", "testdata/monitoring.yaml")
	for _, example := range append(examples(t), "") {
		t.Run(nameOf(example), func(t *testing.T) {
			c.install(t, with(example)...)
			testPod(t, c, render(t, with(example)...))
			testConfiguration(t, example)
			testGranted(t, c, example)
		})
	}
	t.Run("again changes nothing", func(t *testing.T) { testAgain(t, c) })
	t.Run("configuration of the pages", testReadmeConfiguration)
	t.Run("commands of the pages", func(t *testing.T) { testReadmeCommands(t, c) })
	t.Run("allowed and denied", func(t *testing.T) { testAllowed(t, c) })
	t.Run("token of another account", func(t *testing.T) { testTokens(t, c) })
	t.Run("manager", func(t *testing.T) { testManager(t, c) })
	t.Run("manager with CloudProviders", func(t *testing.T) { testCloudProviders(t, c) })
	c.install(t, "chart/examples/providers.yaml")
	t.Run("the label of a Service's owner", func(t *testing.T) { testOwner(t, c) })
}

// testAgain upgrades to the same values.
func testAgain(t *testing.T, c cluster) {
	state := func() string {
		return string(c.kubectl(t, "get", "--all-namespaces", "-l", "app.kubernetes.io/part-of=wasm-ccm", "-o", `jsonpath={range .items[*]}{.kind}/{.metadata.name} {.metadata.resourceVersion}{"\n"}{end}`,
			"serviceaccounts,configmaps,clusterroles,clusterrolebindings,roles,rolebindings,daemonsets"))
	}
	before := state()
	if strings.Count(before, "\n") < 20 {
		t.Fatalf("the release is\n%s", before)
	}
	c.install(t)
	if diff := cmp.Diff(before, state()); diff != "" {
		t.Errorf("the same values again (-before +after):\n%s", diff)
	}
}

// kubectl apply -k deploy/ is the chart with its default values.
func TestManifestsAreTheChart(t *testing.T) {
	depend(t)
	got, err := os.ReadFile("manifests.yaml")
	if err != nil {
		t.Fatal(err)
	}
	_, got, _ = bytes.Cut(got, []byte("\n")) // says what made it
	if diff := cmp.Diff(string(render(t)), string(got)); diff != "" {
		t.Errorf("manifests.yaml is stale: run make chart (-chart +manifests.yaml):\n%s", diff)
	}
}

// testPod lets the API server check a Pod of the template, since it checks less
// of a template, and what the container is confined by.
func testPod(t *testing.T, c cluster, rendered []byte) {
	template := podTemplate(t, rendered)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{GenerateName: "ccm-", Namespace: namespace}, Spec: template.Spec}
	pod, err := c.admin.CoreV1().Pods(namespace).Create(t.Context(), pod, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	if err != nil {
		t.Fatal(err)
	}
	if pod.Spec.Priority == nil || *pod.Spec.Priority < 2_000_000_000 {
		t.Errorf("priority %v, want that of system-node-critical", pod.Spec.Priority)
	}
	checkConfined(t, pod.Spec)
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
