package compile_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/compile"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/engine"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/engine/wazero"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/meter"
)

// The test binary is the child, too.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case "compile-child":
			os.Exit(compile.RunChild(context.Background(), os.Stdin, os.Stdout, newEngine))
		case "environment-child":
			text := fmt.Sprintf("environment %q, directory %s", os.Environ(), workingDir())
			if err := json.NewEncoder(os.Stdout).Encode(map[string]string{"error": text}); err != nil {
				panic(err)
			}
			os.Exit(1)
		case "endless-child":
			select {}
		case "silent-child":
			os.Exit(0)
		}
	}
	os.Exit(m.Run())
}

func workingDir() string {
	dir, err := os.Getwd()
	if err != nil {
		return err.Error()
	}
	return dir
}

func newEngine(name, cacheDir string) (engine.Engine, error) {
	if name != "wazero" {
		return nil, fmt.Errorf("there is no engine %q", name)
	}
	return wazero.New(wazero.Options{CacheDir: cacheDir}), nil
}

func newParent(tb testing.TB, dir string, change func(*compile.Options)) *compile.Owner {
	tb.Helper()
	self, err := os.Executable()
	if err != nil {
		tb.Fatal(err)
	}
	options := compile.Options{
		Command: []string{self, "compile-child"}, Engine: "wazero", Version: "test", CacheDir: dir, Limits: compile.DefaultLimits(),
	}
	options.Limits.MemoryBytes *= memoryFactor
	if change != nil {
		change(&options)
	}
	p, err := compile.NewParent(options)
	if err != nil {
		tb.Fatal(err)
	}
	return p.For("test")
}

// guest is a metered module of a real provider.
func guest(tb testing.TB, name string) []byte {
	tb.Helper()
	build := os.Getenv("CCM_BUILD")
	if build == "" {
		build = "../../../../build"
	}
	wasm, err := os.ReadFile(filepath.Join(build, name))
	if err != nil {
		tb.Fatalf("%v; run make guests", err)
	}
	return metered(tb, wasm)
}

func metered(tb testing.TB, wasm []byte) []byte {
	tb.Helper()
	wasm, err := meter.Rewrite(wasm, meter.Options{
		ImportModule: engine.RefuelModule, ImportName: engine.RefuelName, MaxMemoryPages: 1 << 10, MaxTableElements: 1 << 20,
	})
	if err != nil {
		tb.Fatal(err)
	}
	return wasm
}

// files are those in a directory, with the time of their last change.
func files(tb testing.TB, dir string) map[string]time.Time {
	tb.Helper()
	all := map[string]time.Time{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		all[path] = info.ModTime()
		return err
	})
	if err != nil {
		tb.Fatal(err)
	}
	return all
}

// timed compiles a module in this process, as the manager does.
func timed(tb testing.TB, dir string, wasm []byte) time.Duration {
	tb.Helper()
	begin := time.Now()
	m, err := wazero.New(wazero.Options{CacheDir: dir}).Compile(tb.Context(), wasm, engine.ModuleConfig{MemoryLimitBytes: 64 << 20})
	took := time.Since(begin)
	if err != nil {
		tb.Fatal(err)
	}
	m.Close(tb.Context())
	return took
}

func TestTheManagerOnlyReadsWhatTheChildHasCompiled(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "cache")
	p, wasm := newParent(t, dir, nil), guest(t, "static.wasm")
	begin := time.Now()
	if err := p.Prepare(t.Context(), wasm); err != nil {
		t.Fatal(err)
	}
	apart := time.Since(begin)
	before := files(t, dir)
	own := min(timed(t, dir, wasm), timed(t, dir, wasm), timed(t, dir, wasm)) // the machine may be busy
	if after := files(t, dir); len(before) == 0 || fmt.Sprint(before) != fmt.Sprint(after) {
		t.Errorf("the manager's engine has written to the cache: before %v, after %v", before, after)
	}
	if own > apart/5 {
		t.Errorf("the manager's engine took %v after the child's %v: it has compiled itself", own, apart)
	}
	t.Logf("the child took %v, the manager's engine %v", apart, own)

	// Another process, after a restart: no child runs.
	again := newParent(t, dir, func(o *compile.Options) { o.Command = []string{"/nonexistent"} })
	if err := again.Prepare(t.Context(), wasm); err != nil {
		t.Errorf("an unchanged module: %v", err)
	}
	other := newParent(t, dir, func(o *compile.Options) { o.Command, o.Version = []string{"/nonexistent"}, "other" })
	if err := other.Prepare(t.Context(), wasm); err == nil {
		t.Error("the machine code of another version is used")
	}
}

func TestDamagedMachineCodeIsCompiledAgain(t *testing.T) {
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	p, wasm := newParent(t, dir, nil), metered(t, emptyModule())
	for _, damage := range []func(string) error{
		func(file string) error { return os.Remove(file) },
		func(file string) error { return os.Truncate(file, 10) },
	} {
		if err := p.Prepare(t.Context(), wasm); err != nil {
			t.Fatal(err)
		}
		for file := range files(t, dir) {
			if !strings.HasSuffix(file, ".json") {
				if err := damage(file); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := p.Prepare(t.Context(), wasm); err != nil {
			t.Fatal(err)
		}
		timed(t, dir, wasm)
	}
}

func TestChildIsLimited(t *testing.T) {
	if testing.Short() {
		t.Skip("make test-all runs it")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	small := metered(t, emptyModule())
	for name, test := range map[string]struct {
		change func(*compile.Options)
		wasm   []byte
		want   string
	}{
		"time": {func(o *compile.Options) {
			o.Command, o.Limits.Wall = []string{self, "endless-child"}, 200*time.Millisecond
		}, small, "took more than 200ms; make it smaller"},
		"processor": {func(o *compile.Options) { o.Limits.CPU = time.Second }, bombs()["deep nesting"], "more than 1s of processor time"},
		"memory":    {func(o *compile.Options) { o.Limits.MemoryBytes = 96 << 20 }, manyLocals(20, 4000), "more than 96 MiB of memory"},
		"output":    {func(o *compile.Options) { o.Limits.OutputBytes = 1 << 10 }, manyFunctions(1000), "machine code is larger than 0 MiB"},
		"no result": {func(o *compile.Options) { o.Command = []string{self, "silent-child"} }, small, "without a result"},
		"no binary": {func(o *compile.Options) { o.Command = []string{"/nonexistent"} }, small, "no such file"},
		"engine":    {func(o *compile.Options) { o.Engine = "other" }, small, `there is no engine "other"`},
		"invalid":   {nil, []byte("\x00asm\x01\x00\x00\x00\x0a\x01\x05"), "compiling the module"},
		"environment": {func(o *compile.Options) { o.Command = []string{self, "environment-child"} }, small,
			"environment [], directory /"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("A_SECRET", "of the manager")
			dir := filepath.Join(t.TempDir(), "cache")
			err := newParent(t, dir, test.change).Prepare(t.Context(), test.wasm)
			if err == nil || !strings.Contains(err.Error(), test.want) {
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
	if err := p.Prepare(ctx, emptyModule()); err == nil || !strings.Contains(err.Error(), "given up") {
		t.Errorf("error %v", err)
	}
}

// What is compiled already needs no turn: a provider that is restarted, or gets
// another password, does not wait for the slow module of another one.
func TestWhatIsCompiledWaitsForNobody(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir, known := filepath.Join(t.TempDir(), "cache"), metered(t, emptyModule())
	if err := newParent(t, dir, nil).Prepare(t.Context(), known); err != nil {
		t.Fatal(err)
	}
	p, err := compile.NewParent(compile.Options{Command: []string{self, "endless-child"}, Engine: "wazero", Version: "test", CacheDir: dir, Limits: compile.DefaultLimits()})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	slow := make(chan error)
	go func() { slow <- p.For("slow").Prepare(ctx, guest(t, "static.wasm")) }()
	for len(staging(t, dir)) == 0 { // until its child has begun
		time.Sleep(time.Millisecond)
	}
	if err := p.For("other").Prepare(t.Context(), known); err != nil {
		t.Error(err)
	}
	gone, leave := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer leave()
	if err := p.For("other").Prepare(gone, metered(t, manyFunctions(3))); !errors.Is(err, context.DeadlineExceeded) {
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
	found, err := filepath.Glob(filepath.Join(dir, ".compiling-*"))
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
	for range 2 {
		if _, err := own.Compile(t.Context(), wasm, config); !errors.Is(err, engine.ErrNotCompiled) {
			t.Fatalf("what is not in the cache: %v", err)
		}
		if err := p.Prepare(t.Context(), wasm); err != nil {
			t.Fatal(err)
		}
		m, err := own.Compile(t.Context(), wasm, config)
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

func TestCacheDirMustBePrivate(t *testing.T) {
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	options := compile.Options{Command: []string{"x"}, Engine: "wazero", CacheDir: dir, Limits: compile.DefaultLimits()}
	if _, err := compile.NewParent(options); err == nil || !strings.Contains(err.Error(), "can be written to by others") {
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
			err := p.Prepare(t.Context(), wasm)
			took := time.Since(begin)
			if took > limits.Wall+5*time.Second {
				t.Errorf("took %v", took)
			}
			if err != nil && !strings.Contains(err.Error(), "module") {
				t.Errorf("the error does not say what is wrong: %v", err)
			}
			if grown := residentBytes(t) - before; grown > 32<<20 {
				t.Errorf("this process has grown by %d MiB", grown>>20)
			}
			t.Logf("%d KiB: %.1fs, error: %v", len(wasm)>>10, took.Seconds(), err)
			if err == nil {
				t.Logf("this process reads it in %v", timed(t, dir, wasm))
			}
			if err := p.Prepare(t.Context(), metered(t, emptyModule())); err != nil {
				t.Errorf("the module after it: %v", err)
			}
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
	if err := p.Prepare(t.Context(), wasm); err != nil {
		t.Fatal(err)
	}
	t.Logf("the child took %v, the manager's engine %v", time.Since(begin), timed(t, dir, wasm))
}
