package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strings"
)

const tinygoModule = "github.com/tinygo-org/tinygo"

// tinygoRoot returns TINYGOROOT if set, or else makes one from TinyGo's module
// in the module cache. The module zip lacks the git submodules of a release:
// src/net must exist, and may be empty for guests, which have no network of
// their own.
func tinygoRoot() (string, error) {
	if root := os.Getenv("TINYGOROOT"); root != "" {
		return root, nil
	}
	version, err := tinygoVersion()
	if err != nil {
		return "", err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	root := filepath.Join(cache, "wasm-ccm", "tinygo-"+version)
	if _, err := os.Stat(root); err == nil {
		return root, nil
	}
	dir, err := moduleDir(version)
	if err != nil {
		return "", err
	}
	return root, makeRoot(root, dir)
}

// tinygoVersion is the version of the compiler in this binary.
func tinygoVersion() (string, error) {
	info, ok := debug.ReadBuildInfo()
	if ok {
		for _, module := range info.Deps {
			if module.Path == tinygoModule {
				return module.Version, nil
			}
		}
	}
	return "", errors.New("this binary does not know its TinyGo version: build it with `go build` from its module")
}

func moduleDir(version string) (string, error) {
	out, err := exec.Command("go", "env", "GOMODCACHE").Output()
	if err != nil {
		return "", fmt.Errorf("go env GOMODCACHE: %w", err)
	}
	dir := filepath.Join(strings.TrimSpace(string(out)), tinygoModule+"@"+version)
	if _, err := os.Stat(dir); err != nil {
		return "", fmt.Errorf("TinyGo's sources: %w; run `go mod download` in guests/toolchain", err)
	}
	return dir, nil
}

// makeRoot makes the root in a temporary directory and renames it, so that it
// is complete or missing, even with two concurrent builds.
func makeRoot(root, dir string) error {
	if err := os.MkdirAll(filepath.Dir(root), 0o755); err != nil {
		return err
	}
	tmp, err := os.MkdirTemp(filepath.Dir(root), ".tinygo")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	for _, part := range []string{"src", "targets", "lib"} {
		if err := os.CopyFS(filepath.Join(tmp, part), os.DirFS(filepath.Join(dir, part))); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(filepath.Join(tmp, "src", "net", "http"), 0o755); err != nil {
		return err
	}
	if err := os.Chmod(tmp, 0o755); err != nil {
		return err
	}
	if err := os.Rename(tmp, root); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}
