package manager

import (
	"bytes"
	"testing"

	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/provenance"
	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/source"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/plugin"
)

// A module is read once per provenance, not at each report.
func TestAdmissionReadsOnce(t *testing.T) {
	module := []byte("module")
	pinned := func() *provenance.Policy {
		policy, err := provenance.New([]string{provenance.Digest(module)}, nil)
		if err != nil {
			t.Fatal(err)
		}
		return policy
	}
	g := &plugin.Generation{}
	b := &belongings{bundle: source.Bundle{Module: module}}
	l := &providerLoader{current: terms{provenance: pinned()}, loaded: map[*plugin.Generation]*belongings{g: b}}
	if err := l.admits(g); err != nil {
		t.Fatal(err)
	}
	b.bundle.Module = []byte("never read")
	if err := l.admits(g); err != nil {
		t.Errorf("read again: %v", err)
	}
	l.current.provenance = pinned()
	if err := l.admits(g); err == nil {
		t.Error("another provenance judges anew")
	}
}

// A large module in a file is admitted like one in memory.
func TestALargeModuleIsAdmitted(t *testing.T) {
	store, err := source.NewStore(t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	module := []byte("module")
	file, err := store.Put(bytes.NewReader(module), 100)
	if err != nil {
		t.Fatal(err)
	}
	for name, bundle := range map[string]source.Bundle{"in memory": {Module: module}, "in a file": {File: file}} {
		for digest, admitted := range map[string]bool{provenance.Digest(module): true, provenance.Digest(nil): false} {
			policy, err := provenance.New([]string{digest}, nil)
			if err != nil {
				t.Fatal(err)
			}
			g := &plugin.Generation{}
			l := &providerLoader{current: terms{provenance: policy}, loaded: map[*plugin.Generation]*belongings{g: {bundle: bundle}}}
			if err := l.admits(g); (err == nil) != admitted {
				t.Errorf("%s, %s pinned: %v", name, digest, err)
			}
		}
	}
}
