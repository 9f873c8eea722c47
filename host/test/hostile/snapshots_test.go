package hostile_test

import (
	"bytes"
	"testing"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/wasmbin"
)

// TestHostileSnapshots runs every hostile module again, as one whose instances
// may begin as snapshots: nothing about how it ends is another thing.
func TestHostileSnapshots(t *testing.T) { runHostile(t, resumable) }

// resumable exports what is never called as what is called when an instance
// begins as a snapshot. A module without the marker, or with one that does
// something, stays as it is.
func resumable(wasm []byte) []byte {
	m, err := wasmbin.Parse(wasm)
	if err != nil {
		return wasm
	}
	for _, e := range m.Exports {
		if string(e.Name) == abi.ExportMarker && e.Kind == wasmbin.KindFunc && isEmpty(m, e.Index) {
			return withExport(wasm, m, abi.ExportResume, e.Index)
		}
	}
	return wasm
}

func isEmpty(m *wasmbin.Module, function uint32) bool {
	const noLocals, end = "\x00", "\x0b"
	body := int(function) - int(m.ImportedFunctions)
	return body >= 0 && body < len(m.Bodies) && string(m.Bodies[body].Data) == noLocals+end
}

// withExport adds an export of a function.
func withExport(wasm []byte, m *wasmbin.Module, name string, index uint32) []byte {
	r := &wasmbin.Reader{Data: wasm, Pos: len(wasmbin.Header())}
	for r.More() {
		start := r.Pos
		id := r.Byte()
		content := r.Part(r.U32())
		if id != wasmbin.SectionExport {
			continue
		}
		content.U32()
		entries := wasmbin.AppendU32(nil, uint32(len(m.Exports)+1))
		entries = append(entries, content.Data[content.Pos:]...)
		entries = append(append(wasmbin.AppendU32(entries, uint32(len(name))), name...), byte(wasmbin.KindFunc))
		entries = wasmbin.AppendU32(entries, index)
		section := append(wasmbin.AppendU32([]byte{id}, uint32(len(entries))), entries...)
		return bytes.Join([][]byte{wasm[:start], section, wasm[r.Pos:]}, nil)
	}
	return wasm
}

// TestResumable: the modules that run are those that are meant.
func TestResumable(t *testing.T) {
	m, err := wasmbin.Parse(resumable(goodModule(t)))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range m.Exports {
		if string(e.Name) == abi.ExportResume {
			return
		}
	}
	t.Error("it is not exported")
}
