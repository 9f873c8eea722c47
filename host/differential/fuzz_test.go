package differential_test

import "testing"

// FuzzWazero compares our decoder and meter with wazero.
func FuzzWazero(f *testing.F) {
	addSeeds(f)
	readers := []reader{newWazero(f)}
	f.Fuzz(func(t *testing.T, wasm, decisions []byte) { judge(t, readers, mutate(wasm, decisions)) })
}
