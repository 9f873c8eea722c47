package enginetest

import (
	"encoding/hex"
	"testing"

	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/engine"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/meter"
)

// feature is the least module that uses it, in hex, without the header.
type feature struct{ name, module string }

// accepted are features of WebAssembly 2.0.
func accepted() []feature {
	return []feature{
		{"multi value", "0106016000027f7e030201000a08010600410142010b"},
		{"simd", "0105016000017b030201000a2a012800fd0c00000000000000000000000000000000fd0c00000000000000000000000000000000fd6e0b"},
		{"reference types", "010401600000030201000404016f00010a09010700410025001a0b"},
		{"bulk memory", "0104016000000302010005030100010a0d010b00410041004100fc0b000b"},
		{"sign extension", "0105016000017f030201000a070105004100c00b"},
		{"saturating conversion", "0105016000017f030201000a0b0109004300000000fc000b"},
		{"mutable global", "0606017f0141000b07050101670300"},
	}
}

// refused are features of later versions.
func refused() []feature {
	return []feature{
		{"shared memory", "050401030101"},
		{"atomics", "0104016000000302010005030100010a0b0109004100fe1002001a0b"},
		{"tail call", "010401600000030201000a0601040012000b"},
		{"two memories", "05050200010001"},
		{"64 bit memory", "0503010401"},
		{"page size", "050401080100"},
		{"exception tag", "01050160017f000d03010000"},
		{"exception handler", "010401600000030201000a080106000640190b0b"},
		{"function references", "01080260000060010000030201010a040102000b"},
		{"struct type", "0103015f00"},
		{"relaxed simd", "01070160027b7b017b030201000a0b01090020002001fd80020b"},
		{"wide arithmetic", "010a0160047e7e7e7e027e7e030201000a0e010c002000200120022003fc130b"},
		{"extended constant", "0609017f00410141026a0b"},
	}
}

// features holds each engine to the same set of WebAssembly features. The meter refuses
// features that an engine cannot turn off.
func (s *suite) features(t *testing.T) {
	compile := func(f feature) error {
		body, err := hex.DecodeString(f.module)
		if err != nil {
			t.Fatal(err)
		}
		wasm, err := meter.Rewrite(append([]byte("\x00asm\x01\x00\x00\x00"), body...), meter.Options{
			ImportModule: engine.RefuelModule, ImportName: engine.RefuelName,
			MaxMemoryPages: 1 << 16, MaxTableElements: 1 << 16,
		})
		if err != nil {
			return err
		}
		m, err := s.newEngine().Compile(t.Context(), wasm, engine.ModuleConfig{MemoryLimitBytes: memoryLimit, Host: host(noHost)})
		if err != nil {
			return err
		}
		return m.Close(t.Context())
	}
	for _, f := range accepted() {
		if err := compile(f); err != nil {
			t.Errorf("%s: %v", f.name, err)
		}
	}
	for _, f := range refused() {
		if err := compile(f); err == nil {
			t.Errorf("%s was accepted", f.name)
		} else {
			t.Logf("%s: %v", f.name, err)
		}
	}
}
