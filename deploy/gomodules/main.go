// Command gomodules writes the Go modules of this checkout as a directory for
// GOPROXY, under a version of your choice: a provider in a repository of its
// own can then be built with a change of the SDK that is in no release yet.
//
//	go run ./deploy/gomodules -version v0.2.0-mine -o /tmp/go-modules
//	export GOPROXY="file:///tmp/go-modules,$(go env GOPROXY)" GONOSUMDB='github.com/wasm-ccm/*'
//
// The go command keeps what it has once got: choose another version each time.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/mod/semver"

	"github.com/wasm-ccm/wasm-ccm/deploy/internal/gomodules"
)

func main() {
	version := flag.String("version", "", "the `version`, as v0.2.0-mine")
	out := flag.String("o", "", "the `directory` to write")
	checkout := flag.String("checkout", ".", "the checkout's `directory`")
	flag.Parse()
	if err := run(*checkout, *out, *version); err != nil {
		fmt.Fprintln(os.Stderr, "gomodules:", err)
		os.Exit(1)
	}
}

func run(checkout, out, version string) error {
	if out == "" || semver.Canonical(version) != version || version == "" {
		return errors.New("give -version v0.2.0-mine and -o DIRECTORY")
	}
	tree, err := os.MkdirTemp("", "gomodules")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tree)
	for _, dir := range []string{"abi", "guests"} {
		if err := os.CopyFS(filepath.Join(tree, dir), os.DirFS(filepath.Join(checkout, dir))); err != nil {
			return err
		}
	}
	license, err := os.ReadFile(filepath.Join(checkout, "LICENSE"))
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(tree, "LICENSE"), license, 0o644); err != nil {
		return err
	}
	return gomodules.Write(tree, out, version, time.Now())
}
