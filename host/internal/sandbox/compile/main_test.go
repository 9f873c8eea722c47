package compile_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
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
			if err := os.Unsetenv("GORACE"); err != nil { // what only a race build is given
				panic(err)
			}
			text := fmt.Sprintf("environment %q, directory %s", os.Environ(), workingDir())
			if err := json.NewEncoder(os.Stdout).Encode(map[string]string{"error": text}); err != nil {
				panic(err)
			}
			os.Exit(1)
		case "endless-child":
			select {}
		case "endless-compiler":
			os.Exit(compile.RunChild(context.Background(), os.Stdin, os.Stdout, func(string, string) (engine.Engine, error) { select {} }))
		case "metering-child":
			os.Exit(compile.RunChild(context.Background(), os.Stdin, os.Stdout, func(string, string) (engine.Engine, error) {
				return nil, errors.New("this child only meters")
			}))
		case "niceness-child":
			os.Exit(compile.RunChild(context.Background(), os.Stdin, os.Stdout, func(string, string) (engine.Engine, error) {
				raw, err := syscall.Getpriority(syscall.PRIO_PROCESS, 0)
				return nil, errors.Join(fmt.Errorf("niceness %d", 20-raw), err)
			}))
		case "full-child":
			os.Exit(compile.RunChild(context.Background(), os.Stdin, os.Stdout, func(_, dir string) (engine.Engine, error) {
				return nil, &fs.PathError{Op: "write", Path: dir, Err: syscall.ENOSPC}
			}))
		case "silent-child":
			os.Exit(0)
		case "replaced-parent":
			os.Exit(replacedParent(os.Args[2]))
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
		Command: []string{self, "compile-child"}, Version: version("test"), CacheDir: dir, Limits: compile.DefaultLimits(),
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

// job is that of a module, metered as for a provider.
func job(wasm []byte) compile.Job {
	sum := sha256.Sum256(wasm)
	return compile.Job{Wasm: wasm, Digest: hex.EncodeToString(sum[:]), Engine: "wazero", Meter: meter.Options{
		ImportModule: engine.RefuelModule, ImportName: engine.RefuelName, MaxMemoryPages: 1 << 10, MaxTableElements: 1 << 20,
	}}
}

// prepare prepares a module, and fails when that fails.
func prepare(tb testing.TB, p *compile.Owner, wasm []byte) (outline []byte) {
	tb.Helper()
	outline, err := p.Prepare(tb.Context(), job(wasm))
	if err != nil {
		tb.Fatal(err)
	}
	return outline
}

// guest is the module of a real provider.
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

// timed compiles the outline of a module in this process, as the manager does.
func timed(tb testing.TB, dir string, outline []byte) time.Duration {
	tb.Helper()
	begin := time.Now()
	m, err := wazero.New(wazero.Options{CacheDir: dir}).Compile(tb.Context(), outline, engine.ModuleConfig{MemoryLimitBytes: 64 << 20})
	took := time.Since(begin)
	if err != nil {
		tb.Fatal(err)
	}
	m.Close(tb.Context())
	return took
}
