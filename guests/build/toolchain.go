package build

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strings"
)

const (
	guestsModule    = "github.com/wasm-ccm/wasm-ccm/guests"
	toolchainModule = guestsModule + "/toolchain"
)

// packages are Debian's, for building and running TinyGoBuild.
func packages() []string {
	return []string{"llvm-19-dev", "libclang-19-dev", "clang-19", "lld-19", "binaryen", "wasi-libc", "libclang-rt-19-dev-wasm32"}
}

// llvm checks for Debian's packages, and installs them if allowed.
func (o Options) llvm(ctx context.Context) error {
	if installed(ctx) {
		return nil
	}
	missing := fmt.Errorf("%w: %s needs these packages of Debian: %s", ErrCompiler, TinyGoBuild, strings.Join(packages(), " "))
	if !o.Install || !onPath("apt-get") {
		return missing
	}
	fmt.Fprintln(o.Log, "==> installing "+strings.Join(packages(), " "))
	install := append([]string{"install", "-y", "-q", "--no-install-recommends", "gcc", "g++", "libc6-dev"}, packages()...)
	for _, args := range [][]string{{"update", "-q"}, install} {
		if out, err := asRoot(ctx, args).CombinedOutput(); err != nil {
			return fmt.Errorf("%w; apt-get %s: %w: %s", missing, args[0], err, out)
		}
	}
	if !installed(ctx) {
		return missing
	}
	return nil
}

func installed(ctx context.Context) bool {
	out, err := exec.CommandContext(ctx, "dpkg-query", append([]string{"-W", "-f=${db:Status-Status}\n"}, packages()...)...).Output()
	return err == nil && string(out) == strings.Repeat("installed\n", len(packages()))
}

func asRoot(ctx context.Context, args []string) *exec.Cmd {
	command := append([]string{"env", "DEBIAN_FRONTEND=noninteractive", "apt-get"}, args...)
	if os.Getuid() != 0 {
		command = append([]string{"sudo", "-n"}, command...)
	}
	return exec.CommandContext(context.WithoutCancel(ctx), command[0], command[1:]...)
}

// toolchain returns the program TinyGoBuild, and builds it if it is missing.
// Building takes about a minute.
func (o Options) toolchain(ctx context.Context) (string, error) {
	tools, err := o.tools()
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(tools, 0o755); err != nil {
		return "", err
	}
	if o.Toolchain == "" && ownVersion() == "" {
		o.Toolchain = o.besideSDK(ctx)
	}
	if info, err := os.Stat(o.Toolchain); o.Toolchain != "" && err == nil && info.IsDir() {
		program := filepath.Join(tools, TinyGoBuild)
		return program, o.run(ctx, o.Toolchain, nil, "go", "build", "-tags", "llvm19", "-o", program, "./"+TinyGoBuild)
	}
	version := o.Toolchain
	if version == "" {
		version = ownVersion()
	}
	if version == "" {
		return "", fmt.Errorf("%w: this program is of no release, and the guest's SDK of no checkout, so the version of %s is unknown: say --toolchain CHECKOUT/guests/toolchain or --toolchain VERSION; or build by stock Go (--compiler go)", ErrCompiler, TinyGoBuild)
	}
	program := filepath.Join(tools, TinyGoBuild+"-"+version)
	if _, err := os.Stat(program); !errors.Is(err, os.ErrNotExist) {
		return program, err
	}
	return program, o.fetch(ctx, version, tools, program)
}

// besideSDK is the directory of the compiler's module where the guest's SDK is of a
// checkout; "" otherwise. A released SDK has none beside it.
func (o Options) besideSDK(ctx context.Context) string {
	o.Log = io.Discard // of a guest without the SDK
	sdk, err := o.output(ctx, o.Dir, nil, "go", "list", "-m", "-f", "{{.Dir}}", guestsModule)
	dir := filepath.Join(strings.TrimSpace(sdk), "toolchain")
	if _, missing := os.Stat(filepath.Join(dir, "go.mod")); err != nil || missing != nil {
		return ""
	}
	return dir
}

// fetch builds a version from the module proxy. The checksum database of Go
// vouches for it and for TinyGo's sources.
func (o Options) fetch(ctx context.Context, version, tools, program string) error {
	fmt.Fprintln(o.Log, "==> building the TinyGo compiler (about a minute, once)")
	work, err := os.MkdirTemp(tools, ".install")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	if err := o.run(ctx, "", []string{"GOBIN=" + work}, "go", "install", "-tags", "llvm19", toolchainModule+"/"+TinyGoBuild+"@"+version); err != nil {
		return err
	}
	return os.Rename(filepath.Join(work, TinyGoBuild), program)
}

func (o Options) tools() (string, error) {
	if o.Tools != "" {
		return filepath.Abs(o.Tools)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("where to keep the compiler: %w", err)
	}
	return filepath.Join(cache, "wasm-ccm"), nil
}

// ownVersion is the version of this package's module; empty in a checkout.
func ownVersion() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	for _, m := range append(info.Deps, &info.Main) {
		if m.Path == guestsModule && m.Replace == nil && strings.HasPrefix(m.Version, "v") && !strings.Contains(m.Version, "+dirty") {
			return m.Version
		}
	}
	return ""
}
