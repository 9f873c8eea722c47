package e2e

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// largeBytes is the size of a vendor's own provider.
	largeBytes = 80 << 20
	// mostPeak is how much more memory of its own the manager may have, at any
	// time, while it loads such a module. What it maps of machine code is counted
	// by itself.
	mostPeak = 100 << 20
)

// A module of 80 MB comes from a directory, is held in no memory of the manager,
// and is there after a restart when the directory is empty. With LARGE_MODULE it
// is the one of that file, and with LARGE_FLAGS the manager has these flags, too.
func TestALargeModule(t *testing.T) {
	if testing.Short() {
		t.Skip("make test-all runs it")
	}
	t.Parallel() // it has a control plane of its own
	r := newRig(t, "e2e-large")
	module, config, code := r.large(t)
	little := r.wasm(t, "static.wasm")
	small := r.loads(t, "small", little, little, tagInventory)
	small.kill()
	m := r.loads(t, "large", module, module, config)
	peak := m.peak - small.peak - code()
	t.Logf("it serves after %v; the most memory of its own is %d MiB, of a manager with static.wasm %d; machine code %d MiB; the difference %d MiB",
		m.took.Round(time.Millisecond), m.peak>>20, small.peak>>20, code()>>20, peak>>20)
	if peak > mostPeak {
		t.Errorf("the manager has %d MiB more than with a small module, at most %d are wanted", peak>>20, mostPeak>>20)
	}
	// Not before the trial has passed: one that is under way is blamed for a kill.
	r.until(t.Context(), t, m.manager, "the module is kept", func() (bool, string) {
		cm, err := r.client.CoreV1().ConfigMaps(r.namespace).Get(t.Context(), "wasm-ccm-provider-large", metav1.GetOptions{})
		return err == nil && strings.Contains(cm.Data["record"], `"stored":true`) && strings.Contains(cm.Data["trials"], `"passed"`), fmt.Sprint(err, cm)
	})
	m.kill()
	if err := os.Remove(filepath.Join(r.dir, "large", "provider.wasm")); err != nil {
		t.Fatal(err)
	}
	again := r.loads(t, "large", module, nil, config)
	t.Logf("after a restart it serves after %v, %v of them processor time; its own memory is %d MiB, %d at most", again.took.Round(time.Millisecond), again.cpu, again.now>>20, again.peak>>20)
	if more := again.now - small.now; more > mostPeak {
		t.Errorf("the manager has %d MiB more than with a small module when it serves, at most %d are wanted: machine code is a file's", more>>20, mostPeak>>20)
	}
}

// large returns the module, its configuration, and what its machine code takes.
func (r *rig) large(t *testing.T) (module []byte, config string, code func() int64) {
	t.Helper()
	if file := os.Getenv("LARGE_MODULE"); file != "" {
		module, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		return module, "{}", func() int64 { return r.machineCode(t) }
	}
	noise := make([]byte, largeBytes)
	random := rand.New(rand.NewPCG(1, 2))
	for i := range noise {
		noise[i] = byte(random.Uint32())
	}
	return append(bytes.Clone(r.wasm(t, "static.wasm")), customSection("noise", noise)...), tagInventory, func() int64 { return 0 }
}

// machineCode is the size of the largest file in the cache.
func (r *rig) machineCode(t *testing.T) (most int64) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(r.dir, "cache", "wa*-*", "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		info, err := os.Stat(file)
		if err != nil {
			t.Fatal(err)
		}
		most = max(most, info.Size())
	}
	return most
}

// loading is what a manager took until it served.
type loading struct {
	*manager
	took, cpu time.Duration
	peak, now int64 // bytes of anonymous memory
}

// loads starts a manager, whose provider has the name, with a module in its
// directory, nil for what is there, and waits until the wanted one serves.
func (r *rig) loads(t *testing.T, name string, wanted, module []byte, config string) loading {
	t.Helper()
	dir := filepath.Join(r.dir, name)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for file, data := range map[string][]byte{"provider.wasm": module, "config.yaml": []byte(config)} {
		if data == nil {
			continue
		}
		if err := os.WriteFile(filepath.Join(dir, file), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	flag := r.hostConfiguration(t, `- name: `+name+`
  source: {directory: `+dir+`}
  capabilities: [store, cache, nodes, event, http_send, kube]
  grants: [{host: cloud.example.com}]
  rollout: {probe: "Off", observe: "Off"}
  limits: {module: 128Mi, compile: {memory: 3Gi, cpu: 10m, wall: 20m, output: 512Mi}}
`)
	flags := append(strings.Fields(os.Getenv("LARGE_FLAGS")), flag, "--provider-compilation-cache-dir="+filepath.Join(r.dir, "cache"))
	m := r.startManager(t, name, flags...)
	l, sum := loading{manager: m}, sha256.Sum256(wanted)
	digest := hex.EncodeToString(sum[:])
	began := time.Now()
	r.untilWithin(t.Context(), t, m, 20*time.Minute, "it serves", func() (bool, string) {
		l.peak = max(l.peak, anonymous(m))
		text, err := m.metrics(r.scrape)
		_, serving, _ := strings.Cut(text, "\nwasm_ccm_provider_serving{")
		return err == nil && strings.Contains(strings.SplitN(serving, "\n", 2)[0], digest), fmt.Sprint(err)
	})
	l.took, l.cpu = time.Since(began), processorTime(m)
	l.now = anonymous(m)
	l.peak = max(l.peak, l.now)
	return l
}

// anonymous is the memory that the process has for itself, in bytes; 0 when it
// has ended.
func anonymous(m *manager) int64 {
	_, rest, _ := strings.Cut(readFile(fmt.Sprintf("/proc/%d/status", m.cmd.Process.Pid)), "\nRssAnon:")
	fields := strings.Fields(rest)
	if len(fields) == 0 {
		return 0
	}
	kib, _ := strconv.ParseInt(fields[0], 10, 64)
	return kib << 10
}

// processorTime is what the process has used, without its children.
func processorTime(m *manager) time.Duration {
	_, rest, _ := strings.Cut(readFile(fmt.Sprintf("/proc/%d/stat", m.cmd.Process.Pid)), ") ")
	fields := strings.Fields(rest)
	if len(fields) < 13 {
		return 0
	}
	user, _ := strconv.Atoi(fields[11])
	system, _ := strconv.Atoi(fields[12])
	return time.Duration(user+system) * 10 * time.Millisecond
}
