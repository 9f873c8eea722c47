package snapshot_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/plugin"
	"github.com/wasm-ccm/wasm-ccm/host/test/requests"
)

// TestKeysDiffer: crypto/rand draws other numbers in each instance, also where
// all of them begin as one and the same. Compiled by TinyGo and by stock Go.
func TestKeysDiffer(t *testing.T) {
	for _, name := range []string{"faulty.wasm", "faulty-debug.wasm"} {
		if testing.Short() && name != "faulty.wasm" {
			continue // make test-all has it: it takes seconds to compile
		}
		t.Run(name, func(t *testing.T) {
			slot, _, w := load(t, newEngine(t.TempDir()), plugin.Bundle{Module: guestOf(t, name), Config: []byte("zone=random")}, false)
			drawn := map[string]bool{}
			const n = 16
			for range n {
				request := requests.Instance("m1", func(*corev1.Node) {})
				response := &abi.InstanceMetadataResponse{}
				if err := slot.InvokeFresh(t.Context(), abi.OpInstanceMetadata, request, response); err != nil {
					t.Fatal(err)
				}
				drawn[response.Metadata.Zone] = true
			}
			if len(drawn) != n {
				t.Errorf("%d instances drew %d keys: %v", n, len(drawn), drawn)
			}
			if born := w.created.Load() - w.configured.Load(); born < n-1 {
				t.Errorf("only %d instances began as snapshots", born)
			}
		})
	}
}
