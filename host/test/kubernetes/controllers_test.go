// Package kubernetes runs Kubernetes' own unit tests of the controllers with this
// project's adapter between them and upstream's fake provider.
package kubernetes

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

const upstream = "k8s.io/cloud-provider"

// throughFile is added to upstream's package fake, from whose provider the methods
// that are renamed are taken.
const throughFile = `package fake

import (
	"os"
	"sync"
	"time"

	cloudprovider "k8s.io/cloud-provider"

	"github.com/wasm-ccm/wasm-ccm/host/test/kubernetes/through"
)

var chains sync.Map // of each Cloud

func (f *Cloud) through() *through.Through {
	takes, _ := time.ParseDuration(os.Getenv("CCM_THROUGH_TAKES"))
	chain, _ := chains.LoadOrStore(f, through.New(through.Own{Name: f.ProviderName(), Balancer: f, Instances: f, Routes: f, Takes: takes}))
	return chain.(*through.Through)
}

func (f *Cloud) LoadBalancer() (cloudprovider.LoadBalancer, bool) {
	_, ok := f.ownLoadBalancer()
	return f.through().Balancer(), ok
}

func (f *Cloud) InstancesV2() (cloudprovider.InstancesV2, bool) {
	if _, ok := f.ownInstancesV2(); !ok {
		return nil, false
	}
	return f.through().Instances(), true
}

func (f *Cloud) Routes() (cloudprovider.Routes, bool) {
	_, ok := f.ownRoutes()
	return f.through().Routes(), ok
}
`

// TestUpstreamsControllers counts those of upstream's tests, with subtests, that pass
// through the chain, also when each op takes longer than a worker waits for it.
func TestUpstreamsControllers(t *testing.T) {
	if testing.Short() {
		t.Skip("make test-all runs it")
	}
	modfile := withChain(t)
	for _, test := range []struct {
		takes time.Duration
		least int
	}{{0, 260}, {300 * time.Millisecond, 245}} {
		t.Run(test.takes.String(), func(t *testing.T) {
			passed, failed := runControllers(t, modfile, test.takes)
			t.Logf("%d of %d pass; not: %q", passed, passed+len(failed), failed)
			if passed < test.least {
				t.Errorf("%d of upstream's tests pass, want %d", passed, test.least)
			}
		})
	}
}

// withChain copies upstream's module from the module cache, with the chain in its
// fake, and returns a go.mod that takes this copy. Go refuses -overlay for files in
// the module cache.
func withChain(t *testing.T) (modfile string) {
	t.Helper()
	dir := t.TempDir()
	copied := filepath.Join(dir, "cloud-provider")
	if err := os.CopyFS(copied, os.DirFS(strings.TrimSpace(output(t, "go", "list", "-m", "-f", "{{.Dir}}", upstream)))); err != nil {
		t.Fatal(err)
	}
	fake := filepath.Join(copied, "fake", "fake.go")
	source := regexp.MustCompile(`(?m)^func \(f \*Cloud\) (LoadBalancer|InstancesV2|Routes)\(\)`).ReplaceAllString(read(t, fake), "func (f *Cloud) own$1()")
	write(t, fake, source)
	write(t, filepath.Join(copied, "fake", "through.go"), throughFile)
	root := filepath.Dir(strings.TrimSpace(output(t, "go", "env", "GOMOD")))
	modfile = filepath.Join(dir, "go.mod")
	// Paths in replace are relative to the main module.
	write(t, modfile, strings.ReplaceAll(read(t, filepath.Join(root, "go.mod")), "=> ./", "=> "+root+"/")+"\nreplace "+upstream+" => "+copied+"\n")
	write(t, filepath.Join(dir, "go.sum"), read(t, filepath.Join(root, "go.sum")))
	return modfile
}

func runControllers(t *testing.T, modfile string, takes time.Duration) (passed int, failed []string) {
	t.Helper()
	command := exec.CommandContext(t.Context(), "go", "test", "-mod=mod", "-modfile="+modfile, "-vet=off", "-count=1", "-json", "-timeout=9m",
		upstream+"/controllers/service", upstream+"/controllers/node", upstream+"/controllers/nodelifecycle", upstream+"/controllers/route")
	command.Env = append(os.Environ(), "CCM_THROUGH_TAKES="+takes.String())
	out, err := command.Output() // fails with the first test
	for line := range bytes.Lines(out) {
		var event struct{ Action, Package, Test, Output string }
		if json.Unmarshal(line, &event) != nil || event.Test == "" {
			continue
		}
		switch event.Action {
		case "pass":
			passed++
		case "fail":
			failed = append(failed, strings.TrimPrefix(event.Package, upstream+"/controllers/")+" "+event.Test)
		}
	}
	if passed == 0 {
		t.Fatalf("%v:\n%s", err, out)
	}
	return passed, failed
}

func output(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), name, args...).Output()
	if err != nil {
		t.Fatalf("%s %v: %v", name, args, err)
	}
	return string(out)
}

func read(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func write(t *testing.T, path, text string) {
	t.Helper()
	_ = os.Chmod(path, 0o600) // the module cache is read-only; there may be none yet
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
