// Command tinygo-build compiles a guest with the TinyGo compiler as a library,
// at the version that go.mod pins. It is for machines without a release of
// TinyGo, and takes LLVM 19 from Debian: see ../../build.sh, which installs
// the packages and builds this command with -tags llvm19.
//
//	tinygo-build [-opt z] [-gc precise] [-tags slow] [-X main.version=1.2.3] -o OUT.wasm PACKAGE
//	tinygo-build root
//
// The guest's module is found from the working directory, as `go build` does.
// TinyGo's own library and its targets come from the module cache into a
// directory of the user's cache (TINYGOROOT, printed by `root`), made once.
package main

import (
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/tinygo-org/tinygo/builder"
	"github.com/tinygo-org/tinygo/compileopts"
)

// target is wasip1 as TinyGo has it, but with no scheduler (goroutines cost
// every call 30 to 130 times its price, and guests have none), and with
// Debian's libc and compiler-rt, which TinyGo's module zip does not hold.
//
//go:embed wasip1.json
var target []byte

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "tinygo-build:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	root, err := tinygoRoot()
	if err != nil {
		return err
	}
	if len(args) == 1 && args[0] == "root" {
		_, err := fmt.Println(root)
		return err
	}
	options := compileopts.Options{
		GOOS: "wasip1", GOARCH: "wasm", BuildMode: "c-shared", PanicStrategy: "print",
		InterpTimeout: 3 * time.Minute, InterpMaxLoopIterations: 1000,
		Semaphore:    make(chan struct{}, runtime.NumCPU()),
		GlobalValues: map[string]map[string]string{},
	}
	flags := flag.NewFlagSet("tinygo-build", flag.ContinueOnError)
	out := flags.String("o", "", "the `file` to write")
	flags.StringVar(&options.Opt, "opt", "z", "optimise: none, 0, 1, 2, s (size), z (more size)")
	flags.StringVar(&options.GC, "gc", "precise", "garbage collector: precise, conservative, leaking")
	flags.BoolVar(&options.Debug, "debug", false, "keep names and DWARF")
	flags.Func("tags", "build `tags`, a comma between them", func(s string) error {
		options.Tags = strings.FieldsFunc(s, func(r rune) bool { return r == ',' })
		return nil
	})
	flags.Func("X", "set a `package.variable=value`", func(s string) error { return setGlobal(options.GlobalValues, s) })
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() != 1 || *out == "" {
		return errors.New("usage: tinygo-build [flags] -o OUT.wasm PACKAGE | tinygo-build root")
	}
	return build(flags.Arg(0), *out, root, options)
}

func setGlobal(values map[string]map[string]string, s string) error {
	name, value, found := strings.Cut(s, "=")
	dot := strings.LastIndexByte(name, '.')
	if !found || dot <= 0 {
		return fmt.Errorf("%q is not package.variable=value", s)
	}
	pkg := name[:dot]
	if values[pkg] == nil {
		values[pkg] = map[string]string{}
	}
	values[pkg][name[dot+1:]] = value
	return nil
}

func build(pkg, out, root string, options compileopts.Options) error {
	if err := os.Setenv("TINYGOROOT", root); err != nil {
		return err
	}
	tmp, err := os.MkdirTemp("", "tinygo-build")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	options.Target = filepath.Join(tmp, "wasip1.json")
	if err := os.WriteFile(options.Target, target, 0o600); err != nil {
		return err
	}
	config, err := builder.NewConfig(&options)
	if err != nil {
		return err
	}
	result, err := builder.Build(pkg, out, tmp, config)
	if err != nil {
		return err
	}
	wasm, err := os.ReadFile(result.Binary)
	if err != nil {
		return err
	}
	return os.WriteFile(out, wasm, 0o644)
}
