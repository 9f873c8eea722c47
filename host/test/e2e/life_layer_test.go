package e2e

import (
	"bufio"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/registry"
	"github.com/wasm-ccm/wasm-ccm/host/test/sparse"
)

const (
	// holes of holeSize are 1.5 GiB, of some hundred bytes.
	holes    = 24
	holeSize = 64 << 20
	// mayGrow is how much more memory a manager may take for a layer that it
	// refuses, in bytes.
	mayGrow = 64 << 20
	// pulledProviders are one that comes from a registry, and one that does not.
	pulledProviders = `
- name: a
  store: a
  source: {configMap: {namespace: $NS, name: provider}}
  grants: [{scheme: http, host: 127.0.0.1, port: $CLOUD_PORT}]
  routing: {nodes: {schemes: [faulty]}, services: {default: true}}
- name: pulled
  store: pulled
  source: {oci: {reference: "$REFERENCE", interval: 10s}}
  routing: {nodes: {schemes: [static]}}
`
)

// TestALayerThatExpands moves a tag to an image whose layer of some hundred bytes
// reads as 1.5 GiB: without a limit, and with the memory of the shipped manifest.
// The layer is refused in words and costs no memory; what was pulled before goes
// on, also after restarts; and no module is blamed.
func TestALayerThatExpands(t *testing.T) {
	if testing.Short() {
		t.Skip("make test-all runs it")
	}
	for name, limited := range map[string]bool{"no limit": false, "the shipped limit": true} {
		t.Run(name, func(t *testing.T) {
			p := newPulled(t, limited)
			before := peak(p.manager())
			moved := time.Now()
			p.move(t)
			p.refuses(t)
			p.bothServe(t)
			restarts, now := p.why(), peak(p.manager())
			t.Logf("both modules serve %.1f s after the move; restarts %d %q; the manager's peak was %d MiB before and is %d MiB; of the cgroup: %s",
				time.Since(moved).Seconds(), len(restarts), restarts, before>>20, now>>20, p.cgroup.peak())
			if len(restarts) > 0 || now-before > mayGrow {
				t.Errorf("restarts %q, and %d MiB more memory", restarts, (now-before)>>20)
			}
			for range reboots {
				p.plan(t, p.manager())
				p.bothServe(t)
				p.refuses(t)
			}
			p.blamesNobody(t)
			if restarts := p.why(); len(restarts) > 0 {
				t.Errorf("restarts %q", restarts)
			}
		})
	}
}

// pulled is a cluster with two providers, one of which comes from a registry.
type pulled struct {
	*kubelet
	ref     registry.Reference
	modules map[string][]byte // by provider
}

// newPulled has both providers trusted.
func newPulled(t *testing.T, limited bool) *pulled {
	t.Helper()
	r := newRig(t, "pulled")
	p := &pulled{ref: r.registry(t), modules: map[string][]byte{"a": r.wasm(t, "faulty.wasm"), "pulled": r.wasm(t, "static.wasm")}}
	r.push(t, p.ref, p.modules["pulled"])
	r.put(t.Context(), t, configMap, p.modules["a"], "count="+r.url("a")+"\nzone=z1")
	p.kubelet = newKubelet(t, r, "m0", r.hostConfiguration(t, strings.ReplaceAll(pulledProviders, "$REFERENCE", p.ref.String())))
	if limited {
		p.cgroup = newMemoryLimit(t, "pulled")
	}
	p.run(t)
	for provider, module := range p.modules {
		r.until(t.Context(), t, p.template, provider+" is recorded", func() (bool, string) {
			seen := r.keptBy(t.Context(), provider, "record")
			return seen == digest(module), seen
		})
	}
	return p
}

// move has the tag stand for the image that expands.
func (p *pulled) move(t *testing.T) {
	t.Helper()
	data, err := compress(sparse.Tar(sparse.PAX01, "config.yaml", holes, holeSize))
	if err != nil {
		t.Fatal(err)
	}
	image, err := mutate.AppendLayers(mutate.MediaType(empty.Image, types.OCIManifestSchema1), static.NewLayer(data, types.OCILayer))
	if err == nil {
		err = remote.Write(p.ref.Reference, image, remote.WithContext(t.Context()))
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("a layer of %d bytes is %d MiB", len(data), holes*holeSize>>20)
}

// refuses waits until the status and the log of the manager say what is wrong with
// the layer, or until it has ended: that is in the restarts.
func (p *pulled) refuses(t *testing.T) {
	t.Helper()
	m, says := p.manager(), map[string]any{}
	for deadline := time.Now().Add(patience); m != nil && !m.ended() && pause(t.Context(), interval); {
		err := p.rig.told(t.Context(), "pulled", "status", &says)
		if strings.Contains(fmt.Sprint(says), "sparse") && strings.Contains(readFile(m.logPath), "sparse") {
			return
		}
		if time.Now().After(deadline) {
			t.Errorf("the layer is not refused: %v, %v", says, err)
			return
		}
	}
}

// bothServe waits until both modules do, for objects that are new.
func (p *pulled) bothServe(t *testing.T) {
	t.Helper()
	p.rig.until(t.Context(), t, p.template, "both modules serve", func() (bool, string) {
		m := p.manager()
		if m == nil {
			return false, "it does not run"
		}
		text, err := m.metrics(p.rig.scrape)
		for _, module := range p.modules {
			if !serves(text, module) {
				return false, fmt.Sprint(err, grep(text, "wasm_ccm_provider_serving"))
			}
		}
		return true, ""
	})
	p.rig.node(t.Context(), t, "a", fmt.Sprintf("machine-%d", time.Now().UnixNano()))
	p.rig.awaitInitialized(t.Context(), t, p.template)
}

func (p *pulled) blamesNobody(t *testing.T) {
	t.Helper()
	for provider := range p.modules {
		if suspects, err := p.rig.suspects(t.Context(), provider); err != nil || len(suspects) > 0 {
			t.Errorf("of %s are suspected %v, %v", provider, suspects, err)
		}
	}
}

// peak is the most memory that a manager's process has had, in bytes; 0 where it
// does not run.
func peak(m *manager) (most int) {
	if m == nil {
		return 0
	}
	for lines := bufio.NewScanner(strings.NewReader(readFile(fmt.Sprintf("/proc/%d/status", m.cmd.Process.Pid)))); lines.Scan(); {
		if _, err := fmt.Sscanf(lines.Text(), "VmHWM: %d kB", &most); err == nil {
			return most << 10
		}
	}
	return 0
}

// serves reads the metrics of a manager.
func serves(metrics string, module []byte) bool {
	hex := strings.TrimPrefix(digest(module), "sha256:")
	return slices.ContainsFunc(strings.Split(metrics, "\n"), func(line string) bool {
		return strings.HasPrefix(line, "wasm_ccm_provider_serving{") && strings.Contains(line, hex) && strings.HasSuffix(line, " 1")
	})
}
