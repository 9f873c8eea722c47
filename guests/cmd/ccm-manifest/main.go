// Command ccm-manifest writes the manifest into a finished guest, and shows
// the one that is there. It imports abi and abi/manifest only.
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
	"slices"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/abi/manifest"
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

// checkManifest says what is wrong with a manifest before anything is compiled.
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
	text, err := readManifest(*file, *version)
	if err != nil {
		return err
	}
	if _, err := manifest.Parse(text); err != nil {
		return fmt.Errorf("%s: %w", *file, err)
	}
	return nil
}

func readManifest(file, version string) ([]byte, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	if text, err = compact(text, version); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return text, nil
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
	text, err := readManifest(*file, *version)
	if err != nil {
		return err
	}
	module, err := os.ReadFile(flags.Arg(0))
	if err != nil {
		return err
	}
	if err := declared(module, text); err != nil {
		return fmt.Errorf("%s: %w", *file, err)
	}
	if module, err = manifest.Append(module, text); err != nil {
		return fmt.Errorf("%s into %s: %w", *file, flags.Arg(0), err)
	}
	return os.WriteFile(*out, module, 0o644)
}

// declared looks whether the manifest names each capability that the module
// imports: the manager refuses it otherwise, which is late to hear of it.
func declared(module, text []byte) error {
	m, err := manifest.Parse(text)
	if err != nil {
		return err
	}
	for _, name := range abi.Capabilities() {
		// As an import is written: two names, each behind its length.
		imported := fmt.Sprintf("%c%s%c%s", len(abi.ImportModule), abi.ImportModule, len(name), name)
		if bytes.Contains(module, []byte(imported)) && !slices.Contains(m.Capabilities, name) {
			return fmt.Errorf("the code uses %q, which is not in the list: add it to \"capabilities\"", name)
		}
	}
	return nil
}

// compact removes the white space and, where version is not empty, sets the
// version.
func compact(text []byte, version string) ([]byte, error) {
	m, err := manifest.Parse(text)
	if err != nil {
		return nil, err
	}
	if version != "" {
		m.Version = version
	}
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(m); err != nil {
		return nil, err
	}
	return bytes.TrimSpace(b.Bytes()), nil
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
