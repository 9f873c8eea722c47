package hostile_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/abi/manifest"
	"github.com/wasm-ccm/wasm-ccm/host/internal/cloud/provider"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/plugin"
)

// corruptCases are modules that are damaged, and manifests.
func corruptCases() []hostileCase {
	return append(manifestCases(),
		rawCase("raw_empty", "not a WebAssembly module", ""),
		rawCase("raw_text", "not a WebAssembly module", "#!/bin/sh\nreboot\n"),
		rawCase("raw_header", "damaged or truncated", "\x00asm\x01"),
		rawCase("raw_only_header", "", "\x00asm\x01\x00\x00\x00"),
		rawCase("raw_component", "a WebAssembly component", "\x00asm\x0d\x00\x01\x00"),
		rawCase("raw_version", "is not known", "\x00asm\x02\x00\x00\x00"),
		rawCase("raw_gzip", "not a WebAssembly module", "\x1f\x8b\x08\x00\x00\x00\x00\x00"),
		rawCase("raw_zeros", "not a WebAssembly module", strings.Repeat("\x00", 16<<20)),
		rawCase("raw_section_4g", "unexpected end", "\x00asm\x01\x00\x00\x00\x01\xff\xff\xff\xff\x0f"),
		rawCase("raw_sections", "unknown, stands twice or out of order", "\x00asm\x01\x00\x00\x00\x03\x01\x00\x01\x01\x00"),
		hostileCase{
			name: "truncated", tries: "A module that ends too early, at each of its bytes.", phase: plugin.PhaseVerify,
			custom: truncated,
		},
		hostileCase{
			name: "mutated", tries: "Modules of which a few bytes were changed by chance.", phase: "any",
			custom: mutated,
		},
	)
}

func rawCase(name, want, wasm string) hostileCase {
	return hostileCase{
		name: name, tries: fmt.Sprintf("%.20q instead of a module.", wasm), phase: plugin.PhaseVerify, want: want, raw: true,
		build: func(testing.TB) []byte { return []byte(wasm) },
	}
}

// manifestCases are modules whose manifest is none.
func manifestCases() (all []hostileCase) {
	deep := `{"name":"test","version":"1","abi":{"min":1,"max":1},"ops":[],"configSchema":` + strings.Repeat("[", 30_000) + strings.Repeat("]", 30_000) + `}`
	for _, m := range []struct{ name, want, json string }{
		{"manifest_empty", "", ""},
		{"manifest_text", "", "name: test"},
		{"manifest_null", "", "null"},
		{"manifest_array", "", "[]"},
		{"manifest_deep", "", deep},
		{"manifest_huge", "65536", `{"name":"` + strings.Repeat("x", abi.MaxManifestBytes) + `"}`},
		{"manifest_abi", "ABI 2 to 9", `{"name":"test","version":"1","abi":{"min":2,"max":9},"ops":["instance_exists"]}`},
		{"manifest_name", "", `{"name":"../../x","version":"1","abi":{"min":1,"max":1},"ops":["instance_exists"]}`},
		{"manifest_control", "", `{"name":"test","version":"1\n\u001b[2J","abi":{"min":1,"max":1},"ops":["instance_exists"]}`},
		{"manifest_capability", "", `{"name":"test","version":"1","abi":{"min":1,"max":1},"ops":["instance_exists"],"capabilities":["exec"]}`},
		{"manifest_limits", "", `{"name":"test","version":"1","abi":{"min":1,"max":1},"ops":["instance_exists"],"limits":{"instances":-1}}`},
		{"manifest_not_utf8", "", "{\"name\":\"\xff\xfe\"}"},
	} {
		all = append(all, hostileCase{
			name: m.name, tries: "A manifest that is none, or lies.", phase: plugin.PhaseVerify, want: m.want, raw: true,
			build: func(testing.TB) []byte {
				return append(newBuilt().wasm(), section(0, append(name(abi.ManifestSection), m.json...))...)
			},
		})
	}
	return append(all, hostileCase{
		name: "manifest_two", tries: "Two manifests.", phase: plugin.PhaseVerify, want: "stands twice", raw: true,
		build: func(tb testing.TB) []byte {
			m := testManifest(nil)
			one := section(0, append(name(abi.ManifestSection), encodeManifest(tb, &m)...))
			return append(append(newBuilt().wasm(), one...), one...)
		},
	}, hostileCase{
		name: "manifest_greedy", tries: "A manifest that asks for more memory and instances than there may be.", phase: phaseOp,
		build:    func(testing.TB) []byte { return newBuilt().wasm() },
		manifest: func(m *manifest.Manifest) { m.Limits = manifest.Limits{MemoryBytes: 1 << 32, Instances: 1000} },
	})
}

// truncated loads every beginning of a module that behaves.
func truncated(t *testing.T, loader *plugin.Loader, slot *plugin.Slot, _ time.Time) {
	whole := goodModule(t)
	for n := range whole {
		if _, err := loader.Load(t.Context(), plugin.Bundle{Module: whole[:n]}); err == nil {
			t.Errorf("the first %d of %d bytes load", n, len(whole))
		} else {
			checkText(t, err)
		}
	}
}

// mutated loads modules that were changed by chance. Some of them load, and
// may then do what they like.
func mutated(t *testing.T, loader *plugin.Loader, slot *plugin.Slot, end time.Time) {
	random := rand.New(rand.NewPCG(1, 2))
	loader.Compiler = nil // thousands of them, none of which is large
	limits := loader.Limits
	limits.OpTimeout, limits.LoadTimeout = 20*time.Millisecond, 20*time.Millisecond
	loader.Limits = limits
	seeds := [][]byte{goodModule(t)}
	for _, name := range []string{"double_indirect", "table_grow_many", "memory_init_loop", "cache_values_flood"} {
		c := hostileCase{name: name}
		seeds = append(seeds, c.wasm(t))
	}
	for n := 0; n < 50 || time.Now().Before(end); n++ {
		wasm := bytes.Clone(seeds[n%len(seeds)])
		for range 1 + random.IntN(4) {
			wasm[8+random.IntN(len(wasm)-8)] = byte(random.Uint32())
		}
		g, err := loader.Load(t.Context(), plugin.Bundle{Module: wasm})
		var e *plugin.LoadError
		switch {
		case err != nil && !errors.As(err, &e):
			t.Errorf("error %v is not a LoadError", err)
		case err != nil:
			checkText(t, err)
		default:
			slot.Swap(t.Context(), g)
			_, _ = run(t.Context(), provider.New(slot), abi.OpInstanceExists) // it may even say that it is gone
		}
	}
}
