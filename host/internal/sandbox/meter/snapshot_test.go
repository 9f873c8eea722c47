package meter_test

import (
	"strings"
	"testing"

	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/meter"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/wasmbin"
)

// resuming makes a module with a table, a memory, passive segments and this
// section of globals, that exports its only function, under this name.
func resuming(name, globals string, code ...byte) []byte {
	part := func(id byte, content string) string {
		return string(id) + string(wasmbin.AppendU32(nil, uint32(len(content)))) + content
	}
	body := "\x00" + string(code) + "\x0b"
	return []byte("\x00asm\x01\x00\x00\x00" +
		part(wasmbin.SectionType, "\x01\x60\x00\x00") +
		part(wasmbin.SectionFunction, "\x01\x00") +
		part(wasmbin.SectionTable, "\x01\x70\x00\x01") +
		part(wasmbin.SectionMemory, "\x01\x00\x01") +
		part(wasmbin.SectionGlobal, globals) +
		part(wasmbin.SectionExport, "\x01"+string(rune(len(name)))+name+"\x00\x00") +
		part(wasmbin.SectionElement, "\x01\x01\x00\x01\x00") +
		part(wasmbin.SectionDataCount, "\x01") +
		part(wasmbin.SectionCode, "\x01"+string(rune(len(body)))+body) +
		part(wasmbin.SectionData, "\x01\x01\x03abc"))
}

// keptGlobals counts the globals that a metered module exports for snapshots.
func keptGlobals(t *testing.T, wasm []byte) (n int) {
	t.Helper()
	large := options
	large.Resume, large.Globals = "resume", "global_"
	metered, err := meter.Rewrite(wasm, large)
	if err != nil {
		t.Fatal(err)
	}
	m, err := wasmbin.Parse(metered)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range m.Exports {
		if strings.HasPrefix(string(e.Name), large.Globals) {
			if e.Kind != wasmbin.KindGlobal || !m.Globals[e.Index].Mutable {
				t.Errorf("export %q is %s %d", e.Name, e.Kind, e.Index)
			}
			n++
		}
	}
	return n
}

// A module whose instances have state that a host cannot copy exports no globals,
// and all of the mutable ones otherwise: two are the meter's.
func TestGlobalsOfSnapshots(t *testing.T) {
	const none, two = "\x00", "\x03\x7f\x01\x41\x00\x0b\x7e\x00\x42\x00\x0b\x7d\x01\x43\x00\x00\x00\x00\x0b"
	for name, test := range map[string]struct {
		export, globals string
		code            string
		want            int
	}{
		"none of its own":    {"resume", none, "", 2},
		"two":                {"resume", two, "", 4},
		"not asked for":      {"begin", two, "", 0},
		"a vector":           {"resume", "\x01\x7b\x01\xfd\x0c" + strings.Repeat("\x00", 16) + "\x0b", "", 0},
		"a constant vector":  {"resume", "\x01\x7b\x00\xfd\x0c" + strings.Repeat("\x00", 16) + "\x0b", "", 2},
		"a reference":        {"resume", "\x01\x70\x01\xd0\x70\x0b", "", 0},
		"memory.init":        {"resume", two, "\x41\x00\x41\x00\x41\x00\xfc\x08\x00\x00", 4},
		"table.get":          {"resume", two, "\x41\x00\x25\x00\x1a", 4},
		"data.drop":          {"resume", two, "\xfc\x09\x00", 0},
		"table.set":          {"resume", two, "\x41\x00\xd0\x70\x26\x00", 0},
		"table.grow":         {"resume", two, "\xd0\x70\x41\x01\xfc\x0f\x00\x1a", 0},
		"table.fill":         {"resume", two, "\x41\x00\xd0\x70\x41\x00\xfc\x11\x00", 0},
		"table.copy":         {"resume", two, "\x41\x00\x41\x00\x41\x00\xfc\x0e\x00\x00", 0},
		"table.init":         {"resume", two, "\x41\x00\x41\x00\x41\x00\xfc\x0c\x00\x00", 0},
		"elem.drop":          {"resume", two, "\xfc\x0d\x00", 0},
		"code that is dead":  {"resume", two, "\x00\xfc\x0d\x00", 0},
		"hidden behind else": {"resume", two, "\x41\x00\x04\x40\x05\xfc\x09\x00\x0b", 0},
	} {
		if got := keptGlobals(t, resuming(test.export, test.globals, []byte(test.code)...)); got != test.want {
			t.Errorf("%s: %d globals are exported, want %d", name, got, test.want)
		}
	}
}

// No module passes off its own as what the meter exports, whether or not there
// can be snapshots of it.
func TestNamesOfTheMetersGlobalsAreRefused(t *testing.T) {
	reserved := options
	reserved.Resume, reserved.Globals = "resume", "global_"
	for _, name := range []string{"global_0", "global_", "global_x"} {
		_, err := meter.Rewrite(resuming(name, "\x00"), reserved)
		if err == nil || !strings.Contains(err.Error(), "are the host's own") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := meter.Rewrite(resuming("global", "\x00"), reserved); err != nil {
		t.Error(err)
	}
}
