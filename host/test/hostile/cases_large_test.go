package hostile_test

import (
	"encoding/binary"
	"math/rand/v2"
	"slices"

	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/plugin"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/wasmbin"
)

// largeBytes is nearly the largest module that is taken: by default (64 MiB), or
// at all.
func largeBytes() int {
	if raised() {
		return 250 << 20
	}
	return 60 << 20
}

// largeCases are modules near the limit of their size, which do nothing else:
// how often the manager holds them at the same time is what is measured.
func largeCases() []hostileCase {
	// Nothing of it is the same, so that nothing is held compressed.
	noise := func() []byte {
		data := make([]byte, largeBytes())
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
		c.either, c.growth = true, int64(2*largeBytes()>>20+40)
		if engines()[0].name == "wasmtime" {
			c.growth += int64(largeBytes() >> 20)
		}
		return c
	}
	return []hostileCase{
		large("large_data", "60 MiB (250 at the raised limits) of data that is copied by the guest when it likes.", func(b *built) {
			b.datas = append(b.datas, append(wasmbin.AppendU32([]byte{1}, uint32(largeBytes())), noise()...))
		}),
		large("large_custom", "A custom section of 60 MiB, or 250.", func(b *built) {
			b.before = section(0, append(name("x"), noise()...))
		}),
	}
}
