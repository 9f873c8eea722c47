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
	"strings"
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// elsewhere are the commands of the documents that need more than an API server,
// by how they begin, and why.
func elsewhere() map[string]string {
	return map[string]string{
		"make ":                                 "it has run before the test; make -n looks whether there is such a target",
		"ctr ":                                  "containerd, on a node",
		"docker build ":                         "a builder of images",
		"cosign ":                               "a program that Debian does not have; its signatures are in the tests of host/internal/lifecycle/provenance",
		"kubectl -n kube-system rollout status": "the controller of DaemonSets: TestRollouts (make test-node) runs it",
		"kubectl -n kube-system rollout undo":   "the controller of DaemonSets, which keeps the revisions: TestRollouts (make test-node) runs it",
	}
}

// TestDocumentedCommands runs every command of README.md and of deploy/README.md
// as it stands, in their order, in a copy of the repository, by an administrator
// of a real API server.
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
	for _, document := range []string{"../README.md", "README.md"} {
		t.Run(filepath.Clean(document), func(t *testing.T) {
			dir := checkout(t)
			found := commandsOf(t, document)
			if len(found) < 6 {
				t.Fatalf("only %d commands: is it read rightly?", len(found))
			}
			for _, command := range found {
				c.prepare(t, command)
				c.shell(t, dir, command)
			}
		})
		c.kubectl(t, "delete", "--ignore-not-found", "-k", ".")
		c.kubectl(t, "-n", namespace, "delete", "--ignore-not-found", "configmap", "cloud-provider")
	}
}

// shell runs a command as a person does who has just read it.
func (c cluster) shell(t *testing.T, dir, command string) {
	t.Helper()
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
	cmd.Env = append(os.Environ(), "KUBECONFIG="+c.kubeconfig, "PATH="+filepath.Dir(c.binary)+":"+os.Getenv("PATH"))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%s\n%v: %s", command, err, out)
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
	for _, name := range []string{"static.wasm", "static-next.wasm"} {
		module, err := os.ReadFile(built(t, name))
		if err != nil {
			t.Fatal(err)
		}
		// By stock Go it is larger than a ConfigMap, which section 8 is about. Here nobody looks at what is in it.
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
	const state = "wasm-ccm-provider-provider"
	switch {
	case strings.Contains(command, "configmap "+state):
		// The manager takes the annotations that are commands.
		c.kubectl(t, "-n", namespace, "delete", "--ignore-not-found", "configmap", state)
		c.kubectl(t, "-n", namespace, "create", "configmap", state, "--from-literal=status=Kept")
	case strings.HasPrefix(command, "kubectl drain "):
		c.occupy(t, "worker-1")
	}
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
