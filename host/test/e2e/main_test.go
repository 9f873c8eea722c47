package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/wasm-ccm/wasm-ccm/host/test/devcluster"
)

const scripts = "../../../testdata/script"

// TestScripts runs every script, one after the other: Nodes and
// PersistentVolumes belong to the whole cluster.
func TestScripts(t *testing.T) { runScripts(t, "*.txtar") }

// runScripts runs those that match below the directory of the scripts.
func runScripts(t *testing.T, pattern string) {
	t.Helper()
	build := buildDir(t)
	needed := []string{
		"cloud-controller-manager",
		"static.wasm", "static-next.wasm", "faulty.wasm", "faulty-debug.wasm", "signer-keystone.wasm", "signer-cloudstack.wasm",
	}
	if !testing.Short() {
		needed = append(needed, "cloud-controller-manager-wasmtime")
	}
	for _, name := range needed {
		if _, err := os.Stat(filepath.Join(build, name)); err != nil {
			t.Fatalf("%v: run make build build-wasmtime guests guests-test (guests-slow for CCM_SLOW=1)", err)
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
			h := &harness{cluster: cluster, build: build, namespace: "e2e-" + strings.ReplaceAll(name, "_", "-")}
			testscript.Run(t, testscript.Params{
				Files:               []string{file},
				Setup:               h.setup,
				Cmds:                h.commands(),
				RequireExplicitExec: true,
				RequireUniqueNames:  true,
			})
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

func startCluster(t *testing.T) *devcluster.Cluster {
	t.Helper()
	assets := os.Getenv("KUBEBUILDER_ASSETS")
	if assets == "" {
		assets = filepath.Join(buildDir(t), "bin")
	}
	cluster, err := devcluster.Start(devcluster.Options{AssetsDir: assets, Dir: t.TempDir(), Audit: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cluster.Stop(); err != nil {
			t.Error(fmt.Errorf("stop the control plane: %w", err))
		}
	})
	return cluster
}
