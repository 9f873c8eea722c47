package meter

import (
	"bytes"
	"runtime"
	"strings"
	"testing"

	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/wasmbin"
)

// repeated is a module of so many functions () -> (), each the same code again and
// again.
func repeated(functions int, head, code []byte, bodyBytes int) []byte {
	u32 := wasmbin.AppendU32
	section := func(out []byte, id byte, content []byte) []byte {
		return append(u32(append(out, id), uint32(len(content))), content...)
	}
	out := wasmbin.Header()
	out = section(out, 1, []byte{1, 0x60, 0, 0})
	content := u32(nil, uint32(functions))
	content = append(content, make([]byte, functions)...)
	out = section(out, 3, content)
	out = section(out, 5, []byte{1, 0, 1})
	out = section(out, 12, []byte{1})
	body := append(bytes.Clone(head), bytes.Repeat(code, (bodyBytes-len(head)-1)/len(code))...)
	body = append(body, 0x0b)
	content = u32(nil, uint32(functions))
	for range functions {
		content = append(u32(content, uint32(len(body))), body...)
	}
	return section(section(out, 10, content), 11, []byte{1, 1, 0})
}

// What is added for each loop is many times as large as the shortest loop. The
// manager holds what is written, so a small archive must not become gigabytes.
func TestModulesOfLoopsDoNotFillTheManager(t *testing.T) {
	for name, c := range map[string]struct {
		head, code []byte
		refused    bool
	}{
		"loops":  {[]byte{0}, []byte{3, 0x40, 0x0b}, true},                                      // loop end
		"fills":  {[]byte{0}, []byte{0x41, 0, 0x41, 0, 0x41, 0, 0xfc, 8, 0, 0}, true},           // memory.init 0, 0, 0
		"blocks": {[]byte{1, 0x80, 0x20, 0x7f}, []byte{2, 0x40, 0x41, 0, 0x21, 0, 0x0b}, false}, // block local.set end
	} {
		wasm := repeated(4, c.head, c.code, 4<<20)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := Rewrite(wasm, Options{ImportModule: "m", ImportName: "n", MaxMemoryPages: 100, MaxTableElements: 100})
		runtime.ReadMemStats(&after)
		if refused := err != nil && strings.Contains(err.Error(), "unusually many loops"); refused != c.refused {
			t.Errorf("%s: error %v", name, err)
		}
		if n := after.TotalAlloc - before.TotalAlloc; c.refused && n > 20*uint64(len(wasm)) {
			t.Errorf("%s: %d bytes allocated for %d", name, n, len(wasm))
		}
	}
}
