package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/mod/modfile"
)

// TestGeneratedRepository is a vendor's first hour: the repository of new,
// filled in as its README says, builds with its Makefile and passes its own
// test. The provider is testdata/mycloud, a module of its own.
func TestGeneratedRepository(t *testing.T) {
	checkout := vendorsHour(t)
	dir := filepath.Join(t.TempDir(), "guest-mycloud")
	mustCcmctl(t, "new", "--upstream", "--name", "mycloud", "--package", "example.com/mycloud/pkg/mycloud", "--require", "example.com/mycloud@v0.0.0",
		"--wasm-ccm", checkout, dir)
	fillIn(t, dir, checkout)
	makeTest(t, dir, os.Environ(), "probe-credentials", "safe-exists", "fault-401")
}

// The same without a checkout: go.mod requires versions of this project's
// modules, from a proxy of files and with a go command's empty cache.
func TestGeneratedRepositoryByVersion(t *testing.T) {
	checkout := vendorsHour(t)
	const version = "v0.9.0"
	proxy := t.TempDir()
	cmd := exec.CommandContext(t.Context(), "go", "run", "./deploy/gomodules", "-version", version, "-o", proxy)
	cmd.Dir = checkout
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	out, err := exec.CommandContext(t.Context(), "go", "env", "GOMODCACHE", "GOPROXY").Output()
	if err != nil {
		t.Fatal(err)
	}
	cache, others, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
	dir := filepath.Join(t.TempDir(), "guest-mycloud")
	mustCcmctl(t, "new", "--upstream", "--name", "mycloud", "--package", "example.com/mycloud/pkg/mycloud", "--require", "example.com/mycloud@v0.0.0",
		"--sdk", version, dir)
	fillIn(t, dir, checkout)
	makeTest(t, dir, append(os.Environ(),
		"GOPROXY=file://"+proxy+",file://"+cache+"/cache/download,"+others, "GOMODCACHE="+t.TempDir(), "GOFLAGS=-modcacherw", "GOWORK=off",
		"GONOSUMDB=github.com/wasm-ccm/*", "CONFORMANCE=--only=^(probe|instance)"), "probe-credentials", "instance-metadata")
	goMod, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(goMod), checkout) || strings.Count(string(goMod), " "+version) != 3 {
		t.Errorf("go.mod of the vendor:\n%s", goMod)
	}
}

// vendorsHour is skipped in short tests. It returns the path of this repository.
func vendorsHour(t *testing.T) (checkout string) {
	t.Helper()
	if testing.Short() {
		t.Skip("some minutes: stock Go builds client-go for WebAssembly")
	}
	checkout, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	return checkout
}

// fillIn follows the README of the directory, for a running cloud.
func fillIn(t *testing.T, dir, checkout string) {
	t.Helper()
	vendor := mycloudModule(t, checkout)
	api := httptest.NewServer(http.HandlerFunc(mycloudAPI))
	t.Cleanup(api.Close)
	address := strings.TrimPrefix(api.URL, "http://")
	host, port, _ := strings.Cut(address, ":")
	for _, e := range []struct{ file, old, new string }{
		{"go.mod", "\nrequire", "\nreplace example.com/mycloud => " + vendor + "\n\nrequire"}, // it is unpublished
		{"manifest.json", "\"instance_metadata\",\n    \"lb_get\", \"lb_name\", \"lb_ensure\", \"lb_update\", \"lb_delete\",\n    \"route_list\", \"route_create\", \"route_delete\"", "\"instance_metadata\""},
		{"main.go", "// upstream.ProbeInstance(\"mycloud://none\"),", "upstream.ProbeInstance(\"mycloud://none\"),"},
		{"config.yaml", "env: {}", "env: {MYCLOUD_URL: \"" + api.URL + "\"}\nloopback: [\"" + api.URL + "\"]\ngone: [machine_not_found]"},
		{"config.yaml", "api.example.com", host},
		{"host.yaml", "{host: api.example.com,", fmt.Sprintf("{scheme: http, host: %s, port: %s,", host, port)},
	} {
		edit(t, filepath.Join(dir, e.file), e.old, e.new)
	}
	secret := filepath.Join(dir, "secrets", "kube-system", "mycloud", "token")
	if err := os.MkdirAll(filepath.Dir(secret), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(secret, []byte(mycloudToken), 0o600); err != nil {
		t.Fatal(err)
	}
}

// makeTest builds the guest and requires these clauses to pass.
func makeTest(t *testing.T, dir string, env []string, clauses ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "make", "test", "CCMCTL="+releasedCcmctl(t))
	cmd.Dir, cmd.Env = dir, env
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, clause := range clauses {
		if !strings.Contains(string(out), "PASS            "+clause) {
			t.Errorf("%s did not pass in\n%s", clause, out)
		}
	}
	if !strings.Contains(string(out), "0 failed") {
		t.Errorf("%s", out)
	}
}

// mycloudModule creates the vendor's module in a directory.
func mycloudModule(t *testing.T, checkout string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	code, err := os.ReadFile("testdata/mycloud/cloud.go")
	if err != nil {
		t.Fatal(err)
	}
	adapter, err := os.ReadFile(filepath.Join(checkout, "guests", "upstream", "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	versions, err := modfile.Parse("go.mod", adapter, nil)
	if err != nil {
		t.Fatal(err)
	}
	mod := "module example.com/mycloud\n\ngo 1.26.0\n"
	for _, r := range versions.Require {
		if p := r.Mod.Path; p == "k8s.io/api" || p == "k8s.io/cloud-provider" {
			mod += "\nrequire " + r.Mod.Path + " " + r.Mod.Version + "\n"
		}
	}
	for name, text := range map[string]string{"go.mod": mod, "pkg/mycloud/cloud.go": string(code)} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

const mycloudToken = "mycloud-token-of-the-test"

// mycloudAPI has worker-1 and worker-2, for requests with the token.
func mycloudAPI(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Authorization") != "Bearer "+mycloudToken {
		http.Error(w, "who are you?", http.StatusUnauthorized)
		return
	}
	machines := map[string]string{}
	for i, name := range []string{"worker-1", "worker-2"} {
		machines[name] = fmt.Sprintf(`{"id": "m-%d", "name": %q, "address": "10.0.0.%d"}`, i, name, i+1)
	}
	if name := r.URL.Query().Get("name"); r.URL.Path == "/machines" {
		_, _ = fmt.Fprintf(w, `{"machines": [%s]}`, machines[name]) // the client may be gone
		return
	}
	for _, m := range machines {
		if strings.Contains(m, `"id": "`+strings.TrimPrefix(r.URL.Path, "/machines/")+`"`) {
			_, _ = fmt.Fprint(w, m)
			return
		}
	}
	// The cloud's own code, named in config.yaml: a gateway answers 404, too.
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusNotFound)
	_, _ = fmt.Fprintf(w, `{"code": "machine_not_found", "id": %q}`, strings.TrimPrefix(r.URL.Path, "/machines/"))
}

func edit(t *testing.T, path, old, changed string) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(text), old) {
		t.Fatalf("%s has no %q:\n%s", path, old, text)
	}
	if err := os.WriteFile(path, []byte(strings.Replace(string(text), old, changed, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
}

// releasedCcmctl is the binary of vendors: the test binary may have the race
// detector, whose compiling children exceed their memory limit.
func releasedCcmctl(t *testing.T) string {
	t.Helper()
	build := os.Getenv("CCM_BUILD")
	if build == "" {
		build = "../../../build"
	}
	path, err := filepath.Abs(filepath.Join(build, "ccmctl"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("%v; run make ccmctl", err)
	}
	return path
}
