package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/wasm-ccm/wasm-ccm/deploy/internal/attestation"
	"github.com/wasm-ccm/wasm-ccm/deploy/internal/sbom"
)

// target is a Go program of a release on one platform.
type target struct{ program, os, arch string }

func (t target) file() string { return t.program + "-" + t.os + "-" + t.arch }

// targets are the programs in a release. The managers go into the image.
func targets() []target {
	return []target{
		{manager, "linux", "amd64"}, {manager, "linux", "arm64"},
		{ccmctl, "linux", "amd64"}, {ccmctl, "linux", "arm64"}, {ccmctl, "darwin", "amd64"}, {ccmctl, "darwin", "arm64"},
	}
}

const (
	manager = "cloud-controller-manager"
	ccmctl  = "ccmctl"
)

// guests are the modules in a release: the providers and the signers.
func guests() []string {
	return []string{"openstack", "signer-cloudstack", "signer-keystone", "static"}
}

// build makes every file that is compiled. Nothing of the caller's settings
// for Go gets into it.
func build(ctx context.Context, o options, tree, parts string) error {
	env, err := goSettings(ctx)
	if err != nil {
		return err
	}
	for _, t := range targets() {
		platform := append(slices.Clone(env), "CGO_ENABLED=0", "GOOS="+t.os, "GOARCH="+t.arch, "GOAMD64=v1", "GOARM64=v8.0")
		fmt.Fprintf(os.Stderr, "==> %s\n", t.file())
		// What git would say depends on the clone: which tags it has, and whether it is one. The build ID, from which a Mac
		// binary has its UUID, depends on the cache of builds, unless it is given: the rest of the binary does not.
		if err := command(ctx, tree, platform, "go", "build", "-buildvcs=false", "-ldflags=-s -w -buildid="+t.file()+"@"+o.version+" "+o.ldflags,
			"-o", filepath.Join(parts, t.file()), "./host/cmd/"+t.program); err != nil {
			return err
		}
	}
	if err := complete(ctx, parts); err != nil {
		return err
	}
	tools, err := filepath.Abs(o.tools)
	if err != nil {
		return err
	}
	for _, guest := range guests() {
		settings := append(slices.Clone(env), "GUEST_COMPILER=tinygo-build", "GUEST_TOOLS="+tools, "GUEST_DEBUG=", "GUEST_OPT=", "GUEST_GC=", "GUEST_TAGS=", "VERSION=")
		if err := command(ctx, tree, settings, "guests/build.sh", "guests/"+guest, filepath.Join(parts, guest+".wasm")); err != nil {
			return err
		}
		modules, err := guestModules(ctx, env, tree, guest)
		if err != nil {
			return fmt.Errorf("modules of %s: %w", guest, err)
		}
		if err := writeJSON(filepath.Join(parts, guest+".modules.json"), modules); err != nil {
			return err
		}
	}
	return nil
}

// shells are those that ccmctl writes a completion for.
func shells() []string { return []string{"bash", "fish", "zsh"} }

func completion(shell string) string { return ccmctl + "-completion." + shell }

// complete has the ccmctl of this machine write its completions: they are the same on all.
func complete(ctx context.Context, parts string) error {
	program := filepath.Join(parts, target{ccmctl, runtime.GOOS, runtime.GOARCH}.file())
	for _, shell := range shells() {
		c := exec.CommandContext(ctx, program, "completion", shell)
		c.Stderr = os.Stderr
		script, err := c.Output()
		if err != nil {
			return fmt.Errorf("%s completion %s: %w", filepath.Base(program), shell, err)
		}
		if err := os.WriteFile(filepath.Join(parts, completion(shell)), script, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// goSettings are ours, but for where Go gets modules and keeps what it has made.
func goSettings(ctx context.Context) ([]string, error) {
	env := []string{"GOENV=off", "GOFLAGS=-trimpath", "GOWORK=off", "GOEXPERIMENT=", "GOFIPS140=off"}
	for _, name := range []string{"GOPROXY", "GOSUMDB", "GONOSUMDB", "GONOPROXY", "GOPRIVATE", "GOMODCACHE", "GOCACHE"} {
		c := exec.CommandContext(ctx, "go", "env", name)
		c.Stderr = os.Stderr
		out, err := c.Output()
		if err != nil {
			return nil, fmt.Errorf("go env %s: %w", name, err)
		}
		env = append(env, name+"="+strings.TrimSpace(string(out)))
	}
	return env, nil
}

// guestModules are the modules of Go that a guest's packages are from. A
// WebAssembly module does not say it itself.
func guestModules(ctx context.Context, env []string, tree, guest string) ([]sbom.Module, error) {
	c := exec.CommandContext(ctx, "go", "list", "-deps", "-json=Module", "./"+guest)
	c.Dir, c.Stderr = filepath.Join(tree, "guests"), os.Stderr
	c.Env = slices.Concat(os.Environ(), env, []string{"GOOS=wasip1", "GOARCH=wasm"})
	out, err := c.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	var all []sbom.Module
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p struct{ Module *debug.Module }
		if err := d.Decode(&p); err == io.EOF {
			break
		} else if err != nil {
			return nil, err
		}
		if p.Module != nil {
			all = append(all, sbom.ModuleOf(p.Module))
		}
	}
	slices.SortFunc(all, func(a, b sbom.Module) int { return strings.Compare(a.Path, b.Path) })
	return slices.Compact(all), nil
}

// compilers are the packages of Debian whose versions decide over the modules' bytes.
func compilers() []string {
	return []string{"binaryen", "clang-19", "libclang-rt-19-dev-wasm32", "lld-19", "llvm-19-dev", "wasi-libc"}
}

func debianPackages(ctx context.Context) ([]attestation.Package, error) {
	var all []attestation.Package
	for _, name := range compilers() {
		c := exec.CommandContext(ctx, "dpkg-query", "-W", "-f=${Version}", name)
		c.Stderr = os.Stderr
		out, err := c.Output()
		if err != nil {
			return nil, fmt.Errorf("version of Debian's %s: %w", name, err)
		}
		all = append(all, attestation.Package{Name: name, Version: string(out)})
	}
	return all, nil
}

func writeJSON(path string, content any) error {
	text, err := json.Marshal(content)
	if err != nil {
		return err
	}
	return os.WriteFile(path, text, 0o644)
}
