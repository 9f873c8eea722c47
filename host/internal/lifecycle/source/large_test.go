package source_test

import (
	"bytes"
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/klauspost/compress/zstd"
	corev1 "k8s.io/api/core/v1"

	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/source"
)

// packed is data as the program zstd packs a file: with its size.
func packed(t *testing.T, data []byte) []byte {
	t.Helper()
	z, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	return z.EncodeAll(data, nil)
}

// A module near the limit is held once while it is decompressed, and a file
// that lies about its size costs no more than what it holds.
func TestLargeModulesAreHeldOnce(t *testing.T) {
	const size = 20 << 20
	noise := make([]byte, size)
	r := rand.New(rand.NewPCG(1, 2))
	for i := range noise {
		noise[i] = byte(r.Uint32())
	}
	lying := gzipped(t, noise[:1<<20])
	copy(lying[len(lying)-4:], "\xff\xff\xff\x00") // the checksum of the size is wrong then
	for name, test := range map[string]struct {
		key, reason string
		data        []byte
		most        uint64
	}{
		"gzip":       {"a.wasm.gz", "", gzipped(t, noise), size + 4<<20},
		"zstd":       {"a.wasm.zst", "", packed(t, noise), size + 12<<20}, // and its window
		"a lie":      {"a.wasm.gz", source.ReasonModuleCompressionInvalid, lying, 24 << 20},
		"not packed": {"a.wasm", "", noise, 1 << 20},
	} {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			bundle, err := source.Join(&corev1.ConfigMap{BinaryData: map[string][]byte{test.key: test.data}}, nil, source.Limits{MaxModule: 64 << 20, MaxCompressed: 64 << 20})
			runtime.ReadMemStats(&after)
			if taken := after.TotalAlloc - before.TotalAlloc; taken > test.most {
				t.Errorf("%d bytes are allocated for a module of %d, more than %d", taken, len(test.data), test.most)
			}
			if test.reason != "" {
				checkError(t, err, test.reason, "")
			} else if err != nil || !bytes.Equal(bundle.Module, noise) {
				t.Errorf("error %v, or the module is another", err)
			}
		})
	}
}
