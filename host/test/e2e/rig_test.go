package e2e

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	cloudproviderapi "k8s.io/cloud-provider/api"
	"sigs.k8s.io/yaml"
)

// rig is a report with a namespace and managers of its own: a control plane, a
// cloud, and what a test in Go does as an administrator.
type rig struct {
	*report
	namespace string
	dir       string
	scrape    *http.Client
}

func newRig(t *testing.T, namespace string) *rig {
	t.Helper()
	r := &rig{report: newReport(t), namespace: namespace, dir: t.TempDir()}
	object := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
	if _, err := r.client.CoreV1().Namespaces().Create(t.Context(), object, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	var err error
	if r.scrape, err = scraper(r.cluster); err != nil {
		t.Fatal(err)
	}
	return r
}

// url is that of an account of the cloud.
func (r *rig) url(account string) string {
	return "http://127.0.0.1:" + r.cloud.port + "/standin/" + account
}

func (r *rig) wasm(t *testing.T, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(r.build, name))
	if err != nil {
		t.Fatalf("%v: run make guests guests-test", err)
	}
	return data
}

// builds returns two builds of a guest that do the same.
func (r *rig) builds(t *testing.T, name string) (builds [2][]byte) {
	t.Helper()
	builds[0] = r.wasm(t, name)
	builds[1] = append(bytes.Clone(builds[0]), customSection("another-build", []byte("1"))...)
	return builds
}

// hostConfiguration writes the file of --config.
func (r *rig) hostConfiguration(t *testing.T, providers string) (flag string) {
	t.Helper()
	path := filepath.Join(r.dir, "ccm.yaml")
	text := "apiVersion: config.wasm-ccm.dev/v1alpha1\nkind: HostConfiguration\ndeletionBrake: {settle: 1s}\nproviders:\n" + providers
	text = strings.NewReplacer("$NS", r.namespace, "$CLOUD_PORT", r.cloud.port).Replace(text)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return "--config=" + path
}

// put replaces a module's ConfigMap.
func (r *rig) put(ctx context.Context, t *testing.T, name string, module []byte, config string) {
	t.Helper()
	content := map[string][]byte{"provider.wasm": module, "cloud.conf": []byte(config)}
	if err := putConfigMap(ctx, r.client, r.namespace, name, content); err != nil {
		t.Fatal(err)
	}
}

// startManager starts one that is killed with the test.
func (r *rig) startManager(t *testing.T, name string, flags ...string) *manager {
	t.Helper()
	m, usual := r.manager(t, name)
	r.start(t, m, r.binary(), append(withoutSource(usual, flags), flags...))
	return m
}

func (r *rig) binary() string {
	return filepath.Join(r.build, cmp.Or(os.Getenv("MANAGER"), "cloud-controller-manager"))
}

// manager returns one that does not run yet, and the flags that all have.
func (r *rig) manager(t *testing.T, name string) (m *manager, usual []string) {
	t.Helper()
	m, err := newManager(name, r.namespace+"-"+name, r.dir)
	if err != nil {
		t.Fatal(err)
	}
	kubeconfig, err := r.cluster.UserKubeconfig(m.user, "system:masters")
	if err != nil {
		t.Fatal(err)
	}
	return m, (&harness{namespace: r.namespace}).flags(m, kubeconfig)
}

// start starts a binary as the manager, and kills it with the test.
func (r *rig) start(t *testing.T, m *manager, binary string, flags []string) {
	t.Helper()
	if err := m.start(binary, flags); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		m.kill()
		if t.Failed() {
			t.Logf("last lines of the log of %s:\n%s", m.name, m.tail(16<<10))
		}
	})
}

// until waits for a condition, looking every few milliseconds.
func (r *rig) until(ctx context.Context, t *testing.T, m *manager, what string, look func() (done bool, seen string)) {
	t.Helper()
	r.untilWithin(ctx, t, m, reportPatience, what, look)
}

func (r *rig) untilWithin(ctx context.Context, t *testing.T, m *manager, limit time.Duration, what string, look func() (done bool, seen string)) {
	t.Helper()
	var seen string
	err := wait.PollUntilContextTimeout(ctx, 20*time.Millisecond, limit, true, func(context.Context) (done bool, _ error) {
		done, seen = look()
		return done, nil
	})
	if err != nil {
		t.Fatalf("%s: %s: %v; last seen:\n%s\nlast of the log:\n%s", m.name, what, err, seen, m.tail(8<<10))
	}
}

// metrics are the samples of /metrics, by name with labels.
type samples map[string]float64

func (r *rig) metrics(t *testing.T, m *manager) samples {
	t.Helper()
	text, err := m.metrics(r.scrape)
	if err != nil {
		t.Fatal(err)
	}
	all := samples{}
	for lines := bufio.NewScanner(strings.NewReader(text)); lines.Scan(); {
		name, value, ok := cutLast(lines.Text())
		if number, err := strconv.ParseFloat(value, 64); ok && err == nil && !strings.HasPrefix(name, "#") {
			all[name] = number
		}
	}
	return all
}

func cutLast(line string) (before, after string, found bool) {
	i := strings.LastIndexByte(line, ' ')
	if i < 0 {
		return line, "", false
	}
	return line[:i], line[i+1:], true
}

// sum adds up the samples whose name with labels matches.
func (s samples) sum(pattern string) (sum float64) {
	re := regexp.MustCompile(pattern)
	for name, value := range s {
		if re.MatchString(name) {
			sum += value
		}
	}
	return sum
}

// awaitServing waits until a module serves, by its digest.
func (r *rig) awaitServing(ctx context.Context, t *testing.T, m *manager, module []byte) {
	t.Helper()
	hex := strings.TrimPrefix(digest(module), "sha256:")
	re := regexp.MustCompile(`(?m)^wasm_ccm_provider_serving\{.*` + hex + `.*\} 1$`)
	r.until(ctx, t, m, "the module "+hex+" serves", func() (bool, string) {
		text, err := m.metrics(r.scrape)
		return err == nil && re.MatchString(text), fmt.Sprint(err, grep(text, "wasm_ccm_provider_serving"))
	})
}

// told reads a text, as YAML, of the ConfigMap in which the manager keeps what
// it knows of a provider. Without one nothing is read.
func (r *rig) told(ctx context.Context, provider, key string, into any) error {
	cm, err := r.client.CoreV1().ConfigMaps(r.namespace).Get(ctx, "wasm-ccm-provider-"+provider, metav1.GetOptions{})
	if err != nil {
		return err
	}
	return yaml.Unmarshal([]byte(cm.Data[key]), into)
}

// keptBy is the digest of the module that was kept last: by the record a restart
// begins with it, by the status it is kept, and its trial may still go on.
func (r *rig) keptBy(ctx context.Context, provider, key string) string {
	type version struct {
		Digest string
		Kept   bool
	}
	var says struct {
		Good  version   // of the status
		Saved []version // of the record
	}
	if err := r.told(ctx, provider, key, &says); err != nil {
		return err.Error()
	}
	if i := slices.IndexFunc(says.Saved, func(v version) bool { return v.Kept }); i >= 0 {
		says.Good = says.Saved[i]
	}
	return "sha256:" + strings.TrimPrefix(says.Good.Digest, "sha256:")
}

// refused reports whether the record of a provider has a refusal of a phase.
func (r *rig) refused(ctx context.Context, provider, phase string) bool {
	var record struct{ Refused []struct{ Phase string } }
	err := r.told(ctx, provider, "record", &record)
	return err == nil && slices.Contains(record.Refused, struct{ Phase string }{phase})
}

// awaitKept waits until a module is kept, awaitRecorded until a restart would
// begin with it, which is some 20 s after it began to serve.
func (r *rig) awaitKept(ctx context.Context, t *testing.T, m *manager, provider string, module []byte) {
	t.Helper()
	want := digest(module)
	r.until(ctx, t, m, "provider "+provider+" has kept "+want, func() (bool, string) {
		seen := r.keptBy(ctx, provider, "status")
		return seen == want, seen
	})
}

func (r *rig) awaitRecorded(ctx context.Context, t *testing.T, m *manager, provider string, module []byte) {
	t.Helper()
	want := digest(module)
	r.until(ctx, t, m, "a restart would begin with "+want, func() (bool, string) {
		seen := r.keptBy(ctx, provider, "record")
		return seen == want, seen
	})
}

// node makes a Node of a server, as its kubelet would, with further labels.
func (r *rig) node(ctx context.Context, t *testing.T, account, name string, labels ...string) {
	t.Helper()
	r.cloud.account(account).addServer(name)
	node := joining(t, name)
	node.Labels["wasm-ccm.dev/provider"] = account
	for _, label := range labels {
		node.Labels[label] = ""
	}
	nodes := r.client.CoreV1().Nodes()
	if _, err := nodes.Create(ctx, node, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	// The manager may have changed it already.
	const ready = `{"status":{"conditions":[{"type":"Ready","status":"True","reason":"Test","message":"set by the test"}]}}`
	if _, err := nodes.Patch(ctx, name, types.StrategicMergePatchType, []byte(ready), metav1.PatchOptions{}, "status"); err != nil {
		t.Fatal(err)
	}
}

// awaitInitialized waits until no Node has the taint.
func (r *rig) awaitInitialized(ctx context.Context, t *testing.T, m *manager) {
	t.Helper()
	r.until(ctx, t, m, "the Nodes are initialised", func() (bool, string) {
		nodes, err := r.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, err.Error()
		}
		for i := range nodes.Items {
			for _, taint := range nodes.Items[i].Spec.Taints {
				if taint.Key == cloudproviderapi.TaintExternalCloudProvider {
					return false, nodes.Items[i].Name
				}
			}
		}
		return true, ""
	})
}

// awaitRight waits until an account has the load balancers of all Services,
// and no others.
func (r *rig) awaitRight(ctx context.Context, t *testing.T, m *manager, account string) {
	t.Helper()
	r.until(ctx, t, m, "the load balancers of "+account+" are right", func() (bool, string) {
		list, err := r.client.CoreV1().Services(r.namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, err.Error()
		}
		for i := range list.Items {
			if s := &list.Items[i]; s.DeletionTimestamp != nil || (len(s.Status.LoadBalancer.Ingress) == 0) == (s.Spec.Type == corev1.ServiceTypeLoadBalancer) {
				return false, s.Name + " is not done"
			}
		}
		wrong := r.cloud.account(account).wrong(list.Items)
		return wrong == "", wrong
	})
}

// bound is the strict one for make bench, on a machine that does nothing else,
// and a loose one for make test: a figure of a busy machine is no reason to fail.
func bound(strict, shared float64) float64 {
	if os.Getenv("BENCH_REPORT") != "" {
		return strict
	}
	return shared
}
