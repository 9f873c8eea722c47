//go:build wasmtime

package enginetest

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/engine"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/engine/wasmtime"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/engine/wazero"
)

func tagged() map[string]func(dir string) engine.Engine {
	return map[string]func(dir string) engine.Engine{
		"wasmtime": func(dir string) engine.Engine { return wasmtime.New(wasmtime.Options{CacheDir: dir}) },
	}
}

// The same work costs the same on both engines, to the unit.
func TestFuelIsThatOfWazero(t *testing.T) {
	wasm := arguments(t)
	here := newInstance(t, wasmtime.New(wasmtime.Options{}), wasm)
	there := newInstance(t, wazero.New(wazero.Options{}), wasm)
	for _, n := range []uint32{1, 1, 999_999, 10_000_000, 123_456} {
		got, err := here.Call(t.Context(), opLoop, words(n))
		if err != nil {
			t.Fatal(err)
		}
		want, err := there.Call(t.Context(), opLoop, words(n))
		if err != nil {
			t.Fatal(err)
		}
		if got.Fuel != want.Fuel || !bytes.Equal(got.Response, want.Response) {
			t.Errorf("%d turns: %+v, wazero says %+v", n, got, want)
		}
	}
}

func cached(t *testing.T, dir string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*", "*"))
	if err != nil || len(files) != 1 {
		t.Fatalf("the cache holds %v, error %v; want one file", files, err)
	}
	return files[0]
}

// A module compiled by one engine, such as that of another process, is found
// by the next one; nothing is compiled then.
func TestCacheIsUsed(t *testing.T) {
	dir := t.TempDir()
	newInstance(t, wasmtime.New(wasmtime.Options{CacheDir: dir}), arguments(t))
	file := cached(t, dir)
	before, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	if before.Mode().Perm() != 0o600 {
		t.Errorf("the file has mode %v", before.Mode())
	}
	i := newInstance(t, wasmtime.New(wasmtime.Options{CacheDir: dir}), arguments(t))
	if _, err := i.Call(t.Context(), opLoop, words(3)); err != nil {
		t.Error(err)
	}
	after, err := os.Stat(file)
	if err != nil || !os.SameFile(before, after) {
		t.Errorf("the module was compiled once more: %v", err)
	}
}

// The manager compiles nothing itself.
func TestCachedOnly(t *testing.T) {
	dir, wasm := t.TempDir(), []byte("\x00asm\x01\x00\x00\x00")
	own := wasmtime.New(wasmtime.Options{CacheDir: dir, CachedOnly: true})
	if _, err := own.Compile(t.Context(), wasm, engine.ModuleConfig{}); !errors.Is(err, engine.ErrNotCompiled) {
		t.Errorf("what is not in the cache: %v", err)
	}
	for _, e := range []engine.Engine{wasmtime.New(wasmtime.Options{CacheDir: dir}), own} {
		m, err := e.Compile(t.Context(), wasm, engine.ModuleConfig{})
		if err != nil {
			t.Fatal(err)
		}
		m.Close(t.Context())
	}
}

// A file that was cut, changed or made by something else is not run but made
// anew.
func TestDamagedCache(t *testing.T) {
	for name, damage := range map[string]func([]byte) []byte{
		"empty":     func([]byte) []byte { return nil },
		"cut":       func(b []byte) []byte { return b[:len(b)/2] },
		"changed":   func(b []byte) []byte { b[len(b)/2] ^= 1; return b },
		"a program": func([]byte) []byte { return []byte(strings.Repeat("\x7fELF", 1000)) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			newInstance(t, wasmtime.New(wasmtime.Options{CacheDir: dir}), arguments(t))
			file := cached(t, dir)
			good, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, damage(bytes.Clone(good)), 0o600); err != nil {
				t.Fatal(err)
			}
			i := newInstance(t, wasmtime.New(wasmtime.Options{CacheDir: dir}), arguments(t))
			if _, err := i.Call(t.Context(), opLoop, words(3)); err != nil {
				t.Error(err)
			}
			if again, err := os.ReadFile(file); err != nil || !bytes.Equal(again, good) {
				t.Errorf("the file was not made anew: %d bytes of %d, %v", len(again), len(good), err)
			}
		})
	}
}

func TestCacheThatCannotBeWritten(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(dir, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := wasmtime.New(wasmtime.Options{CacheDir: dir}).Compile(t.Context(), arguments(t), engine.ModuleConfig{Host: host(noHost)})
	if err == nil || !strings.Contains(err.Error(), "compilation cache "+dir) {
		t.Errorf("error %v", err)
	}
}

// The folder of the cache is named after the library that go.mod pins.
func TestLibraryVersion(t *testing.T) {
	mod, err := os.ReadFile(filepath.Join("..", "..", "..", "..", "..", "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	pinned := regexp.MustCompile(`wasmtime-go/v\d+ (\S+)`).FindSubmatch(mod)
	dir := t.TempDir()
	newInstance(t, wasmtime.New(wasmtime.Options{CacheDir: dir}), arguments(t))
	if folder := filepath.Base(filepath.Dir(cached(t, dir))); pinned == nil || !strings.HasPrefix(folder, "wasmtime-"+string(pinned[1])+"-") {
		t.Errorf("the folder is %s, go.mod pins %s", folder, pinned)
	}
}

// A guest's trap is a signal of the process. Those of Go's own mistakes still
// become panics, in every thread.
func TestSignalsOfGoAreGos(t *testing.T) {
	i := newInstance(t, wasmtime.New(wasmtime.Options{}), arguments(t))
	if _, err := i.Call(t.Context(), opTrapHow, words(1)); err == nil {
		t.Fatal("the guest did not trap")
	}
	done := make(chan any)
	for range 16 {
		go func() {
			defer func() { done <- recover() }()
			var nothing *engine.Result
			nothing.Code = 1
		}()
	}
	for range 16 {
		if p := <-done; p == nil {
			t.Error("a nil pointer did not panic")
		}
	}
}
