package build

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// The compilers.
const (
	// TinyGo is a release of TinyGo on PATH.
	TinyGo = "tinygo"
	// TinyGoBuild is TinyGo as a library, with Debian's LLVM 19.
	TinyGoBuild = "tinygo-build"
	// Go is stock Go: it works everywhere, and its modules are ten times as
	// large.
	Go = "go"
)

// compiler is a way to compile, and the reason for the choice.
type compiler struct {
	name, why string
	// program is the executable, identity its version.
	program, identity string
}

// ErrCompiler says that no such compiler is available here.
var ErrCompiler = errors.New("no such compiler")

// choose finds a compiler, and builds it if necessary.
func (o Options) choose(ctx context.Context) (compiler, error) {
	if _, err := exec.LookPath("go"); err != nil {
		return compiler{}, fmt.Errorf("%w: go is not on PATH: install Go", ErrCompiler)
	}
	c := compiler{name: o.Compiler, why: "it was asked for"}
	switch {
	case c.name == TinyGo || c.name == Go || c.name == TinyGoBuild:
	case c.name != "":
		return c, fmt.Errorf("%w: %q is none of %s, %s, %s", ErrCompiler, c.name, TinyGo, TinyGoBuild, Go)
	case o.Debug:
		c = compiler{name: Go, why: "its panics tell the line"}
	case onPath(TinyGo):
		c = compiler{name: TinyGo, why: "it is on PATH"}
	case o.llvm(ctx) == nil:
		c = compiler{name: TinyGoBuild, why: "no tinygo on PATH, Debian's LLVM 19 is there"}
	default:
		c = compiler{name: Go, why: "no tinygo on PATH and no LLVM 19 of Debian; a module by TinyGo has a tenth of the size"}
		fmt.Fprintln(o.Log, "For a small module put TinyGo 0.42 on PATH (https://tinygo.org/getting-started/install), or install on Debian 13 or later: apt-get install "+strings.Join(packages(), " "))
	}
	return o.identify(ctx, c)
}

func onPath(name string) bool {
	_, err := exec.LookPath(name)
	return err == nil
}

func (o Options) identify(ctx context.Context, c compiler) (compiler, error) {
	version, err := o.output(ctx, "", nil, "go", "version")
	if err != nil {
		return c, err
	}
	c.program, c.identity = c.name, version
	switch c.name {
	case TinyGo:
		tiny, err := o.output(ctx, "", nil, TinyGo, "version")
		c.identity += tiny
		return c, err
	case TinyGoBuild:
		if err := o.llvm(ctx); err != nil {
			return c, err
		}
		if c.program, err = o.toolchain(ctx); err != nil {
			return c, err
		}
		id, err := o.output(ctx, "", nil, "go", "tool", "buildid", c.program)
		c.identity += id
		return c, err
	}
	return c, nil
}

// compile writes the compiler's output.
func (o Options) compile(ctx context.Context, c compiler, version, out string) error {
	set := "main.version=" + version
	switch c.name {
	case TinyGo:
		return o.tiny(ctx, c.program, "build", "-target=wasip1", "-buildmode=c-shared", "-scheduler=none", "-opt="+o.opt(), "-gc="+o.gc(),
			"-tags", o.Tags, "-no-debug", "-ldflags=-X "+set, "-o", out, ".")
	case TinyGoBuild:
		return o.tiny(ctx, c.program, "-opt", o.opt(), "-gc", o.gc(), "-tags", o.Tags, "-X", set, "-o", out, ".")
	}
	strip := "-s -w -X "
	if o.Debug { // With -s the section of functions' names is missing; their lines remain.
		strip = "-w -X "
	}
	return o.run(ctx, o.Dir, wasip1(), c.program, "build", "-buildmode=c-shared", "-tags", o.Tags, "-ldflags="+strip+set, "-o", out, ".")
}

func wasip1() []string { return []string{"GOOS=wasip1", "GOARCH=wasm"} }

func (o Options) opt() string {
	switch {
	case o.Opt != "":
		return o.Opt
	case o.Debug:
		return "1"
	}
	return "z"
}

func (o Options) gc() string {
	if o.GC != "" {
		return o.GC
	}
	return "precise"
}

var noSockets = regexp.MustCompile(`package (net/\S+) is not in std`)

// tiny runs TinyGo. Its standard library lacks net/http, which authors import
// for http.MethodPost, and its error names only a directory of its cache.
func (o Options) tiny(ctx context.Context, name string, args ...string) error {
	var said bytes.Buffer
	o.Log = io.MultiWriter(o.Log, &said)
	err := o.run(ctx, o.Dir, nil, name, args...)
	if missing := noSockets.FindSubmatch(said.Bytes()); err != nil && missing != nil {
		return fmt.Errorf("%w: a guest has no sockets, and TinyGo no %s: call the cloud by sdk/rest or op.HTTP(), and write \"POST\" for http.MethodPost", err, missing[1])
	}
	return err
}

// run runs a program and logs its output.
func (o Options) run(ctx context.Context, dir string, env []string, name string, args ...string) error {
	c := o.command(ctx, dir, env, name, args...)
	c.Stdout = o.Log
	return explain(c, c.Run())
}

func (o Options) output(ctx context.Context, dir string, env []string, name string, args ...string) (string, error) {
	c := o.command(ctx, dir, env, name, args...)
	out, err := c.Output()
	return string(out), explain(c, err)
}

// compilerEnd is the time that an interrupted compiler has to end.
const compilerEnd = 5 * time.Second

// command fixes Go's flags, whatever the user's settings: a module is the same
// wherever it is built.
func (o Options) command(ctx context.Context, dir string, env []string, name string, args ...string) *exec.Cmd {
	c := exec.CommandContext(ctx, name, args...)
	c.Dir, c.Stderr = dir, o.Log
	// Compilers have children and temporary files: an interrupt ends both.
	c.Cancel, c.WaitDelay = func() error { return c.Process.Signal(os.Interrupt) }, compilerEnd
	c.Env = append(append(os.Environ(), "GOFLAGS=-trimpath"), env...)
	return c
}

func explain(c *exec.Cmd, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s %s: %w", filepath.Base(c.Path), strings.Join(c.Args[1:min(len(c.Args), 3)], " "), err)
}
