package manager

import (
	"bytes"
	"testing"

	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/provenance"
	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/source"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/plugin"
)

// A large module, which is a file, is admitted as one in memory is.
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
