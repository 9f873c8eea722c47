package compile_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"

	"github.com/wasm-ccm/wasm-ccm/host/internal/quota"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/compile"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/engine"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/engine/wazero"
)

// version is that of every engine.
func version(v string) func(string) string { return func(string) string { return v } }

// exported leaves the machine code of modules in a directory, as ccmctl compile does.
func exported(t *testing.T, modules ...[]byte) (dir string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "precompiled")
	p := newParent(t, filepath.Join(t.TempDir(), "build"), nil)
	for _, wasm := range modules {
		if err := p.Export(t.Context(), job(wasm), dir); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// from returns what takes machine code from a directory.
func from(precompiled string, change func(*compile.Options)) func(*compile.Options) {
	return func(o *compile.Options) {
		o.Precompiled = precompiled
		if change != nil {
			change(o)
		}
	}
}

// The machine code of a directory is used, and no child is started: this one
// could only fail, but it is the binary that the code was made by.
func TestPrecompiledModulesAreUsed(t *testing.T) {
	wasm, cacheDir := guest(t, "static.wasm"), filepath.Join(t.TempDir(), "cache")
	p := newParent(t, cacheDir, from(exported(t, emptyModule(), wasm), failingChild))
	outline := prepare(t, p, wasm)
	m, err := wazero.New(wazero.Options{CacheDir: cacheDir, CachedOnly: true}).Compile(t.Context(), outline, engine.ModuleConfig{MemoryLimitBytes: 64 << 20})
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if again := prepare(t, p, wasm); !bytes.Equal(again, outline) {
		t.Error("a second time it is another one")
	}
}

func failingChild(o *compile.Options) { o.Command = append(o.Command[:1:1], "environment-child") }

// What does not fit, or was changed, is compiled anew, with one line in the log
// that says why.
func TestPrecompiledModulesThatDoNotFit(t *testing.T) {
	wasm, other := manyFunctions(3), manyFunctions(4)
	whole := exported(t, wasm, other)
	describe := func(edit func(made map[string]any)) func(*testing.T, string) {
		return func(t *testing.T, dir string) { editDescription(t, filepath.Join(dir, named(wasm)), edit) }
	}
	for name, test := range map[string]struct {
		spoil  func(t *testing.T, dir string)
		change func(*compile.Options)
		reason string
	}{
		"version":   {nil, func(o *compile.Options) { o.Version = version("next") }, "of another version of the engine"},
		"manager":   {describe(func(made map[string]any) { made["manager"] = "0" }), nil, "another binary of the manager"},
		"processor": {describe(func(made map[string]any) { made["processor"] = "0" }), nil, "whose processor has other features"},
		"arch":      {describe(func(made map[string]any) { made["arch"] = "riscv64" }), nil, "whose processor has other features"},
		"limits":    {describe(func(made map[string]any) { inner(made, "meter")["MaxMemoryPages"] = 7 }), nil, "with other limits"},
		"outside":   {describe(func(made map[string]any) { inner(made, "files")["../x"] = "0" }), nil, "is outside of the directory"},
		"no key":    {describe(func(made map[string]any) { made["key"] = "../x" }), nil, "is damaged"},
		"no JSON":   {func(t *testing.T, dir string) { write(t, filepath.Join(dir, named(wasm)), []byte("{")) }, nil, "is damaged"},
		"none":      {func(t *testing.T, dir string) { remove(t, filepath.Join(dir, named(wasm))) }, nil, "no machine code of this module"},
		"writable": {func(t *testing.T, dir string) {
			if err := os.Chmod(filepath.Join(dir, named(wasm)), 0o666); err != nil {
				t.Fatal(err)
			}
		}, nil, "is writable by others"},
		"a directory": {func(t *testing.T, dir string) {
			remove(t, filepath.Join(dir, named(wasm)))
			if err := os.Mkdir(filepath.Join(dir, named(wasm)), 0o700); err != nil {
				t.Fatal(err)
			}
		}, nil, "is not a file"},
		"truncated": {code(wasm, func(b []byte) []byte { return b[:len(b)/2] }), nil, "is not as it was written"},
		"flipped":   {code(wasm, func(b []byte) []byte { b[len(b)/2] ^= 1; return b }), nil, "is not as it was written"},
		"longer":    {code(wasm, func(b []byte) []byte { return append(b, 0) }), nil, "is not as it was written"},
		"gone":      {code(wasm, func([]byte) []byte { return nil }), nil, "no such file"},
		"too large": {nil, func(o *compile.Options) { o.Limits.OutputBytes = 100 }, "has more than 0 MiB"},
		"other's": {func(t *testing.T, dir string) {
			rename(t, filepath.Join(dir, named(other)), filepath.Join(dir, named(wasm)))
		}, nil, "of another module"},
		"other's code": {swapCode(wasm, other), nil, "is not as it was written"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.CopyFS(dir, os.DirFS(whole)); err != nil {
				t.Fatal(err)
			}
			if test.spoil != nil {
				test.spoil(t, dir)
			}
			lines := ktesting.BufferTL{}
			logger := ktesting.NewLogger(&lines, ktesting.NewConfig())
			_, err := newParent(t, filepath.Join(t.TempDir(), "cache"), from(dir, test.change)).Prepare(klog.NewContext(t.Context(), logger), job(wasm))
			if name == "too large" && err != nil && strings.Contains(err.Error(), "machine code is larger") {
				err = nil // here it may not be compiled, either
			}
			if err != nil {
				t.Error(err)
			}
			if said := lines.String(); strings.Count(said, "compiled anew") != 1 || !strings.Contains(said, test.reason) {
				t.Errorf("log %q, want %q", said, test.reason)
			}
		})
	}
}

// What is taken over counts for the cache's quota, and stays while it serves; what
// has no room beside it is not taken over.
func TestPrecompiledModulesKeepTheQuota(t *testing.T) {
	serving, other := manyFunctions(20000), manyFunctions(20001)
	precompiled, dir := exported(t, serving, other), filepath.Join(t.TempDir(), "cache")
	limit := size(t, precompiled)*3/4 + 4<<20 // of the two, one fits
	p := newParent(t, dir, from(precompiled, func(o *compile.Options) {
		failingChild(o)
		o.Quota = quota.New(dir, limit)
	}))
	hold := &compile.Hold{}
	j := job(serving)
	j.Hold = hold
	if _, err := p.Prepare(t.Context(), j); err != nil {
		t.Fatal(err)
	}
	held := files(t, dir)
	if _, err := p.Prepare(t.Context(), job(other)); err == nil {
		t.Error("there is room for two")
	}
	for file := range held {
		if _, err := os.Stat(file); err != nil {
			t.Errorf("what serves is gone: %v", err)
		}
	}
	hold.Release()
	prepare(t, p, other)
	if got := size(t, dir); got > limit {
		t.Errorf("the directory has %d bytes, at most %d are allowed", got, limit)
	}
}

// Whom else can write there could run code as the manager.
func TestPrecompiledModulesAreNobodyElses(t *testing.T) {
	dir := exported(t, emptyModule())
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	_, err = compile.NewParent(compile.Options{Command: []string{self}, Version: version(""), CacheDir: t.TempDir(), Precompiled: dir, Limits: compile.DefaultLimits()})
	if err == nil || !strings.Contains(err.Error(), "is writable by others") {
		t.Errorf("error %v", err)
	}
}

// Who has copied it there, with cp -a, could describe other code.
func TestADescriptionIsNobodyElses(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can give a file to another user")
	}
	wasm := emptyModule()
	dir := exported(t, wasm)
	if err := os.Chown(filepath.Join(dir, named(wasm)), 12345, -1); err != nil {
		t.Fatal(err)
	}
	logger := ktesting.NewLogger(t, ktesting.NewConfig(ktesting.BufferLogs(true)))
	p := newParent(t, filepath.Join(t.TempDir(), "cache"), from(dir, nil))
	if _, err := p.Prepare(klog.NewContext(t.Context(), logger), job(wasm)); err != nil {
		t.Fatal(err)
	}
	sink, _ := logger.GetSink().(ktesting.Underlier)
	if said := sink.GetBuffer().String(); !strings.Contains(said, "belongs to user 12345") {
		t.Errorf("the log says %s", said)
	}
}

// named is the description of a module in the directory.
func named(wasm []byte) string { return job(wasm).Digest + ".wazero.json" }

func inner(made map[string]any, field string) map[string]any {
	return made[field].(map[string]any) //nolint:forcetypeassert // our own JSON
}

// described is what a description says.
func described(t *testing.T, file string) (made map[string]any) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(data, &made)
	}
	if err != nil {
		t.Fatal(err)
	}
	return made
}

func editDescription(t *testing.T, file string, edit func(map[string]any)) {
	t.Helper()
	made := described(t, file)
	edit(made)
	data, err := json.Marshal(made)
	if err != nil {
		t.Fatal(err)
	}
	write(t, file, data)
}

func write(t *testing.T, file string, data []byte) {
	t.Helper()
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

func remove(t *testing.T, file string) {
	t.Helper()
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
}

func rename(t *testing.T, from, to string) {
	t.Helper()
	if err := os.Rename(from, to); err != nil {
		t.Fatal(err)
	}
}

// codeOf is the file with the machine code of a module.
func codeOf(t *testing.T, dir string, wasm []byte) string {
	t.Helper()
	for name := range inner(described(t, filepath.Join(dir, named(wasm))), "files") {
		if !strings.HasPrefix(name, "outlines") {
			return filepath.Join(dir, name)
		}
	}
	t.Fatal("there is no machine code")
	return ""
}

// code changes the machine code of a module; nil removes it.
func code(wasm []byte, change func([]byte) []byte) func(*testing.T, string) {
	return func(t *testing.T, dir string) {
		file := codeOf(t, dir, wasm)
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if data = change(data); data == nil {
			remove(t, file)
			return
		}
		write(t, file, data)
	}
}

// swapCode gives a module the machine code of another one.
func swapCode(wasm, other []byte) func(*testing.T, string) {
	return func(t *testing.T, dir string) { rename(t, codeOf(t, dir, other), codeOf(t, dir, wasm)) }
}
