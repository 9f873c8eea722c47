package e2e

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// kubelet runs one manager as a kubelet runs a container of the shipped Pod: it
// probes it, ends it, and starts it again, with the times of the manifest.
type kubelet struct {
	rig       *rig
	name      string
	begun     atomic.Bool // a startup probe was well: the liveness probe looks from then on
	container corev1.Container
	grace     time.Duration // of the Pod
	template  *manager      // with the addresses
	flags     []string
	cgroup    *memoryLimit // nil: the memory is not limited
	client    *http.Client

	mu       sync.Mutex
	current  *manager // nil between two
	started  int
	restarts []string // why each was
	planned  bool     // the end of this one does not count
}

const (
	// firstBackOff and longestBackOff are the kubelet's between two starts.
	firstBackOff   = 10 * time.Second
	longestBackOff = 5 * time.Minute
	manifestFile   = "../../../deploy/manifests.yaml"
)

func shippedPod(t *testing.T) corev1.PodSpec {
	t.Helper()
	data, err := os.ReadFile(manifestFile)
	if err != nil {
		t.Fatal(err)
	}
	for _, document := range bytes.Split(data, []byte("\n---\n")) {
		var daemonSet appsv1.DaemonSet
		if bytes.Contains(document, []byte("\nkind: DaemonSet\n")) {
			if err := yaml.UnmarshalStrict(document, &daemonSet); err != nil {
				t.Fatal(err)
			}
			return daemonSet.Spec.Template.Spec
		}
	}
	t.Fatal("no DaemonSet in " + manifestFile)
	return corev1.PodSpec{}
}

// newKubelet has one that is not started. Flags are beside those of the
// manifest.
func newKubelet(t *testing.T, r *rig, name string, flags ...string) *kubelet {
	t.Helper()
	pod := shippedPod(t)
	m, err := newManager(name, r.namespace+"-"+name, r.dir)
	if err != nil {
		t.Fatal(err)
	}
	k := &kubelet{rig: r, name: name, container: pod.Containers[0], grace: 30 * time.Second, template: m}
	if s := pod.TerminationGracePeriodSeconds; s != nil {
		k.grace = time.Duration(*s) * time.Second
	}
	kubeconfig, err := r.cluster.UserKubeconfig(m.user, "system:masters")
	if err != nil {
		t.Fatal(err)
	}
	_, port, err := net.SplitHostPort(m.secure)
	if err != nil {
		t.Fatal(err)
	}
	k.flags = append(withoutSource(slices.Clone(k.container.Args), []string{"--config="}),
		"--kubeconfig="+kubeconfig, "--authentication-kubeconfig="+kubeconfig, "--authorization-kubeconfig="+kubeconfig,
		"--provider-store-namespace="+r.namespace, "--leader-elect-resource-namespace="+r.namespace,
		"--provider-compilation-cache-dir="+filepath.Join(r.dir, "compiled-"+name), "--use-service-account-credentials=false",
		"--health-probe-bind-address="+m.probe, "--bind-address=127.0.0.1", "--secure-port="+port)
	k.flags = append(k.flags, flags...)
	// The kubelet does not verify certificates either.
	k.client = &http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	return k
}

// run keeps the manager running until the test ends.
func (k *kubelet) run(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { k.keep(ctx) })
	t.Cleanup(func() {
		cancel()
		wg.Wait()
		if m := k.manager(); m != nil {
			m.kill()
		}
		if t.Failed() {
			t.Logf("%s was restarted %q; its last log:\n%s", k.name, k.why(), k.log())
		}
	})
}

func (k *kubelet) keep(ctx context.Context) {
	for backOff := firstBackOff; ; backOff = min(2*backOff, longestBackOff) {
		m, err := k.start()
		if err != nil {
			k.restarted(err.Error())
			return
		}
		why := k.watch(ctx, m)
		if ctx.Err() != nil {
			return
		}
		if k.restarted(why) {
			backOff = firstBackOff / 2 // a new Pod
			continue
		}
		if !pause(ctx, backOff) {
			return
		}
	}
}

func (k *kubelet) start() (*manager, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.started++
	m := &manager{
		name: k.name, user: k.template.user, secure: k.template.secure, probe: k.template.probe,
		logPath: fmt.Sprintf("%s.%d", k.template.logPath, k.started), done: make(chan struct{}),
	}
	if err := m.start(filepath.Join(k.rig.build, "cloud-controller-manager"), k.flags); err != nil {
		return nil, err
	}
	k.current = m
	return m, k.cgroup.add(m)
}

// watch returns why the manager has ended.
func (k *kubelet) watch(ctx context.Context, m *manager) string {
	for _, p := range []struct {
		*corev1.Probe
		kind    string
		startup bool
	}{{k.container.StartupProbe, "startup", true}, {k.container.LivenessProbe, "liveness", false}} {
		if !k.probe(ctx, m, p.Probe, p.startup) {
			k.end(m, p.Probe)
			return p.kind + " probe failed"
		}
		if ctx.Err() != nil || m.ended() {
			break
		}
	}
	return "it ended: " + m.cmd.ProcessState.String()
}

// probe returns true when a startup probe is well, the manager has ended or the
// context has; false when it failed as often as it may.
func (k *kubelet) probe(ctx context.Context, m *manager, p *corev1.Probe, startup bool) bool {
	ticker := time.NewTicker(time.Duration(max(p.PeriodSeconds, 1)) * time.Second)
	defer ticker.Stop()
	for failures := int32(0); failures < p.FailureThreshold; {
		select {
		case <-ctx.Done():
			return true
		case <-m.done:
			return true
		case <-ticker.C:
		}
		switch err := k.get(ctx, p); {
		case err == nil && startup:
			k.begun.Store(true)
			return true
		case err == nil:
			failures = 0
		default:
			failures++
		}
	}
	return m.ended()
}

func (k *kubelet) get(ctx context.Context, p *corev1.Probe) error {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(max(p.TimeoutSeconds, 1))*time.Second)
	defer cancel()
	address, scheme := k.template.probe, "http"
	if p.HTTPGet.Scheme == corev1.URISchemeHTTPS {
		address, scheme = k.template.secure, "https"
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, scheme+"://"+address+p.HTTPGet.Path, nil)
	if err != nil {
		return err
	}
	response, err := k.client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode < 200 || response.StatusCode >= 400 {
		return fmt.Errorf("%s", response.Status)
	}
	return nil
}

// end is SIGTERM, the grace period, and SIGKILL.
func (k *kubelet) end(m *manager, p *corev1.Probe) {
	grace := k.grace
	if p != nil && p.TerminationGracePeriodSeconds != nil {
		grace = time.Duration(*p.TerminationGracePeriodSeconds) * time.Second
	}
	_ = m.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-m.done:
	case <-time.After(grace):
		m.kill()
	}
}

// restarted takes note, and returns whether it was planned.
func (k *kubelet) restarted(why string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.current = nil
	if !k.planned {
		k.restarts = append(k.restarts, why)
	}
	return k.planned
}

// plan ends a manager as a rollout restart does, and waits for the next one.
func (k *kubelet) plan(t *testing.T, m *manager) {
	t.Helper()
	k.mu.Lock()
	k.planned = true
	k.mu.Unlock()
	begun := time.Now()
	k.end(m, nil)
	if code := m.cmd.ProcessState.ExitCode(); code != 0 {
		t.Errorf("%s ended with %d after %v", k.name, code, time.Since(begun))
	}
	for n := k.manager(); n == nil || n == m; n = k.manager() {
		pause(t.Context(), 20*time.Millisecond)
	}
	k.mu.Lock()
	k.planned = false
	k.mu.Unlock()
}

// why says of each restart what it was for.
func (k *kubelet) why() []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Clone(k.restarts)
}

func (k *kubelet) manager() *manager {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.current
}

// log is that of all starts.
func (k *kubelet) log() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	var all strings.Builder
	for n := 1; n <= k.started; n++ {
		text := readFile(fmt.Sprintf("%s.%d", k.template.logPath, n))
		fmt.Fprintf(&all, "--- start %d\n%s", n, text[max(0, len(text)-12<<10):])
	}
	return all.String()
}

// pause returns false when the context has ended.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// memoryLimit is a cgroup, as a container has one.
type memoryLimit struct {
	dir   string // "" where there are no cgroups to be had
	bytes int64
}

const memoryCgroups = "/sys/fs/cgroup/memory"

// needsCgroups in the environment fails a test that cannot have one (make test-node).
const needsCgroups = "CCM_CGROUPS"

// newMemoryLimit has the manager killed by the kernel at the shipped limit. It
// needs root and cgroups of version 1 or 2.
func newMemoryLimit(t *testing.T, name string) *memoryLimit {
	t.Helper()
	limit := shippedPod(t).Containers[0].Resources.Limits.Memory()
	base, file := memoryCgroups, "memory.limit_in_bytes"
	if _, err := os.Stat(filepath.Join(base, file)); err != nil {
		base, file = "/sys/fs/cgroup", "memory.max"
	}
	c := &memoryLimit{filepath.Join(base, "wasm-ccm-"+name), limit.Value()}
	if err := os.Mkdir(c.dir, 0o755); err != nil && !os.IsExist(err) {
		return withoutCgroup(t, limit.Value(), err)
	}
	t.Cleanup(func() { _ = os.Remove(c.dir) }) // it is empty by then
	if err := os.WriteFile(filepath.Join(c.dir, file), []byte(fmt.Sprint(limit.Value())), 0o644); err != nil {
		return withoutCgroup(t, limit.Value(), err)
	}
	return c
}

func withoutCgroup(t *testing.T, limit int64, err error) *memoryLimit {
	t.Helper()
	if os.Getenv(needsCgroups) != "" {
		t.Fatalf("no cgroup with a limit of memory, which needs root and a mounted, writable /sys/fs/cgroup: %v", err)
	}
	t.Logf("no cgroup (%v): the test kills what passes the limit itself", err)
	return &memoryLimit{bytes: limit}
}

// peak is the most that all processes together had, in words: with what they read
// of files, and over all restarts.
func (c *memoryLimit) peak() string {
	if c == nil || c.dir == "" {
		return "not known"
	}
	for _, file := range []string{"memory.max_usage_in_bytes", "memory.peak"} {
		if bytes, err := os.ReadFile(filepath.Join(c.dir, file)); err == nil {
			return string(bytes)
		}
	}
	return "not known"
}

// add limits a process that has just begun.
func (c *memoryLimit) add(m *manager) error {
	switch {
	case c == nil:
		return nil
	case c.dir == "":
		go c.enforce(m)
		return nil
	}
	return os.WriteFile(filepath.Join(c.dir, "cgroup.procs"), []byte(fmt.Sprint(m.cmd.Process.Pid)), 0o644)
}

// enforce does what the kernel does at the limit of a cgroup.
func (c *memoryLimit) enforce(m *manager) {
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for {
		select {
		case <-m.done:
			return
		case <-ticker.C:
		}
		var size, resident int64
		_, _ = fmt.Sscan(readFile(fmt.Sprintf("/proc/%d/statm", m.cmd.Process.Pid)), &size, &resident)
		if resident*int64(os.Getpagesize()) > c.bytes {
			m.kill()
		}
	}
}

// metricsWithin does not wait for a manager that stands still.
func metricsWithin(ctx context.Context, r *rig, m *manager) (text string, err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		text, err = m.metrics(r.scrape)
	}()
	select {
	case <-done:
		return text, err
	case <-ctx.Done():
		return "", ctx.Err()
	}
}
