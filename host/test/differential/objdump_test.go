package differential_test

import (
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/wasmbin"
)

// TestBoundariesAreThoseOfWabt compares the offset and the name of every
// instruction in the suites and in our own modules with those that a third
// reader finds: wasm-objdump of Debian's wabt.
func TestBoundariesAreThoseOfWabt(t *testing.T) {
	if testing.Short() {
		t.Skip("make test-all runs it")
	}
	objdump, err := exec.LookPath("wasm-objdump")
	if err != nil {
		t.Fatalf("%v: make deps installs Debian's package wabt", err)
	}
	dir := t.TempDir()
	var all []sample
	for _, s := range append(append(suite(t, "v1"), suite(t, "v2")...), append(own(t), guests(t)...)...) {
		if s.valid() && validate(s.wasm) == nil {
			s.wasm = withoutCustom(s.wasm)
			all = append(all, s)
		}
	}
	instructions, unread := 0, 0
	const batch = 100
	for start := 0; start < len(all); start += batch {
		part := all[start:min(start+batch, len(all))]
		all, err := listings(t, objdump, dir, part)
		for i := range part {
			if err == nil {
				instructions += compareListing(t, &part[i], all[i])
			} else if one, err := listings(t, objdump, dir, part[i:i+1]); err == nil {
				instructions += compareListing(t, &part[i], one[0])
			} else {
				unread++
				t.Logf("%s: wasm-objdump does not read it: %v", part[i].name, err)
			}
		}
	}
	t.Logf("%d instructions of %d modules; %d more that wasm-objdump does not read", instructions, len(all)-unread, unread)
	if len(all)-unread < 2500 || instructions < 1_000_000 || unread > 20 {
		t.Error("much of the suite has not been compared")
	}
}

// listings returns what wasm-objdump says of each module.
func listings(t *testing.T, objdump, dir string, modules []sample) ([]string, error) {
	t.Helper()
	args := []string{"-d"}
	for i, s := range modules {
		file := filepath.Join(dir, fmt.Sprintf("%d.wasm", i))
		if err := os.WriteFile(file, s.wasm, 0o600); err != nil {
			t.Fatal(err)
		}
		args = append(args, file)
	}
	out, err := exec.CommandContext(t.Context(), objdump, args...).Output()
	if err != nil {
		return nil, fmt.Errorf("wasm-objdump: %w", err)
	}
	return strings.Split(string(out), "file format wasm 0x1\n")[1:], nil
}

// listed is an instruction as wasm-objdump prints it.
type listed struct {
	at   int
	name string
}

// parseListing reads lines like " 000017: fd 0c ff | v128.const 0x1", and skips
// declarations of locals and lines on which only bytes go on.
func parseListing(listing string) (all []listed) {
	for line := range strings.Lines(listing) {
		place, rest, isCode := strings.Cut(line, ": ")
		_, text, hasText := strings.Cut(rest, "| ")
		name, _, _ := strings.Cut(strings.TrimSpace(text), " ")
		if !isCode || !hasText || name == "" || strings.HasPrefix(name, "local[") {
			continue
		}
		if at, err := strconv.ParseInt(strings.TrimSpace(place), 16, 64); err == nil {
			all = append(all, listed{int(at), name})
		}
	}
	return all
}

// compareListing returns the number of instructions that are the same.
func compareListing(t *testing.T, s *sample, listing string) int {
	t.Helper()
	theirs := parseListing(listing)
	m, err := wasmbin.Parse(s.wasm)
	if err != nil {
		t.Fatal(err)
	}
	n, in := 0, wasmbin.Instruction{}
	for i := range m.Bodies {
		for r, _ := m.Bodies[i].Open(0, nil); r.More(); n++ {
			at := r.Base + r.Pos
			if r.Instruction(&in); r.Err != nil {
				t.Fatal(r.Err)
			}
			if n >= len(theirs) {
				t.Errorf("%s: wabt has %d instructions only", s.name, n)
				return n
			}
			if name := strings.TrimSuffix(in.Spec.Name, " (typed)"); theirs[n] != (listed{at, name}) {
				t.Errorf("%s: at byte %#x %s, wabt: at byte %#x %s", s.name, at, name, theirs[n].at, theirs[n].name)
				return n
			}
		}
	}
	if n != len(theirs) {
		t.Errorf("%s: %d instructions, wabt has %d", s.name, n, len(theirs))
	}
	return n
}

// guests are the modules that compilers made.
func guests(tb testing.TB) (all []sample) {
	tb.Helper()
	dir := cmp.Or(os.Getenv("CCM_BUILD"), "../../../build")
	for _, name := range []string{"static.wasm", "openstack.wasm", "static-go.wasm"} {
		wasm, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			tb.Fatalf("%v; run make guests guests-test guests-go", err)
		}
		all = append(all, sample{name: name, kind: "module", wasm: wasm})
	}
	return all
}
