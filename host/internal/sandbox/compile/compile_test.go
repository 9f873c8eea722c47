package compile_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/compile"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/engine"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/engine/wazero"
)

func TestTheManagerOnlyReadsWhatTheChildHasCompiled(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "cache")
	p, wasm := newParent(t, dir, nil), guest(t, "static.wasm")
	begin := time.Now()
	outline := prepare(t, p, wasm)
	apart := time.Since(begin)
	before := files(t, dir)
	own := min(timed(t, dir, outline), timed(t, dir, outline), timed(t, dir, outline)) // the machine may be busy
	if after := files(t, dir); len(before) == 0 || fmt.Sprint(before) != fmt.Sprint(after) {
		t.Errorf("the manager's engine has written to the cache: before %v, after %v", before, after)
	}
	if own > apart/5 {
		t.Errorf("the manager's engine took %v after the child's %v: it has compiled itself", own, apart)
	}
	t.Logf("the child took %v, the manager's engine %v", apart, own)

	// Another process, after a restart: no child compiles.
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	again := newParent(t, dir, func(o *compile.Options) { o.Command = []string{self, "metering-child"} })
	if got := prepare(t, again, wasm); !bytes.Equal(got, outline) {
		t.Error("the outline of an unchanged module is another one")
	}
	other := newParent(t, dir, func(o *compile.Options) { o.Command, o.Version = []string{self, "metering-child"}, version("other") })
	if _, err := other.Prepare(t.Context(), job(wasm)); err == nil || !strings.Contains(err.Error(), "this child only meters") {
		t.Errorf("the machine code of another version is used: %v", err)
	}
}

// What is compiled is what was checked.
func TestAModuleOfAnotherDigestIsNotCompiled(t *testing.T) {
	p, j := newParent(t, filepath.Join(t.TempDir(), "cache"), nil), job(emptyModule())
	j.Wasm = manyFunctions(2)
	if _, err := p.Prepare(t.Context(), j); err == nil || !strings.Contains(err.Error(), "has changed") {
		t.Errorf("error %v", err)
	}
}

// A child takes longer than all else of a module that was compiled before: the same
// binary meters it once.
func TestAModuleIsMeteredOnce(t *testing.T) {
	dir, wasm := filepath.Join(t.TempDir(), "cache"), emptyModule()
	outline := prepare(t, newParent(t, dir, nil), wasm)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	none := newParent(t, dir, func(o *compile.Options) { o.Command = []string{self, "silent-child"} })
	metered := false
	j := job(wasm)
	j.Metered = func() { metered = true }
	if got, err := none.Prepare(t.Context(), j); err != nil || !bytes.Equal(got, outline) || !metered {
		t.Errorf("once more: %d bytes, valid %v, %v", len(got), metered, err)
	}
	j.Meter.MaxMemoryPages--
	if _, err := none.Prepare(t.Context(), j); err == nil {
		t.Error("metered in another way, it is taken for the same")
	}
	other := filepath.Join(t.TempDir(), "binary")
	if err := os.WriteFile(other, []byte("#!/bin/sh\nexit 0\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	another := newParent(t, dir, func(o *compile.Options) { o.Command = []string{other} })
	if _, err := another.Prepare(t.Context(), job(wasm)); err == nil {
		t.Error("what another binary has metered is taken for the same")
	}
}

// What a manager of before has left has no outline; and what this one's engine has
// no use for, though it is as it was left, is compiled again when it says so.
func TestWhatAnotherManagerHasLeftIsCompiledAgain(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "cache")
	p, wasm := newParent(t, dir, nil), emptyModule()
	outline := prepare(t, p, wasm)
	records, err := filepath.Glob(filepath.Join(dir, "*.compiled.json"))
	if err != nil || len(records) != 1 {
		t.Fatalf("records %q, error %v", records, err)
	}
	data, err := os.ReadFile(records[0])
	if err != nil {
		t.Fatal(err)
	}
	r := map[string]string{}
	if err := json.Unmarshal(data, &r); err != nil {
		t.Fatal(err)
	}
	for name := range r {
		if strings.HasPrefix(name, "outlines") {
			delete(r, name)
			if err := os.Remove(filepath.Join(dir, name)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if data, err = json.Marshal(r); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(records[0], data, 0o600); err != nil {
		t.Fatal(err)
	}
	if got := prepare(t, p, wasm); !bytes.Equal(got, outline) {
		t.Error("without an outline it is another one")
	}
	timed(t, dir, outline)
	before := files(t, dir)
	j := job(wasm)
	j.Anew = true
	if got, err := p.Prepare(t.Context(), j); err != nil || !bytes.Equal(got, outline) {
		t.Errorf("compiled anew it is another one, error %v", err)
	}
	after := files(t, dir)
	for name, at := range before {
		if !after[name].After(at) {
			t.Errorf("%s was not compiled anew", name)
		}
	}
	timed(t, dir, outline)
}

func TestDamagedMachineCodeIsCompiledAgain(t *testing.T) {
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	p, wasm := newParent(t, dir, nil), emptyModule()
	for _, damage := range []func(string) error{
		func(file string) error { return os.Remove(file) },
		func(file string) error { return os.Truncate(file, 10) },
	} {
		prepare(t, p, wasm)
		for file := range files(t, dir) {
			if !strings.HasSuffix(file, ".json") {
				if err := damage(file); err != nil {
					t.Fatal(err)
				}
			}
		}
		timed(t, dir, prepare(t, p, wasm))
	}
}

// What is compiled already needs no turn: a provider that is restarted, or gets
// another password, does not wait for the slow module of another one.
func TestWhatIsCompiledWaitsForNobody(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir, known := filepath.Join(t.TempDir(), "cache"), emptyModule()
	prepare(t, newParent(t, dir, nil), known)
	p, err := compile.NewParent(compile.Options{Command: []string{self, "endless-compiler"}, Version: version("test"), CacheDir: dir, Limits: compile.DefaultLimits()})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	slow := make(chan error)
	wasm := guest(t, "static.wasm")
	go func() {
		_, err := p.For("slow").Prepare(ctx, job(wasm))
		slow <- err
	}()
	for len(staging(t, dir)) == 0 { // until its child has begun
		time.Sleep(time.Millisecond)
	}
	prepare(t, p.For("other"), known)
	gone, leave := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer leave()
	if _, err := p.For("other").Prepare(gone, job(manyFunctions(3))); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("waiting for a turn ended with %v", err)
	}
	cancel()
	if err := <-slow; err == nil {
		t.Error("the endless child has compiled")
	}
}

// staging are the directories of children that run.
func staging(t *testing.T, dir string) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, ".compiling-*", "child-*"))
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// The manager compiles nothing itself, whatever becomes of its cache.
func TestTheManagerCompilesNothing(t *testing.T) {
	dir, wasm := filepath.Join(t.TempDir(), "cache"), guest(t, "static.wasm")
	own := wazero.New(wazero.Options{CacheDir: dir, CachedOnly: true})
	config := engine.ModuleConfig{MemoryLimitBytes: 64 << 20}
	p := newParent(t, dir, nil)
	outline := prepare(t, newParent(t, t.TempDir(), nil), wasm)
	for range 2 {
		if _, err := own.Compile(t.Context(), outline, config); !errors.Is(err, engine.ErrNotCompiled) {
			t.Fatalf("what is not in the cache: %v", err)
		}
		m, err := own.Compile(t.Context(), prepare(t, p, wasm), config)
		if err != nil {
			t.Fatalf("what is in the cache: %v", err)
		}
		m.Close(t.Context())
		for file := range files(t, dir) {
			if !strings.HasSuffix(file, ".json") {
				if err := os.Remove(file); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
}

// Two versions of a provider often differ in a few bytes of code only. Each must
// find its own machine code, whichever was compiled last.
func TestModulesThatDifferInTheirCodeAlone(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "cache")
	p := newParent(t, dir, nil)
	one, other := modules(2, []byte{0, 0x0b}), modules(2, []byte{0, 0x41, 0, 0x1a, 0x0b})
	first := prepare(t, p, one)
	code := files(t, dir)
	if second := prepare(t, p, other); bytes.Equal(first, second) {
		t.Error("both modules have one outline, so one has the machine code of the other")
	}
	after := files(t, dir)
	for file, written := range code {
		if !strings.HasSuffix(file, ".json") && after[file] != written {
			t.Errorf("%s is the first module's, and was written again for the second", file)
		}
	}
}

func TestCacheDirMustBePrivate(t *testing.T) {
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	options := compile.Options{Command: []string{"x"}, Version: version(""), CacheDir: dir, Limits: compile.DefaultLimits()}
	if _, err := compile.NewParent(options); err == nil || !strings.Contains(err.Error(), "is writable by others") {
		t.Errorf("error %v", err)
	}
	options.CacheDir = filepath.Join(dir, "own")
	if _, err := compile.NewParent(options); err != nil {
		t.Errorf("a directory that is not there: %v", err)
	}
	info, err := os.Stat(options.CacheDir)
	if err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("it is made with %v, %v; want 0700", info, err)
	}
}
