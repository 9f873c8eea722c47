package differential_test

import (
	"encoding/json"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// sample is a module of the specification's suite, or of this repository.
type sample struct {
	// name says where it is from, and kind is the suite's word for it: module,
	// assert_invalid, assert_malformed, assert_uninstantiable, assert_unlinkable.
	name, kind, want string
	wasm             []byte
}

// suite returns the modules of the specification's suites, in the copies that
// wazero's module carries: of WebAssembly 1.0 (v1) and 2.0 (v2).
func suite(tb testing.TB, version string) (all []sample) {
	tb.Helper()
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/tetratelabs/wazero").Output()
	if err != nil {
		tb.Fatal(err)
	}
	dir := filepath.Join(strings.TrimSpace(string(out)), "internal/integration_test/spectest", version, "testdata")
	scripts, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil || len(scripts) < 70 {
		tb.Fatalf("%d scripts in %s, %v", len(scripts), dir, err)
	}
	for _, script := range scripts {
		all = append(all, modulesOf(tb, script)...)
	}
	return all
}

func modulesOf(tb testing.TB, script string) (all []sample) {
	data, err := os.ReadFile(script)
	if err != nil {
		tb.Fatal(err)
	}
	var s struct {
		Commands []struct {
			Type, Filename, Text string
			ModuleType           string `json:"module_type"`
		}
	}
	if err := json.Unmarshal(data, &s); err != nil {
		tb.Fatal(err)
	}
	for _, c := range s.Commands {
		if c.Filename == "" || c.ModuleType == "text" {
			continue
		}
		wasm, err := os.ReadFile(filepath.Join(filepath.Dir(script), c.Filename))
		if err != nil {
			tb.Fatal(err)
		}
		all = append(all, sample{name: c.Filename, kind: c.Type, want: c.Text, wasm: wasm})
	}
	return all
}

// valid tells the modules that the suite calls valid.
func (s *sample) valid() bool { return s.kind != "assert_invalid" && s.kind != "assert_malformed" }

// own returns the modules of this repository's tests.
func own(tb testing.TB) (all []sample) {
	tb.Helper()
	for _, pattern := range []string{"*.wasm", "hostile/*.wasm", "hostile/invalid/*.wasm"} {
		files, err := filepath.Glob(filepath.Join("../../../testdata/wat", pattern))
		if err != nil || len(files) == 0 {
			tb.Fatalf("%s: %d files, %v", pattern, len(files), err)
		}
		for _, file := range files {
			wasm, err := os.ReadFile(file)
			if err != nil {
				tb.Fatal(err)
			}
			all = append(all, sample{name: filepath.Base(file), kind: "module", wasm: wasm})
		}
	}
	return all
}

// addSeeds gives a fuzz test the small modules: all of them to fuzz with, and
// some where they are only run once more, since TestMutants has them too.
func addSeeds(f *testing.F) {
	step := 10
	if flag.Lookup("test.fuzz").Value.String() != "" {
		step = 1
	}
	seen := map[string]bool{}
	for i, s := range append(suite(f, "v2"), own(f)...) {
		const most = 1500
		if i%step == 0 && len(s.wasm) <= most && !seen[string(s.wasm)] {
			seen[string(s.wasm)] = true
			f.Add(s.wasm, []byte{})
		}
	}
}
