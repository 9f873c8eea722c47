package hostile_test

import (
	"encoding/binary"
	"math/rand/v2"
	"slices"

	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/plugin"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/wasmbin"
)

// largeBytes is nearly the largest module that is taken (64 MiB).
const largeBytes = 60 << 20

// largeCases are modules near the limit of their size, which do nothing else:
// how often the manager holds them at the same time is what is measured.
func largeCases() []hostileCase {
	// Nothing of it is the same, so that nothing is held compressed.
	noise := func() []byte {
		data := make([]byte, largeBytes)
		r := rand.New(rand.NewPCG(1, 2))
		for at := range slices.Chunk(data, 8) {
			binary.LittleEndian.PutUint64(at, r.Uint64())
		}
		return data
	}
	large := func(name, tries string, change func(*built)) hostileCase {
		c := builtCase(name, tries, plugin.PhaseCompile, "compiling", change)
		// Beside the one that was offered, which the test holds: the metered
		// one and what the engine keeps of it. wasmtime reads its machine code,
		// with the data, from a file into memory first.
		c.either, c.growth = true, 2*largeBytes>>20+40
		if engines()[0].name == "wasmtime" {
			c.growth += largeBytes >> 20
		}
		return c
	}
	return []hostileCase{
		large("large_data", "60 MiB of data that is copied by the guest when it likes.", func(b *built) {
			b.datas = append(b.datas, append(wasmbin.AppendU32([]byte{1}, largeBytes), noise()...))
		}),
		large("large_custom", "A custom section of 60 MiB.", func(b *built) {
			b.before = section(0, append(name("x"), noise()...))
		}),
	}
}
