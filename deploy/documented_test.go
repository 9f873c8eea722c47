package deploy_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/wasm-ccm/wasm-ccm/host/test/devregistry"
)

// native is the manager that a page replaces.
const native = "openstack-cloud-controller-manager"

// asksManager are the commands of ccmctl that wait for the answer of a manager.
var asksManager = regexp.MustCompile(`^build/ccmctl (status|why \w+|calls|dashboard|bundle|check|dev|rollout \w+)`)

// elsewhere are the commands of the documents that need more than an API server,
// by how they begin, and why.
func elsewhere() map[string]string {
	return map[string]string{
		"make ":                     "it has run before the test; make -n looks whether there is such a target",
		"ctr ":                      "containerd, on a node",
		"cosign ":                   "a program that Debian does not have; its signatures are in the tests of host/internal/lifecycle/provenance",
		"kubectl delete namespace ": "the controller of namespaces, without which the command waits for ever",
		"kubectl -n kube-system delete daemonset": "the garbage collector, for which the command waits: TestNode (make test-node) runs it",
	}
}

// begins are the pages that begin with a cluster without a manager, and pages
// that need another state than an installed one.
func begins() map[string]bool {
	return map[string]bool{"../README.md": true, "docs/install.md": true, "docs/without-helm.md": true, "docs/bare-metal.md": true, "docs/move-from-native.md": true}
}

// TestDocumentedCommands runs every command of README.md and of the pages in docs
// as it stands, in the order of the page, in a copy of the repository, by an
// administrator of a real API server. Each page is run for itself: where a person
// would have an installed manager, there is one.
func TestDocumentedCommands(t *testing.T) {
	if testing.Short() {
		t.Skip("make test-all runs it")
	}
	depend(t)
	c := start(t)
	for _, name := range []string{"cp-1", "worker-1"} {
		if _, err := c.admin.CoreV1().Nodes().Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	createService(t, c)
	requestCertificate(t, c)
	found := 0
	for _, document := range append([]string{"../README.md", "README.md"}, docs(t)...) {
		commands := commandsOf(t, document)
		found += len(commands)
		t.Run(filepath.Clean(document), func(t *testing.T) {
			if len(commands) > 0 {
				c.follow(t, document, commands)
			}
		})
	}
	if found < 80 {
		t.Errorf("only %d commands: are they read rightly?", found)
	}
}

// follow does what a page says, and takes everything away that it left.
func (c cluster) follow(t *testing.T, document string, commands []string) {
	t.Helper()
	dir := checkout(t)
	t.Setenv("REGISTRY", "")
	if !begins()[filepath.ToSlash(document)] {
		c.kubectl(t, "-n", namespace, "create", "configmap", "cloud-provider-static", "--from-file=provider.wasm="+filepath.Join(dir, "build", "static.wasm"))
		c.install(t, "chart/examples/static.yaml")
	}
	defer func() {
		c.helm(t, "uninstall", release, "--ignore-not-found")
		c.kubectl(t, "-n", namespace, "delete", "--ignore-not-found", "configmap", "cloud-provider-static", "cloud-config")
		c.kubectl(t, "-n", namespace, "delete", "--ignore-not-found", "daemonset", native)
	}()
	for _, command := range commands {
		c.prepare(t, command)
		c.shell(t, dir, command)
	}
}

// docs are the pages for operators.
func docs(t *testing.T) []string {
	t.Helper()
	found, err := filepath.Glob("docs/*.md")
	if err != nil || len(found) < 10 {
		t.Fatalf("%d pages, %v", len(found), err)
	}
	return found
}

// shell runs a command as a person does who has just read it.
func (c cluster) shell(t *testing.T, dir, command string) {
	t.Helper()
	if words := asksManager.FindString(command); words != "" {
		helps(t, words, command)
		return
	}
	for begin := range elsewhere() {
		if strings.HasPrefix(command, begin) {
			if target, ok := strings.CutPrefix(command, "make "); ok {
				makes(t, target)
			}
			return
		}
	}
	cmd := exec.CommandContext(t.Context(), "bash", "-euo", "pipefail", "-c", command)
	cmd.Dir = dir
	cmd.Env = append(helmEnv(t), "KUBECONFIG="+c.kubeconfig, "PATH="+filepath.Dir(c.binary)+":"+os.Getenv("PATH"))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%s\n%v: %s", command, err, out)
	}
}

// helps looks whether ccmctl has a command and its flags. No manager runs here:
// the scripts status, why and rollout_ccmctl of host/test/e2e ask one.
func helps(t *testing.T, words, command string) {
	t.Helper()
	words = strings.TrimPrefix(words, "build/")
	out, err := exec.CommandContext(t.Context(), built(t, "ccmctl"), append(strings.Fields(words)[1:], "--help")...).CombinedOutput()
	usage := strings.Fields(words)
	if usage[1] == "why" {
		usage = usage[:2] // what follows is an argument
	}
	if err != nil || !strings.Contains(string(out), "\n  "+strings.Join(usage, " ")+" ") {
		t.Errorf("%s: ccmctl knows no such command: %v: %s", command, err, out)
	}
	for _, flag := range regexp.MustCompile(`--[a-z-]+`).FindAllString(command, -1) {
		if !strings.Contains(string(out), flag+" ") {
			t.Errorf("%s: there is no flag %s", command, flag)
		}
	}
}

// makes looks whether the Makefile has a target.
func makes(t *testing.T, target string) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "make", "-n", "-C", "..", strings.Fields(target)[0]).CombinedOutput()
	if err != nil {
		t.Errorf("make %s: %v: %.500s", target, err, out)
	}
}

// commandsOf are the commands in the blocks of a document that are indented, in
// their order. One that goes on behind a backslash or a pipe is one.
func commandsOf(t *testing.T, document string) (all []string) {
	t.Helper()
	text, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	fenced, open := false, false
	for line := range strings.Lines(string(text)) {
		command, indented := strings.CutPrefix(strings.TrimRight(line, "\n"), "    ")
		switch {
		case strings.HasPrefix(line, "```"):
			fenced = !fenced
		case fenced || !indented || strings.HasPrefix(command, "#"):
		case open:
			all[len(all)-1] += "\n" + command
		default:
			all = append(all, command)
		}
		open = indented && (strings.HasSuffix(command, `\`) || strings.HasSuffix(command, "|"))
	}
	return all
}

// checkout is what a person has before him: the manifests, and what make built.
func checkout(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	if err := os.CopyFS(filepath.Join(dir, "deploy"), os.DirFS(".")); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "build"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(built(t, "ccmctl"), filepath.Join(dir, "build", "ccmctl")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(built(t, "cloud-controller-manager"), filepath.Join(dir, "build", "cloud-controller-manager")); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"static.wasm", "static-next.wasm"} {
		module, err := os.ReadFile(built(t, name))
		if err != nil {
			t.Fatal(err)
		}
		// By stock Go it is larger than a ConfigMap, which docs/module-sources.md is about. Here nobody looks at what is in it.
		module = module[:min(len(module), 900<<10)]
		if err := os.WriteFile(filepath.Join(dir, "build", name), module, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// prepare does what the manager or Kubernetes would have done before a command.
func (c cluster) prepare(t *testing.T, command string) {
	t.Helper()
	const state = "wasm-ccm-provider-static"
	switch {
	case strings.Contains(command, "configmap "+state):
		// The manager takes the annotations that are commands.
		c.kubectl(t, "-n", namespace, "delete", "--ignore-not-found", "configmap", state)
		c.kubectl(t, "-n", namespace, "create", "configmap", state, "--from-literal=status=Kept")
	case strings.HasPrefix(command, "kubectl wait --for=condition=wasm-ccm.dev/LoadBalancerProgrammed "):
		c.kubectl(t, "patch", "service", "web", "--subresource=status", "--type=merge", "-p", `{"status":{"conditions":[{"type":"wasm-ccm.dev/LoadBalancerProgrammed",`+
			`"status":"True","reason":"Programmed","message":"","lastTransitionTime":"2026-01-01T00:00:00Z"}]}}`)
	case strings.Contains(command, "$REGISTRY"):
		startRegistry(t)
	case strings.HasPrefix(command, "kubectl -n kube-system get daemonset "+native):
		c.runNative(t)
	case strings.HasPrefix(command, "kubectl drain "):
		c.occupy(t, "worker-1")
	}
}

// runNative makes what the vendor's manager is to the API server.
func (c cluster) runNative(t *testing.T) {
	t.Helper()
	labels := map[string]string{"k8s-app": native}
	daemonSet := &appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Name: native, Namespace: namespace},
		Spec: appsv1.DaemonSetSpec{Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: labels},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "manager", Image: "manager"}}},
		}},
	}
	if _, err := c.admin.AppsV1().DaemonSets(namespace).Create(t.Context(), daemonSet, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// startRegistry starts a registry for $REGISTRY, once.
func startRegistry(t *testing.T) {
	t.Helper()
	if os.Getenv("REGISTRY") != "" {
		return
	}
	r, err := devregistry.Start(devregistry.Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Stop(); err != nil {
			t.Error(err)
		}
	})
	t.Setenv("REGISTRY", r.Address)
}

// occupy puts two pods with a cache on a node, one of the DaemonSet that is
// there, and one of a Deployment. Without a kubelet they are gone when they are
// evicted.
func (c cluster) occupy(t *testing.T, node string) {
	t.Helper()
	daemonSet, err := c.admin.AppsV1().DaemonSets(namespace).Get(t.Context(), manager, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for name, owner := range map[string]metav1.OwnerReference{
		"of-the-daemonset":  {APIVersion: "apps/v1", Kind: "DaemonSet", Name: manager, UID: daemonSet.UID, Controller: ptr.To(true)},
		"of-the-deployment": {APIVersion: "apps/v1", Kind: "ReplicaSet", Name: manager, UID: "1", Controller: ptr.To(true)},
	} {
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace, OwnerReferences: []metav1.OwnerReference{owner}},
			Spec: corev1.PodSpec{
				NodeName: node, TerminationGracePeriodSeconds: ptr.To[int64](0),
				Containers: []corev1.Container{{Name: "manager", Image: "manager"}},
				Volumes:    []corev1.Volume{{Name: "cache", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}},
			},
		}
		if _, err := c.admin.CoreV1().Pods(namespace).Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
}

// requestCertificate asks for one as a kubelet with serverTLSBootstrap does.
func requestCertificate(t *testing.T, c cluster) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	const user = "system:node:cp-1"
	request, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{
		Subject: pkix.Name{CommonName: user, Organization: []string{"system:nodes"}}, IPAddresses: []net.IP{net.IPv4(192, 0, 2, 10)},
	}, key)
	if err != nil {
		t.Fatal(err)
	}
	csr := &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{Name: "csr-1"},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			Request:    pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: request}),
			SignerName: certificatesv1.KubeletServingSignerName, Usages: []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageServerAuth},
		},
	}
	if _, err := c.admin.CertificatesV1().CertificateSigningRequests().Create(t.Context(), csr, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}
