package e2e

import (
	"bufio"
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const devInventory = tagInventory + "pools: [{name: default, cidrs: [198.51.100.0/28]}]\n"

// An author saves a module: it serves, and its first op is told. A module that the
// manager refuses is told, too, and the one before continues to serve.
func TestDev(t *testing.T) {
	if testing.Short() {
		t.Skip("make test-all runs it")
	}
	t.Parallel() // it has a control plane of its own
	r := newRig(t, "e2e-dev")
	builds := r.builds(t, "static.wasm")
	m, token := r.developed(t, builds[0])
	module := filepath.Join(r.dir, "mycloud.wasm")
	said := r.dev(t, m, token, module)

	for i, build := range [][]byte{builds[1], builds[0], append(bytes.Clone(builds[1]), customSection("third", []byte("1"))...)} {
		saved := time.Now()
		writeModule(t, module, build)
		line := said.until(t, "first op after ")
		t.Logf("save %d: %v from the save to the first op (to reach: 1s): %s", i, time.Since(saved).Round(time.Millisecond), line)
		if !strings.Contains(line, ": ok, took ") {
			t.Errorf("its first op: %s", line)
		}
	}
	writeModule(t, module, []byte("no module"))
	said.until(t, "error: ")
	writeModule(t, module, builds[0])
	said.until(t, "first op after ")
}

// The guest of a directory is built first, by the compiler of this release.
func TestDevBuildsAGuest(t *testing.T) {
	if testing.Short() {
		t.Skip("make test-all runs it")
	}
	t.Parallel() // it has a control plane of its own
	r := newRig(t, "e2e-dev-build")
	m, token := r.developed(t, r.wasm(t, "static.wasm"))
	said := r.dev(t, m, token, "../../../guests/static", "--set-version=9.9.9", "--toolchain=../../../guests/toolchain", "--tools="+filepath.Join(r.build, "bin"))
	t.Log(said.until(t, "provider.wasm 9.9.9: "))
	if line := said.until(t, "first op after "); !strings.Contains(line, ": ok, took ") {
		t.Errorf("its first op: %s", line)
	}
}

// developed is a cluster of an author: a manager that serves a module, and a Service.
func (r *rig) developed(t *testing.T, module []byte) (m *manager, token string) {
	t.Helper()
	r.put(t.Context(), t, "provider", module, devInventory)
	m = r.startManager(t, "a", r.hostConfiguration(t, "- name: metal\n  source: {configMap: {namespace: $NS, name: provider}}\n  capabilities: [store, cache, nodes, event]\n"))
	r.service(t.Context(), t, r.namespace, "web", nil)
	token = filepath.Join(r.dir, "token")
	r.viewerToken(t, token)
	return m, token
}

// writeModule replaces a file as compilers do, at once.
func writeModule(t *testing.T, path string, data []byte) {
	t.Helper()
	next := path + ".next"
	if err := os.WriteFile(next, data, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(next, path); err != nil {
		t.Fatal(err)
	}
}

// spoken are the lines that a program writes.
type spoken struct {
	lines *bufio.Scanner
	all   []string
}

// until returns the next line that begins so.
func (s *spoken) until(t *testing.T, begins string) string {
	t.Helper()
	for s.lines.Scan() {
		s.all = append(s.all, s.lines.Text())
		if strings.HasPrefix(s.lines.Text(), begins) {
			return s.lines.Text()
		}
	}
	t.Fatalf("%q is not said: %v\n%s", begins, s.lines.Err(), strings.Join(s.all, "\n"))
	return ""
}

// dev starts ccmctl dev for a module or a guest.
func (r *rig) dev(t *testing.T, m *manager, token, from string, flags ...string) *spoken {
	t.Helper()
	args := append([]string{"dev", "metal", from, "--configmap=" + r.namespace + "/provider", "--service=" + r.namespace + "/web"}, flags...)
	return &spoken{lines: bufio.NewScanner(r.speaking(t, m, token, args...))}
}
