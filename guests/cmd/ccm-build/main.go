// Command ccm-build makes a module of a guest: it compiles the package in DIR
// and appends DIR/manifest.json. It needs Go, and no checkout of this
// repository:
//
//	go run github.com/wasm-ccm/wasm-ccm/guests/cmd/ccm-build@VERSION [flags] DIR [-o OUT.wasm]
//
// The compiler is tinygo of PATH; or TinyGo as a library, where Debian's LLVM
// 19 is; or stock Go, whose modules are ten times as large.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"

	"github.com/wasm-ccm/wasm-ccm/guests/build"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stderr); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "ccm-build:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, log io.Writer) error {
	o := build.Options{Log: log}
	flags := flag.NewFlagSet("ccm-build", flag.ContinueOnError)
	flags.SetOutput(log)
	flags.StringVar(&o.Out, "o", "", "the `file` to write; NAME.wasm of the manifest where it is not given")
	flags.StringVar(&o.Compiler, "compiler", "", "tinygo, tinygo-build or go; the first of these that is there where it is not given")
	flags.StringVar(&o.Version, "version", "", "takes the place of the manifest's `version`")
	flags.StringVar(&o.Opt, "opt", "", "TinyGo's -opt (default z)")
	flags.StringVar(&o.GC, "gc", "", "TinyGo's -gc (default precise)")
	flags.StringVar(&o.Tags, "tags", "", "Go's build `tags`, a comma between them")
	flags.BoolVar(&o.Debug, "debug", false, "a build whose crashes tell the line, by stock Go")
	flags.StringVar(&o.Toolchain, "toolchain", "", "`directory` or version of the module of tinygo-build; that of this program where it is not given")
	flags.StringVar(&o.Tools, "tools", "", "`directory` that keeps tinygo-build; the user's cache where it is not given")
	flags.BoolVar(&o.Install, "install", false, "install Debian's LLVM 19 (850 MB) by apt-get where it is missing")
	dirs, err := parse(flags, args)
	if err != nil {
		return err
	}
	if len(dirs) != 1 {
		return errors.New("usage: ccm-build [flags] DIR [-o OUT.wasm]; -help lists the flags")
	}
	o.Dir = dirs[0]
	result, err := build.Build(ctx, o)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(log, "==>", result)
	return err
}

// parse takes flags before and after the directory.
func parse(flags *flag.FlagSet, args []string) (others []string, err error) {
	for err = flags.Parse(args); err == nil && flags.NArg() > 0; err = flags.Parse(args) {
		others, args = append(others, flags.Arg(0)), flags.Args()[1:]
	}
	return others, err
}
