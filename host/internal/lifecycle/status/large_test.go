package status

import (
	"errors"
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/source"
)

// A bundle that does not fit is known not to fit before all of it is packed,
// and none of it is copied.
func TestPackingALargeBundleTakesLittle(t *testing.T) {
	noise := make([]byte, 60<<20)
	r := rand.New(rand.NewPCG(1, 2))
	for i := range noise {
		noise[i] = byte(r.Uint32())
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, _, err := pack(source.Bundle{Module: noise})
	runtime.ReadMemStats(&after)
	if taken := (after.TotalAlloc - before.TotalAlloc) >> 20; !errors.Is(err, ErrTooLarge) || taken > 48 {
		t.Errorf("error %v, and %d MiB are allocated for a module of 60 MiB", err, taken)
	}
}

// What is packed is what comes back, whatever pieces there are.
func TestPackedPiecesComeBack(t *testing.T) {
	for _, bundle := range []source.Bundle{
		{Module: []byte("module"), Revision: "r"},
		{Module: make([]byte, 3<<20), Config: []byte("config"), Signature: []byte("signature"), Revision: "r"},
		{Module: []byte("m"), Config: []byte{}, Revision: "r"},
	} {
		x, parts, err := pack(bundle)
		if err != nil {
			t.Fatal(err)
		}
		var packed []byte
		for _, part := range parts {
			packed = append(packed, part...)
		}
		content, err := source.Unpack(packed, int64(x.bytes()))
		if err != nil {
			t.Fatal(err)
		}
		got, err := x.split(content)
		if err != nil || string(got.Module) != string(bundle.Module) || string(got.Config) != string(bundle.Config) || string(got.Signature) != string(bundle.Signature) {
			t.Errorf("%d, %q, %q came back: %v", len(got.Module), got.Config, got.Signature, err)
		}
	}
}
