// Command ccm-manifest writes the manifest into a finished guest, and shows
// the one that is there. Command ccm-build does it for guests in Go.
//
//	ccm-manifest check -manifest manifest.json [-version VERSION]
//	ccm-manifest append -manifest manifest.json [-version VERSION] -o OUT.wasm IN.wasm
//	ccm-manifest show GUEST.wasm
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"

	"github.com/wasm-ccm/wasm-ccm/abi/manifest"
	"github.com/wasm-ccm/wasm-ccm/guests/build"
)

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "ccm-manifest:", err)
		os.Exit(1)
	}
}

var errUsage = errors.New("usage: ccm-manifest check -manifest manifest.json [-version VERSION] | ccm-manifest append -manifest manifest.json [-version VERSION] -o OUT.wasm IN.wasm | ccm-manifest show GUEST.wasm")

func run(args []string, stdout io.Writer) error {
	if len(args) == 0 {
		return errUsage
	}
	switch args[0] {
	case "check":
		return checkManifest(args[1:])
	case "append":
		return appendManifest(args[1:])
	case "show":
		return show(args[1:], stdout)
	}
	return errUsage
}

// checkManifest checks a manifest before anything is compiled.
func checkManifest(args []string) error {
	flags := flag.NewFlagSet("check", flag.ContinueOnError)
	file := flags.String("manifest", "manifest.json", "the manifest, a JSON `file`")
	version := flags.String("version", "", "takes the place of the manifest's version")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() != 0 {
		return errUsage
	}
	_, err := build.ReadManifest(*file, *version)
	return err
}

func appendManifest(args []string) error {
	flags := flag.NewFlagSet("append", flag.ContinueOnError)
	file := flags.String("manifest", "manifest.json", "the manifest, a JSON `file`")
	version := flags.String("version", "", "takes the place of the manifest's version")
	out := flags.String("o", "", "the `file` to write")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() != 1 || *out == "" {
		return errUsage
	}
	text, err := build.ReadManifest(*file, *version)
	if err != nil {
		return err
	}
	module, err := os.ReadFile(flags.Arg(0))
	if err != nil {
		return err
	}
	if module, err = build.Append(module, text); err != nil {
		return fmt.Errorf("%s into %s: %w", *file, flags.Arg(0), err)
	}
	return os.WriteFile(*out, module, 0o644)
}

func show(args []string, stdout io.Writer) error {
	if len(args) != 1 {
		return errUsage
	}
	module, err := os.ReadFile(args[0])
	if err != nil {
		return err
	}
	section, found, err := manifest.Section(module)
	if err != nil {
		return fmt.Errorf("%s: %w", args[0], err)
	}
	if !found {
		return fmt.Errorf("%s: no manifest; append one", args[0])
	}
	if _, err := manifest.Parse(section); err != nil {
		return fmt.Errorf("%s: %w", args[0], err)
	}
	var b bytes.Buffer
	if err := json.Indent(&b, section, "", "  "); err != nil {
		return err
	}
	b.WriteByte('\n')
	_, err = b.WriteTo(stdout)
	return err
}
