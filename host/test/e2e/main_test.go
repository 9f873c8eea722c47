package e2e

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/wasm-ccm/wasm-ccm/host/test/devcluster"
)

const scripts = "../../../testdata/script"

// TestScripts runs every script, one after the other: Nodes and
// PersistentVolumes belong to the whole cluster.
func TestScripts(t *testing.T) {
	t.Parallel() // it has a control plane of its own
	runScripts(t, "*.txtar")
}

// runScripts runs those that match below the directory of the scripts.
func runScripts(t *testing.T, pattern string) {
	t.Helper()
	build := buildDir(t)
	needed := []string{
		"cloud-controller-manager", "ccmctl",
		"static.wasm", "static-next.wasm", "faulty.wasm", "faulty-debug.wasm", "signer-keystone.wasm", "signer-cloudstack.wasm",
	}
	if !testing.Short() {
		needed = append(needed, "cloud-controller-manager-both")
	}
	for _, name := range needed {
		if _, err := os.Stat(filepath.Join(build, name)); err != nil {
			t.Fatalf("%v: run make build ccmctl build-both guests guests-test (guests-slow for CCM_SLOW=1)", err)
		}
	}
	files, err := filepath.Glob(filepath.Join(scripts, pattern))
	if err != nil || len(files) == 0 {
		t.Fatalf("no scripts %s in %s: %v", pattern, scripts, err)
	}
	cluster := startCluster(t)
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".txtar")
		t.Run(name, func(t *testing.T) {
			h := &harness{cluster: cluster, build: build, namespace: "e2e-" + strings.ReplaceAll(name, "_", "-"), show: show{out: io.Discard, tail: 64 << 10}}
			testscript.Run(t, h.params(file))
		})
	}
}

// buildDir is where make puts its results: $CCM_BUILD, else build.
func buildDir(t *testing.T) string {
	t.Helper()
	dir := os.Getenv("CCM_BUILD")
	if dir == "" {
		dir = "../../../build"
	}
	abs, err := filepath.Abs(dir)
	if err != nil {
		t.Fatal(err)
	}
	if slow {
		abs = filepath.Join(abs, "slow")
	}
	return abs
}

// starting: what starts a control plane fills in defaults of its package.
var starting sync.Mutex

func startCluster(t *testing.T) *devcluster.Cluster {
	t.Helper()
	starting.Lock()
	defer starting.Unlock()
	cluster, err := devcluster.Start(devcluster.Options{AssetsDir: assetsDir(t), Dir: t.TempDir(), Audit: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stopCluster(t, cluster) })
	return cluster
}

// assetsDir has the control plane: $KUBEBUILDER_ASSETS, else bin of the build.
func assetsDir(t *testing.T) string {
	t.Helper()
	if dir := os.Getenv("KUBEBUILDER_ASSETS"); dir != "" {
		return dir
	}
	return filepath.Join(buildDir(t), "bin")
}

func stopCluster(t *testing.T, cluster *devcluster.Cluster) {
	t.Helper()
	if err := cluster.Stop(); err != nil {
		t.Errorf("stop the control plane: %v", err)
	}
}
