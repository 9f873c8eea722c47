//go:build node

package node_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

const (
	namespace = "kube-system"
	// providerName is in the names of ConfigMaps.
	providerName = "static"
	first        = "0.1.0" // the versions of static.wasm and static-next.wasm
	next         = "0.1.0-next"
	workload     = "cloud-controller-manager"
	selector     = "app.kubernetes.io/name=" + workload
	// patience is for what takes seconds, or more on a machine that is busy.
	patience = 2 * time.Minute
)

// inventory is the configuration of the provider, with the first machines.
func inventory(machines int) string {
	var all []string
	for n := range machines {
		all = append(all, fmt.Sprintf("{name: cp-%d, zone: a, addresses: [{type: InternalIP, address: 10.77.0.1%d}]}", n+1, n+1))
	}
	return "machines: [" + strings.Join(all, ", ") + "]\npools: [{name: default, cidrs: [198.51.100.0/28]}]\n"
}

// offer makes the provider's ConfigMap of files, or replaces it as README.md says.
func (c *cluster) offer(t *testing.T, verb string, files ...string) {
	t.Helper()
	args := []string{"-n", namespace, "create", "configmap", "cloud-provider-" + providerName}
	for _, file := range files {
		args = append(args, "--from-file="+file)
	}
	if verb == "create" {
		c.kubectl(t, args...)
		return
	}
	out, err := c.quietly(t, append(args, "--dry-run=client", "-o", "yaml")...)
	if err != nil {
		t.Fatal(err)
	}
	c.kubectl(t, verb, "-f", written(t, "provider.yaml", out))
}

// module is an argument of offer.
func module(name string) string { return "provider.wasm=" + built(name) }

// configuration is an argument of offer, for a provider whose configuration is
// beside its module.
func configuration(t *testing.T, machines int) string {
	t.Helper()
	return "config.yaml=" + written(t, "config.yaml", inventory(machines))
}

// written writes a file of the test and returns its path.
func written(t *testing.T, name, content string) string {
	t.Helper()
	path := filepath.Join(data(), name)
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// values are those of the chart: the provider, and where its module is, when that
// is not the ConfigMap called after it.
func values(t *testing.T, config, volume string) string {
	t.Helper()
	text := "providers:\n- name: " + providerName + "\n  config: |\n    " + strings.ReplaceAll(strings.TrimSpace(config), "\n", "\n    ") + "\n"
	if volume != "" {
		text += "  volume: " + volume + "\n"
	}
	t.Logf("values.yaml:\n%s", text)
	return written(t, "values.yaml", text)
}

// helm installs, upgrades or uninstalls the release.
func (c *cluster) helm(t *testing.T, verb string, args ...string) {
	t.Helper()
	all := []string{verb, "ccm", "--namespace", namespace}
	if verb != "uninstall" {
		all = []string{verb, "ccm", repository("deploy", "chart"), "--namespace", namespace, "--set", "image.tag=" + managerTag(t)}
	}
	if _, err := record(t, c.command(t.Context(), asset("helm"), append(all, args...)...)); err != nil {
		t.Fatal(err)
	}
}

// rolledOut waits for the managers, as a user does.
func (c *cluster) rolledOut(t *testing.T) {
	t.Helper()
	c.kubectl(t, "-n", namespace, "rollout", "status", "daemonset/"+workload, "--timeout=5m")
}

// manifests are those of deploy/, with the image that was imported.
func manifests(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(data(), "deploy")
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(dir, os.DirFS(repository("deploy"))); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "kustomization.yaml")
	text := regexp.MustCompile(`newTag: .*`).ReplaceAll(readFile(t, file), []byte("newTag: "+managerTag(t)))
	if err := os.WriteFile(file, text, 0o644); err != nil {
		t.Fatal(err)
	}
	return dir
}

// pod is the manager on a node, as the API server has it.
func (c *cluster) pod(ctx context.Context, t *testing.T, n *node) *corev1.Pod {
	t.Helper()
	pods, err := c.admin.CoreV1().Pods(namespace).List(ctx, options())
	if err != nil {
		t.Fatal(err)
	}
	for i := range pods.Items {
		if p := &pods.Items[i]; p.Spec.NodeName == n.name && p.DeletionTimestamp == nil {
			return p
		}
	}
	return &corev1.Pod{}
}

func podReady(p *corev1.Pod) bool {
	for _, condition := range p.Status.Conditions {
		if condition.Type == corev1.PodReady {
			return condition.Status == corev1.ConditionTrue
		}
	}
	return false
}

func restarts(p *corev1.Pod) int32 {
	if len(p.Status.ContainerStatuses) == 0 {
		return 0
	}
	return p.Status.ContainerStatuses[0].RestartCount
}

// running waits for a ready manager on the node, and returns its pod.
func (c *cluster) running(t *testing.T, what string, n *node, is func(*corev1.Pod) bool) *corev1.Pod {
	t.Helper()
	var found *corev1.Pod
	c.await(t, what, patience, func(ctx context.Context) bool {
		found = c.pod(ctx, t, n)
		return podReady(found) && is(found)
	})
	return found
}

func anyPod(*corev1.Pod) bool { return true }

// state is what the manager says of the provider, "" before it says something.
type state struct {
	Phase   string
	Serving struct{ Version, ConfigDigest string }
	Trials  string `json:"-"`
}

func (c *cluster) state(ctx context.Context, t *testing.T) (s state) {
	t.Helper()
	configMap, err := c.admin.CoreV1().ConfigMaps(namespace).Get(ctx, "wasm-ccm-provider-"+providerName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) || ctx.Err() != nil {
		return state{}
	}
	if err == nil {
		err = yaml.Unmarshal([]byte(configMap.Data["status"]), &s)
	}
	if err != nil {
		t.Fatal(err)
	}
	s.Trials = configMap.Data["trials"]
	return s
}

// serves waits until a version of the provider serves and is in this phase.
func (c *cluster) serves(t *testing.T, version, phase string, patience time.Duration) {
	t.Helper()
	c.await(t, "provider "+version+" is "+phase, patience, func(ctx context.Context) bool {
		s := c.state(ctx, t)
		return s.Serving.Version == version && s.Phase == phase
	})
}

// process is that of the manager on a node.
func (n *node) process(t *testing.T) int {
	t.Helper()
	found := n.managers(t)
	if len(found) != 1 {
		t.Fatalf("%d managers run on %s: %v", len(found), n.name, found)
	}
	return found[0]
}

// managers are the first processes of the manager's containers on a node: each
// has children, too, which compile modules.
func (n *node) managers(t *testing.T) (found []int) {
	t.Helper()
	for _, pid := range n.cgroupProcesses(t) {
		exe, _ := os.Readlink(procDir(pid) + "/exe")
		ids := strings.Fields(statusOf(t, procDir(pid))["NSpid"])
		if exe == "/"+workload && len(ids) > 0 && ids[len(ids)-1] == "1" {
			found = append(found, pid)
		}
	}
	return found
}

// statusOf is what the kernel says of a process, e.g. VmRSS "61234 kB".
func statusOf(t *testing.T, dir string) map[string]string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "status"))
	if err != nil {
		return nil
	}
	fields := map[string]string{}
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
		key, value, _ := strings.Cut(lines.Text(), ":")
		fields[key] = strings.TrimSpace(value)
	}
	return fields
}
