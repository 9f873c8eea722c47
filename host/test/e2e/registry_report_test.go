package e2e

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/registry"
	"github.com/wasm-ccm/wasm-ccm/host/test/devregistry"
)

const (
	movedTags     = 6
	movedInterval = 10 * time.Second
	tagInventory  = "region: dc-1\nmachines:\n- {name: worker-1, zone: rack-a, type: m1, addresses: [{type: InternalIP, address: 10.0.0.1}]}\n"
)

// TestMovedTagReport measures, for make bench, the time from the end of a push
// until the manager serves the module that the tag stands for now. The pushes
// come at random times, as people do.
func TestMovedTagReport(t *testing.T) {
	if testing.Short() {
		t.Skip("make test-all runs it")
	}
	if os.Getenv("BENCH_REPORT") == "" {
		t.Log("make bench prints the report")
		return
	}
	r := newRig(t, "moved-tag")
	ref := r.registry(t)
	builds := r.builds(t, "static.wasm")
	r.push(t, ref, builds[0])
	flag := r.hostConfiguration(t, fmt.Sprintf("- name: static\n  rollout: {observePeriod: 1s}\n  source: {oci: {reference: %q, interval: %s}}\n", ref, movedInterval))
	m := r.startManager(t, "a", flag, "--leader-elect=false")
	r.servesBuild(t, m, builds[0])
	var all []time.Duration
	for i := range movedTags {
		time.Sleep(rand.N(movedInterval))
		r.push(t, ref, builds[(i+1)%2])
		begin := time.Now()
		r.servesBuild(t, m, builds[(i+1)%2])
		all = append(all, time.Since(begin).Round(10*time.Millisecond))
	}
	slices.Sort(all)
	most := all[len(all)-1]
	t.Logf("%d moved tags with an interval of %v: median %v, most %v (to reach: %v); all %v", len(all), movedInterval, all[len(all)/2], most, movedInterval+time.Second, all)
	if most > movedInterval+time.Second {
		t.Errorf("the slowest took %v", most)
	}
}

// registry starts one, and returns the name of an image that it may have.
func (r *rig) registry(t *testing.T) registry.Reference {
	t.Helper()
	source, err := devregistry.Start(devregistry.Options{AssetsDir: filepath.Dir(r.cluster.Kubectl()), Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = source.Stop() }) // it is killed
	ref, err := registry.ParseReference(source.Address + "/providers/static:v1")
	if err != nil {
		t.Fatal(err)
	}
	return ref
}

func (r *rig) push(t *testing.T, ref registry.Reference, module []byte) {
	t.Helper()
	index, err := registry.Pack(registry.Content{Module: module, Files: map[string][]byte{"config.yaml": []byte(tagInventory)}, Platforms: []string{"linux/amd64"}})
	if err == nil {
		_, err = registry.Push(t.Context(), ref, index, registry.Options{})
	}
	if err != nil {
		t.Fatal(err)
	}
}

func (r *rig) servesBuild(t *testing.T, m *manager, module []byte) {
	t.Helper()
	sum := sha256.Sum256(module)
	digest := hex.EncodeToString(sum[:])
	r.until(t.Context(), t, m, "it serves "+digest, func() (bool, string) {
		text, err := m.metrics(r.scrape)
		_, serving, _ := strings.Cut(text, "\nwasm_ccm_provider_serving{")
		return err == nil && strings.Contains(strings.SplitN(serving, "\n", 2)[0], digest), fmt.Sprint(err)
	})
}
