package build_test

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/abi/manifest"
	"github.com/wasm-ccm/wasm-ccm/guests/build"
)

// guest is the smallest that compiles.
func guest(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	write(t, dir, "go.mod", "module example.com/least\n\ngo 1.25.0\n")
	write(t, dir, "main.go", "package main\n\nvar version = \"none\"\n\nfunc main() { println(version) }\n")
	write(t, dir, "manifest.json", `{"name": "least", "version": "0.1.0", "abi": {"min": 1, "max": 1}, "ops": [], "capabilities": []}`)
	return dir
}

func write(t *testing.T, dir, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestBuild(t *testing.T) {
	dir := guest(t)
	o := build.Options{Dir: dir, Out: filepath.Join(t.TempDir(), "new", "least.wasm"), Compiler: build.Go}
	first, err := build.Build(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	module, err := os.ReadFile(o.Out)
	if err != nil {
		t.Fatal(err)
	}
	section, found, err := manifest.Section(module)
	if !first.Fresh || err != nil || !found || !bytes.Contains(section, []byte(`"least"`)) || int64(len(module)) != first.Size {
		t.Errorf("%+v: %v, %s", first, err, section)
	}
	if entries, err := os.ReadDir(filepath.Dir(o.Out)); err != nil || len(entries) != 2 {
		t.Errorf("%v, %v: the module and its stamp", entries, err)
	}
	again, err := build.Build(t.Context(), o)
	if err != nil || again.Fresh {
		t.Errorf("the second time: %+v, %v", again, err)
	}
	write(t, dir, "embedded_test.go", "package main\n")
	if same, err := build.Build(t.Context(), o); err != nil || same.Fresh {
		t.Errorf("a test of the guest is not of the module: %+v, %v", same, err)
	}
	o.Version = "9.8.7"
	if newer, err := build.Build(t.Context(), o); err != nil || !newer.Fresh || newer.Version != "9.8.7" {
		t.Errorf("another version: %+v, %v", newer, err)
	}
	if module, err = os.ReadFile(o.Out); err != nil || bytes.Count(module, []byte("9.8.7")) < 2 {
		t.Errorf("the version is not in main.version and in the manifest: %v", err)
	}
	write(t, dir, "more.go", "package main\n\nfunc init() { println(\"more\") }\n")
	if changed, err := build.Build(t.Context(), o); err != nil || !changed.Fresh {
		t.Errorf("another source: %+v, %v", changed, err)
	}
}

// Each mistake has one clear error, and the former module stays.
func TestMistakes(t *testing.T) {
	for name, test := range map[string]struct {
		change func(t *testing.T, o *build.Options)
		want   string
	}{
		"no manifest":  {func(_ *testing.T, o *build.Options) { o.Dir = filepath.Join(o.Dir, "none") }, "every guest needs a manifest"},
		"bad manifest": {func(t *testing.T, o *build.Options) { write(t, o.Dir, "manifest.json", "{}") }, "manifest.json: "},
		"long manifest": {func(t *testing.T, o *build.Options) {
			write(t, o.Dir, "manifest.json", strings.Repeat(" ", abi.MaxManifestBytes)+"{}")
		}, "shorten it to at most 65536"},
		"bad version":   {func(_ *testing.T, o *build.Options) { o.Version = "1 2" }, "manifest.json: "},
		"compiler":      {func(_ *testing.T, o *build.Options) { o.Compiler = "rustc" }, `"rustc" is none of tinygo, tinygo-build, go`},
		"no Go in it":   {func(t *testing.T, o *build.Options) { write(t, o.Dir, "main.go", "package main\nfunc main() { x }\n") }, "go build"},
		"syntax":        {func(t *testing.T, o *build.Options) { write(t, o.Dir, "main.go", "package") }, "go "},
		"a directory":   {func(_ *testing.T, o *build.Options) { o.Out = o.Dir }, ""},
		"not a library": {func(t *testing.T, o *build.Options) { write(t, o.Dir, "main.go", "package other\n") }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			o := build.Options{Dir: guest(t), Out: filepath.Join(t.TempDir(), "out.wasm"), Compiler: build.Go}
			write(t, filepath.Dir(o.Out), "out.wasm", "former")
			former := o.Out
			test.change(t, &o)
			_, err := build.Build(t.Context(), o)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("%v, want %q", err, test.want)
			}
			if text, err := os.ReadFile(former); err != nil || string(text) != "former" {
				t.Errorf("the former module: %q, %v", text, err)
			}
		})
	}
}

// TinyGo's own message is "not in std" and a directory of its cache.
func TestNetHTTPInATinyGoGuest(t *testing.T) {
	tools := t.TempDir()
	script := "#!/bin/sh\n[ \"$1\" = version ] && exit\necho 'main.go:3:8: package net/http is not in std (/cache/src/net/http)' >&2\nexit 1\n"
	if err := os.WriteFile(filepath.Join(tools, "tinygo"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", tools+":"+os.Getenv("PATH"))
	_, err := build.Build(t.Context(), build.Options{Dir: guest(t), Out: filepath.Join(t.TempDir(), "out.wasm"), Compiler: build.TinyGo})
	if err == nil || !strings.Contains(err.Error(), `TinyGo no net/http: call the cloud by sdk/rest or op.HTTP(), and write "POST" for http.MethodPost`) {
		t.Errorf("%v", err)
	}
}

// Without a version and without a checkout the compiler is unknown.
func TestToolchainOfNoVersion(t *testing.T) {
	debianHas(t)
	_, err := build.Build(t.Context(), build.Options{Dir: guest(t), Out: filepath.Join(t.TempDir(), "out.wasm"), Compiler: build.TinyGoBuild, Tools: t.TempDir()})
	if !errors.Is(err, build.ErrCompiler) || !strings.Contains(err.Error(), "--toolchain CHECKOUT/guests/toolchain") || !strings.Contains(err.Error(), "--compiler go") {
		t.Errorf("%v", err)
	}
}

// The manager refuses such a module, which is late to hear of it.
func TestUndeclaredCapability(t *testing.T) {
	module := []byte("\x00asm\x01\x00\x00\x00\x02\x11\x01\x06ccm_v1\x05nodes\x00\x00")
	_, err := build.Append(module, []byte(`{"name": "x", "version": "1", "abi": {"min": 1, "max": 1}, "ops": []}`))
	if err == nil || !strings.Contains(err.Error(), `"nodes", which is not in the list: add it to "capabilities"`) {
		t.Errorf("%v", err)
	}
}

// A program of no release builds the compiler of the checkout that the guest's SDK is of.
func TestToolchainOfACheckout(t *testing.T) {
	debianHas(t)
	dir, checkout := guest(t), t.TempDir()
	const home = "github.com/wasm-ccm/wasm-ccm/guests"
	write(t, dir, "go.mod", "module example.com/least\n\ngo 1.25.0\n\nrequire "+home+" v0.0.0\n\nreplace "+home+" => "+checkout+"\n")
	write(t, checkout, "go.mod", "module "+home+"\n\ngo 1.25.0\n")
	tool := filepath.Join(checkout, "toolchain", build.TinyGoBuild)
	if err := os.MkdirAll(tool, 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Dir(tool), "go.mod", "module "+home+"/toolchain\n\ngo 1.25.0\n")
	write(t, tool, "main.go", "package main\n\nimport \"os\"\n\nfunc main() { os.WriteFile(os.Args[len(os.Args)-2], []byte(\"\\x00asm\\x01\\x00\\x00\\x00\"), 0o600) }\n")
	result, err := build.Build(t.Context(), build.Options{Dir: dir, Out: filepath.Join(t.TempDir(), "out.wasm"), Tools: t.TempDir()})
	if err != nil || result.Compiler != build.TinyGoBuild {
		t.Errorf("%+v, %v", result, err)
	}
}

// debianHas lets Debian have all packages of LLVM, and the PATH no TinyGo.
func debianHas(t *testing.T) {
	t.Helper()
	tools := t.TempDir()
	goProgram, err := exec.LookPath("go")
	if err != nil {
		t.Fatal(err)
	}
	script := "#!/bin/sh\nshift 2\nfor package; do echo installed; done\n"
	if err := errors.Join(os.Symlink(goProgram, filepath.Join(tools, "go")), os.WriteFile(filepath.Join(tools, "dpkg-query"), []byte(script), 0o755)); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", tools)
}
