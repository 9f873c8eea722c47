package plugin

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/engine"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/meter"
)

func scrubbed(text string) string { return strings.ReplaceAll(text, "hunter2", "[scrubbed]") }

func TestWhatIsToldOfACrash(t *testing.T) {
	trap := errors.New("the guest trapped: wasm error: unreachable")
	long := strings.Repeat("x", 2000)
	for name, c := range map[string]struct {
		said  string
		scrub func(string) string
		want  string // behind the trap
	}{
		"nothing":             {"", scrubbed, ""},
		"a panic":             {"panic: nil map\n", scrubbed, `; it wrote "panic: nil map"`},
		"words before it":     {"one\ntwo\npanic: nil map\n", scrubbed, `; it wrote "panic: nil map"`},
		"stock Go":            {"x\npanic: p\n\ngoroutine 1 [running]:\nmain.f()\n\t/a/main.go:7 +0x1\n", scrubbed, `; it wrote "panic: p; ; goroutine 1 [running]:; main.f();  /a/main.go:7 +0x1"`},
		"Rust":                {"x\nthread 'main' panicked at src/lib.rs:3:5:\nboom\n", scrubbed, `; it wrote "thread 'main' panicked at src/lib.rs:3:5:; boom"`},
		"out of memory":       {"fatal error: out of memory\n", scrubbed, `; it wrote "fatal error: out of memory"`},
		"the last words":      {"one\ntwo\n", scrubbed, `; it wrote "one; two"`},
		"too many words":      {long + "\nthe end\n", scrubbed, `; it wrote "the end"`},
		"one long line":       {long, scrubbed, `; it wrote "` + long[:1024] + `"`},
		"a long panic":        {"panic: " + long, scrubbed, `; it wrote "panic: ` + long[:1014] + `..."`},
		"a secret":            {"panic: hunter2\n", scrubbed, `; it wrote "panic: [scrubbed]"`},
		"a secret at the cut": {"panic: " + long[:1011] + "hunter2", scrubbed, `; it wrote "panic: ` + long[:1011] + `[sc..."`},
		"escapes":             {"panic: \x1b[2J\x00\xff\u202e\n", scrubbed, `; it wrote "panic: ?[2J???"`},
		"nobody scrubs":       {"panic: hunter2\n", nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			err := crashes{&meter.Symbols{}, c.scrub}.explain(fmt.Errorf("_initialize: %w", &engine.Crash{Err: trap, Said: []byte(c.said)}))
			if got := err.Error(); got != "_initialize: "+trap.Error()+c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
			if !errors.Is(err, trap) {
				t.Error("it is not the trap any more")
			}
			var raw *engine.Crash
			if !errors.As(err, &raw) || raw.Said != nil {
				t.Errorf("what was not scrubbed is still in the error: %q", raw.Said)
			}
		})
	}
	if err := (crashes{}).explain(trap); err != trap { //nolint:errorlint // identity is tested
		t.Errorf("%v, want the error as it was", err)
	}
}

func TestPathsOfPackagesAreLeftOut(t *testing.T) {
	for name, want := range map[string]string{
		"main.f":                          "main.f",
		"(*main.provider).InstanceExists": "(*main.provider).InstanceExists",
		"(*github.com/wasm-ccm/wasm-ccm/guests/sdk.Server).Call":              "(*sdk.Server).Call",
		"example.com/a/b.Map[example.com/c.Key,map[string]example.com/d.V].X": "b.Map[c.Key,map[string]d.V].X",
		"core::fmt::Display": "core::fmt::Display",
		"<a::B as c::D>::e":  "<a::B as c::D>::e",
		"function 7":         "function 7",
		"a/":                 "",
		"":                   "",
		"runtime.alloc$1":    "runtime.alloc$1",
	} {
		if got := shorten(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
}

// FuzzCrash: whatever a guest writes, the error is one line within bounds, and
// holds nothing that was to be scrubbed.
func FuzzCrash(f *testing.F) {
	f.Add("panic: nil map\n", "main.f")
	f.Add(strings.Repeat("hunter2\n", 300), "(*a/b/c.D[e/f.G]).H")
	f.Fuzz(func(t *testing.T, said, name string) {
		err := crashes{&meter.Symbols{}, scrubbed}.explain(&engine.Crash{Err: errors.New("trap"), Said: []byte(said)})
		text := err.Error()
		if len(text) > 2*maxSaidBytes || !utf8.ValidString(text) || strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) {
			t.Errorf("%d bytes: %q", len(text), text)
		}
		if strings.Contains(text, "hunter2") {
			t.Errorf("%q holds the secret", text)
		}
		if short := shorten(name); len(short) > len(name) {
			t.Errorf("%q is %q", name, short)
		}
	})
}
