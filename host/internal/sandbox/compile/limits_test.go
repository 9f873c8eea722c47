package compile_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/compile"
)

func TestChildIsLimited(t *testing.T) {
	if testing.Short() {
		t.Skip("make test-all runs it")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	small := emptyModule()
	for name, test := range map[string]struct {
		change func(*compile.Options)
		wasm   []byte
		want   string
	}{
		"time": {func(o *compile.Options) {
			o.Command, o.Limits.Wall = []string{self, "endless-child"}, 200*time.Millisecond
		}, small, "took more than 200ms; make it smaller"},
		"processor": {func(o *compile.Options) { o.Limits.CPU = time.Second }, bombs()["huge br_table"], "more than 1s of processor time"},
		"memory":    {func(o *compile.Options) { o.Limits.MemoryBytes = 96 << 20 }, manyLocals(20, 4000), "more than 96 MiB of memory"},
		"output":    {func(o *compile.Options) { o.Limits.OutputBytes = 1 << 10 }, manyFunctions(1000), "machine code is larger than 0 MiB"},
		"no result": {func(o *compile.Options) { o.Command = []string{self, "silent-child"} }, small, "without a result"},
		"no binary": {func(o *compile.Options) { o.Command = []string{"/nonexistent"} }, small, "no such file"},
		"raise":     {func(o *compile.Options) { o.Limits.OutputBytes, o.Limits.Setting = 1<<10, "limits.compile" }, manyFunctions(1000), "make it smaller, or raise limits.compile"},
		"nice":      {func(o *compile.Options) { o.Command = []string{self, "niceness-child"} }, small, "niceness 10"},
		"nicer": {func(o *compile.Options) { // than a child may be again without a privilege
			o.Command = []string{"/usr/bin/nice", "-n", "15", self, "niceness-child"}
		}, small, "niceness 15"},
		"engine":  {nil, small, `there is no engine "other"`},
		"invalid": {nil, []byte("\x00asm\x01\x00\x00\x00\x0a\x01\x05"), "meter: the module is damaged"},
		"environment": {func(o *compile.Options) { o.Command = []string{self, "environment-child"} }, small,
			"environment [], directory /"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("A_SECRET", "of the manager")
			dir := filepath.Join(t.TempDir(), "cache")
			offered := job(test.wasm)
			if name == "engine" {
				offered.Engine = "other"
			}
			_, err := newParent(t, dir, test.change).Prepare(t.Context(), offered)
			detector := raced && name == "memory" && err != nil && strings.Contains(err.Error(), "ThreadSanitizer failed to allocate")
			if err == nil || !strings.Contains(err.Error(), test.want) && !detector {
				t.Errorf("error %v, want one with %q", err, test.want)
			}
			if left := files(t, dir); len(left) > 0 {
				t.Errorf("it left %v", left)
			}
		})
	}
}

func TestCanceledCompilationEnds(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p := newParent(t, filepath.Join(t.TempDir(), "cache"), func(o *compile.Options) { o.Command = []string{self, "endless-child"} })
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := p.Prepare(ctx, job(emptyModule())); err == nil || !strings.Contains(err.Error(), "given up") {
		t.Errorf("error %v", err)
	}
}

func TestCompileBombsCostAnError(t *testing.T) {
	if testing.Short() {
		t.Skip("make test-all runs it")
	}
	limits := compile.Limits{Wall: 20 * time.Second, CPU: 3 * time.Second, MemoryBytes: memoryFactor * 256 << 20, OutputBytes: 64 << 20}
	dir := filepath.Join(t.TempDir(), "cache")
	p := newParent(t, dir, func(o *compile.Options) { o.Limits = limits })
	for name, wasm := range bombs() {
		t.Run(name, func(t *testing.T) {
			before := residentBytes(t)
			begin := time.Now()
			outline, err := p.Prepare(t.Context(), job(wasm))
			took := time.Since(begin)
			if took > 2*limits.Wall+5*time.Second { // of the child that meters, and of the one that compiles
				t.Errorf("took %v", took)
			}
			if err != nil && !strings.Contains(err.Error(), "module") && !strings.Contains(err.Error(), "meter:") {
				t.Errorf("the error does not say what is wrong: %v", err)
			}
			if grown := residentBytes(t) - before; grown > 32<<20 {
				t.Errorf("this process has grown by %d MiB", grown>>20)
			}
			t.Logf("%d KiB: %.1fs, error: %v", len(wasm)>>10, took.Seconds(), err)
			if err == nil {
				t.Logf("this process reads it in %v", timed(t, dir, outline))
			}
			prepare(t, p, emptyModule()) // the module after it
		})
	}
}

// residentBytes is the memory that this process holds.
func residentBytes(tb testing.TB) int64 {
	tb.Helper()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		tb.Fatal(err)
	}
	_, rest, _ := bytes.Cut(status, []byte("VmRSS:"))
	kib, err := strconv.ParseInt(string(bytes.Fields(rest)[0]), 10, 64)
	if err != nil {
		tb.Fatal(err)
	}
	return kib << 10
}

func TestStockGoGuestFitsTheDefaults(t *testing.T) {
	if testing.Short() {
		t.Skip("make test-all runs it")
	}
	if _, err := os.Stat("../../../../build/static-go.wasm"); err != nil {
		t.Log("it is not built; run make guests-go")
		return
	}
	dir := filepath.Join(t.TempDir(), "cache")
	p, wasm := newParent(t, dir, nil), guest(t, "static-go.wasm")
	begin := time.Now()
	outline := prepare(t, p, wasm)
	t.Logf("the child took %v, the manager's engine %v", time.Since(begin), timed(t, dir, outline))
}

// What a module has as data is no machine code, and may be more: the engine keeps
// it in a file of its own, where the limit of the output holds, too.
func TestDataIsNoMachineCode(t *testing.T) {
	const data = 4 << 20
	wasm := bytes.Join([][]byte{
		[]byte("\x00asm\x01\x00\x00\x00"),
		section(5, []byte{1, 0}, leb(data>>16)),
		section(11, []byte{1, 0, 0x41, 0, 0x0b}, leb(data), bytes.Repeat([]byte("data"), data/4)),
	}, nil)
	dir := filepath.Join(t.TempDir(), "cache")
	p := newParent(t, dir, func(o *compile.Options) { o.Limits.OutputBytes = 1 << 20 })
	timed(t, dir, prepare(t, p, wasm))
}

// Who replaces the program's file, as with a new image, does not replace what compiles
// for the one that runs.
func TestTheChildIsTheProgramThatRuns(t *testing.T) {
	self, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(program, self, 0o700); err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), program, "replaced-parent", t.TempDir()).CombinedOutput()
	if err != nil {
		t.Errorf("%v: %s", err, out)
	}
}

// replacedParent compiles after its own file was replaced.
func replacedParent(dir string) int {
	file, err := os.Executable()
	if err == nil {
		err = os.Remove(file)
	}
	if err == nil {
		err = os.WriteFile(file, []byte("#!/bin/false\n"), 0o700)
	}
	if err == nil {
		err = compiles(filepath.Join(dir, "cache"))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func compiles(dir string) error {
	self, err := compile.Self()
	if err != nil {
		return err
	}
	limits := compile.DefaultLimits()
	limits.MemoryBytes *= memoryFactor
	p, err := compile.NewParent(compile.Options{Command: []string{self, "compile-child"}, Version: version(""), CacheDir: dir, Limits: limits})
	if err != nil {
		return err
	}
	_, err = p.For("test").Prepare(context.Background(), job(emptyModule()))
	return err
}
