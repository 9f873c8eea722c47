// Package build makes a module from a guest: it compiles the package with
// TinyGo or stock Go, and appends the manifest. Its commands are ccm-build,
// which needs no checkout of this repository, and ccmctl build.
package build

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/wasm-ccm/wasm-ccm/abi/manifest"
)

// Options say what to build and how. Only Dir is needed.
type Options struct {
	// Dir is the directory of the guest's main package and manifest.json.
	Dir string
	// Out is the module's file; by default NAME.wasm of the manifest in the
	// working directory. OUT.stamp beside it records its inputs.
	Out string
	// Compiler is TinyGo, TinyGoBuild or Go; by default the first that is
	// available, and with Debug Go.
	Compiler string
	// Version replaces the manifest's.
	Version string
	// Opt is TinyGo's -opt; by default z, with Debug 1.
	Opt string
	// GC is TinyGo's -gc; by default precise.
	GC string
	// Tags are Go's build tags, separated by commas.
	Tags string
	// Debug makes a build whose crashes show the line.
	Debug bool
	// Toolchain is the source of TinyGoBuild: the directory of its module in a
	// checkout, or a version. By default it is this program's version or, without
	// one, the checkout of the guest's SDK.
	Toolchain string
	// Tools is the directory of TinyGoBuild; by default in the user's cache.
	Tools string
	// Install allows the installation of Debian packages by apt-get.
	Install bool
	// Log gets progress and the compilers' output; nil drops them.
	Log io.Writer
}

// Result describes the module.
type Result struct {
	// Out is the file, Version the module's.
	Out, Version string
	// Size is in bytes.
	Size int64
	// Compiler made it, and Why is the reason for the choice.
	Compiler, Why string
	// Fresh is false if the file was up to date.
	Fresh bool
	// Took is the time to compile, and to build the compiler.
	Took time.Duration
}

// String is a line for people.
func (r Result) String() string {
	if !r.Fresh {
		return filepath.Base(r.Out) + " is up to date"
	}
	return fmt.Sprintf("%s %s: %d KiB by %s (%s), %.0fs", filepath.Base(r.Out), r.Version, r.Size/1024, r.Compiler, r.Why, r.Took.Seconds())
}

// Build makes the module, unless the file has the same inputs. An error keeps
// the former file.
func Build(ctx context.Context, o Options) (Result, error) {
	started := time.Now()
	if o.Log == nil {
		o.Log = io.Discard
	}
	text, m, err := o.readManifest()
	if err != nil {
		return Result{}, err
	}
	if o.Out == "" {
		o.Out = m.Name + ".wasm"
	}
	c, err := o.choose(ctx)
	if err != nil {
		return Result{}, err
	}
	result := Result{Out: o.Out, Version: m.Version, Compiler: c.name, Why: c.why}
	stamp, err := o.stamp(ctx, c, text)
	if err != nil {
		return result, err
	}
	if result.Fresh = !upToDate(o.Out, stamp); result.Fresh {
		err = o.make(ctx, c, m.Version, text, stamp)
	}
	if err != nil {
		return result, err
	}
	info, err := os.Stat(o.Out)
	if err != nil {
		return result, err
	}
	result.Size, result.Took = info.Size(), time.Since(started)
	return result, nil
}

func (o Options) readManifest() ([]byte, *manifest.Manifest, error) {
	name := filepath.Join(o.Dir, "manifest.json")
	text, err := ReadManifest(name, o.Version)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil, fmt.Errorf("%s is not there: every guest needs a manifest", name)
	}
	if err != nil {
		return nil, nil, err
	}
	m, err := manifest.Parse(text)
	return text, m, err
}

// make compiles into a temporary file, and renames it at the end.
func (o Options) make(ctx context.Context, c compiler, version string, text []byte, stamp string) error {
	if err := os.MkdirAll(filepath.Dir(o.Out), 0o755); err != nil {
		return err
	}
	work, err := os.MkdirTemp(filepath.Dir(o.Out), ".ccm-build")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	compiled, err := filepath.Abs(filepath.Join(work, "guest.wasm"))
	if err != nil {
		return err
	}
	if err := o.compile(ctx, c, version, compiled); err != nil {
		return err
	}
	module, err := os.ReadFile(compiled)
	if err != nil {
		return err
	}
	if module, err = Append(module, text); err != nil {
		return fmt.Errorf("%s: %w", filepath.Join(o.Dir, "manifest.json"), err)
	}
	if err := os.WriteFile(compiled, module, 0o644); err != nil {
		return err
	}
	if err := os.Rename(compiled, o.Out); err != nil {
		return err
	}
	return os.WriteFile(stampOf(o.Out), []byte(stamp), 0o644)
}
