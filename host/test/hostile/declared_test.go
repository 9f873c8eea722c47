package hostile_test

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/compile"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/engine"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/plugin"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/wasmbin"
)

// What a module may hold of the manager's memory, and what each of its
// instances may, beside its linear memory. A table of the largest size is 8
// MiB.
const (
	mostOfModule   = 64 << 20
	mostOfInstance = 12 << 20
)

// declaration is a module that declares as much of something as it may.
type declaration struct {
	name   string
	change func(*built)
}

// TestDeclarationsAreBounded looks at what a module and its instances hold of
// the manager that declares as much as it may.
func TestDeclarationsAreBounded(t *testing.T) {
	if testing.Short() {
		t.Skip("make test-all runs it")
	}
	for _, e := range engines() {
		t.Run(e.name, func(t *testing.T) {
			var text strings.Builder
			w := tabwriter.NewWriter(&text, 0, 0, 2, ' ', tabwriter.AlignRight)
			fmt.Fprintln(w, "declared\tmodule KiB\tmetered in\tcompiled in\theld by module KiB\tby instance KiB\tinstantiated in\tends with\t")
			for _, d := range declarations() {
				b := newBuilt()
				d.change(b)
				row, problem := measureDeclared(t, e, b.wasm())
				// What others do to the machine, and so to the garbage collector, does not repeat.
				for try := 1; problem != "" && try < 3; try++ {
					row, problem = measureDeclared(t, e, b.wasm())
				}
				if problem != "" {
					t.Errorf("%s: %s", d.name, problem)
				}
				fmt.Fprintf(w, "%s\t%s\t\n", d.name, row)
			}
			w.Flush()
			t.Logf("what is declared at its limit:\n%s", text.String())
		})
	}
}

// measureDeclared returns a row of the table, and what is wrong with it.
func measureDeclared(t *testing.T, e engineCase, wasm []byte) (row, problem string) {
	start := time.Now()
	cacheDir := t.TempDir()
	if err := os.Chmod(cacheDir, 0o700); err != nil {
		t.Fatal(err)
	}
	var took time.Duration
	outline, err := compiler(t, cacheDir).Prepare(t.Context(), compile.Job{Wasm: wasm, Digest: plugin.Bundle{Module: wasm}.Digests().Module, Meter: meterOptions(), Engine: e.name, Metered: func() { took = time.Since(start) }})
	compiled := time.Since(start) - took
	if err != nil {
		return fmt.Sprintf("%d\t%v\t%v\t\t\t\t%.60s", len(wasm)>>10, took.Round(time.Millisecond), compiled.Round(time.Millisecond), err), ""
	}
	before := settled(t)
	m, err := e.make(cacheDir).Compile(t.Context(), outline, engine.ModuleConfig{MemoryLimitBytes: memoryLimit, Host: newWorld(false).host})
	if err != nil {
		return fmt.Sprintf("%d\t%v\t%v\t\t\t\t%.60s", len(wasm)>>10, took.Round(time.Millisecond), compiled.Round(time.Millisecond), err), ""
	}
	module := settled(t)
	var instances []engine.Instance
	start = time.Now()
	for range instanceLimit {
		i, err := m.Instantiate(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		instances = append(instances, i)
	}
	each := time.Since(start) / instanceLimit
	all := settled(t)
	for _, i := range instances {
		i.Close(t.Context())
	}
	m.Close(t.Context())
	ofModule, ofInstance := before.growth(module), module.growth(all)/instanceLimit
	if ofModule > mostOfModule || ofInstance > mostOfInstance {
		problem = fmt.Sprintf("a module of %d KiB holds %d KiB, each instance %d KiB", len(wasm)>>10, ofModule>>10, ofInstance>>10)
	}
	return fmt.Sprintf("%d\t%v\t%v\t%d\t%d\t%v\t", len(wasm)>>10, took.Round(time.Millisecond), compiled.Round(time.Millisecond), ofModule>>10, ofInstance>>10, each.Round(time.Microsecond)), problem
}

// growth is how much more the process holds.
func (h held) growth(later held) int64 {
	return max(later.heap-h.heap, later.anonymous-h.anonymous)
}

// declarations are one for each limit of internal/wasmbin.
func declarations() []declaration {
	elements := func(n uint32, head []byte, one []byte) []byte {
		return slices.Concat(head, wasmbin.AppendU32(nil, n), bytes.Repeat(one, int(n)))
	}
	refs := []byte{0xd2, 1, 0x0b} // ref.func 1
	return []declaration{
		{"nothing", func(*built) {}},
		{"130 types of 1,000 v128 and as many results", func(b *built) {
			for range 130 {
				b.types = append(b.types, typeOf(1000, 1000))
			}
		}},
		{"65,000 types", func(b *built) {
			for i := range 65_000 {
				b.types = append(b.types, typeOf(i%8, 0))
			}
		}},
		{"16,000 exports of a function", func(b *built) {
			for i := range 16_000 {
				b.exports = append(b.exports, append(name(fmt.Sprint(i)), 0, 1))
			}
		}},
		{"16,000 exports with names of 1,000 bytes", func(b *built) {
			for i := range 16_000 {
				b.exports = append(b.exports, append(name(strings.Repeat("x", 990)+fmt.Sprint(i)), 0, 1))
			}
		}},
		{"1,000 imports of a function", func(b *built) {
			for range 1000 {
				b.imports = append(b.imports, b.imports[0])
			}
		}},
		{"100,000 functions", func(b *built) {
			for range 100_000 {
				b.function(typeNone, nil, nil)
			}
		}},
		{"260,000 functions", func(b *built) {
			for range 260_000 {
				b.function(typeNone, nil, nil)
			}
		}},
		{"4,000 globals of v128", func(b *built) {
			for range 4000 {
				b.globals = append(b.globals, slices.Concat([]byte{0x7b, 1, 0xfd, 12}, make([]byte, 16), []byte{0x0b}))
			}
		}},
		{"4,000 globals of functions", func(b *built) {
			for range 4000 {
				b.globals = append(b.globals, slices.Concat([]byte{0x70, 1}, refs))
			}
		}},
		{"a table of 1,048,576", func(b *built) { b.tables = [][]byte{wasmbin.AppendU32([]byte{0x70, 0}, tableLimit)} }},
		{"130,000 elements, active", func(b *built) {
			b.tables = [][]byte{wasmbin.AppendU32([]byte{0x70, 0}, 130_000)}
			b.elements = [][]byte{elements(130_000, []byte{0, 0x41, 0, 0x0b}, []byte{1})}
		}},
		{"130,000 elements, passive", func(b *built) { b.elements = [][]byte{elements(130_000, []byte{1, 0}, []byte{1})} }},
		{"130,000 elements, declared", func(b *built) { b.elements = [][]byte{elements(130_000, []byte{3, 0}, []byte{1})} }},
		{"130,000 elements by expressions", func(b *built) { b.elements = [][]byte{elements(130_000, []byte{5, 0x70}, refs)} }},
		{"65,000 element segments", func(b *built) {
			for range 65_000 {
				b.elements = append(b.elements, []byte{1, 0, 0})
			}
		}},
		{"130,000 data segments", func(b *built) {
			for range 130_000 {
				b.datas = append(b.datas, []byte{1, 0})
			}
		}},
		{"50 MiB of data", func(b *built) {
			b.datas = append(b.datas, append(wasmbin.AppendU32([]byte{1}, 50<<20), make([]byte, 50<<20)...))
		}},
		{"a branch of 20,000 labels", func(b *built) {
			b.function(typeNone, nil, slices.Concat([]byte{0x02, 0x40, 0x41, 0, 0x0e}, wasmbin.AppendU32(nil, 20_000), make([]byte, 20_001), []byte{0x0b}))
		}},
		{"50 MiB of a custom section", func(b *built) { b.before = section(0, append(name("x"), make([]byte, 50<<20)...)) }},
	}
}

// typeOf is a type of so many parameters and results.
func typeOf(params, results int) []byte {
	return slices.Concat([]byte{0x60}, name(strings.Repeat("\x7b", params)), name(strings.Repeat("\x7b", results)))
}
