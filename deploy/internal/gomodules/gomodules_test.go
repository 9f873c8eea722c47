package gomodules_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/wasm-ccm/wasm-ccm/deploy/internal/gomodules"
)

const version = "v0.2.0"

// An author's repository gets the SDK by its version, from a proxy, and has no
// line that says where this repository is.
func TestAProviderInARepositoryOfItsOwn(t *testing.T) {
	repository := author(t, proxy(t))
	if err := os.CopyFS(repository.dir, os.DirFS("../../../guests/example")); err != nil {
		t.Fatal(err)
	}
	repository.run("go", "mod", "init", "example.com/mycloud")
	repository.run("go", "get", gomodules.Home+"/guests@"+version)
	repository.run("go", "mod", "tidy")
	repository.run("go", "test", "./...")
	repository.run("env", "GOOS=wasip1", "GOARCH=wasm", "go", "build", "-buildmode=c-shared", "-o", "mycloud.wasm", ".")
	goMod, err := os.ReadFile(filepath.Join(repository.dir, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(goMod), "replace") || strings.Count(string(goMod), " "+version) != 2 {
		t.Errorf("go.mod of the author:\n%s", goMod)
	}
}

// The builder runs where nothing of this repository is. It makes a module by
// stock Go everywhere, and by TinyGo where Debian's LLVM is.
func TestTheBuilderAtAVersion(t *testing.T) {
	repository := author(t, proxy(t))
	if err := os.CopyFS(repository.dir, os.DirFS("../../../guests/example")); err != nil {
		t.Fatal(err)
	}
	repository.run("go", "mod", "init", "example.com/mycloud")
	repository.run("go", "get", gomodules.Home+"/guests@"+version)
	repository.run("go", "mod", "tidy")
	builder := []string{"run", gomodules.Home + "/guests/cmd/ccm-build@" + version, ".", "-o", "mycloud.wasm"}
	said := repository.run("go", append(builder, "-compiler", "go")...)
	if !strings.Contains(said, "mycloud.wasm 0.1.0: ") || !strings.Contains(said, " by go (it was asked for)") {
		t.Errorf("%s", said)
	}
	if testing.Short() {
		t.Skip("make test-all builds TinyGo at a version: a minute")
	}
	if said = repository.run("go", append(builder, "-tools", t.TempDir())...); !strings.Contains(said, "by tinygo") {
		t.Errorf("by no TinyGo:\n%s", said)
	}
}

// A replace line of a stranger would be lost in a version.
func TestAForeignReplaceIsRefused(t *testing.T) {
	tree := checkout(t)
	name := filepath.Join(tree, "abi", "go.mod")
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, append(text, "\nreplace example.com/a => example.com/b v1.0.0\n"...), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := gomodules.Write(tree, t.TempDir(), version, time.Unix(0, 0)); err == nil || !strings.Contains(err.Error(), "abi: go.mod replaces example.com/a") {
		t.Errorf("%v", err)
	}
}

// proxy is a directory with the version.
func proxy(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := gomodules.Write(checkout(t), dir, version, time.Unix(1_600_000_000, 0)); err != nil {
		t.Fatal(err)
	}
	return dir
}

// checkout is a copy of what the modules are made of.
func checkout(t *testing.T) string {
	t.Helper()
	tree := t.TempDir()
	for _, dir := range []string{"abi", "guests"} {
		if err := os.CopyFS(filepath.Join(tree, dir), os.DirFS("../../../"+dir)); err != nil {
			t.Fatal(err)
		}
	}
	license, err := os.ReadFile("../../../LICENSE")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(tree, "LICENSE"), license, 0o600); err != nil {
		t.Fatal(err)
	}
	return tree
}

type repository struct {
	t   *testing.T
	dir string
	env []string
}

// author has a repository outside of this one, and a cache of modules of their
// own: the version of another test must not stay in that of the machine. What
// the machine's has of others is taken from there.
func author(t *testing.T, proxy string) repository {
	t.Helper()
	settings := map[string]string{}
	for _, name := range []string{"GOMODCACHE", "GOPROXY"} {
		out, err := exec.CommandContext(t.Context(), "go", "env", name).Output()
		if err != nil {
			t.Fatal(err)
		}
		settings[name] = strings.TrimSpace(string(out))
	}
	return repository{t, t.TempDir(), append(os.Environ(),
		"GOPROXY=file://"+proxy+",file://"+settings["GOMODCACHE"]+"/cache/download,"+settings["GOPROXY"],
		"GOMODCACHE="+t.TempDir(), "GOFLAGS=-modcacherw", "GONOSUMDB="+gomodules.Home+"/*", "GOWORK=off")}
}

func (r repository) run(name string, args ...string) string {
	r.t.Helper()
	c := exec.CommandContext(r.t.Context(), name, args...)
	c.Dir, c.Env = r.dir, r.env
	out, err := c.CombinedOutput()
	if err != nil {
		r.t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}
