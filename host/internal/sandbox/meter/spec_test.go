package meter_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"

	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/meter"
)

// The test suite of the WebAssembly specification, as wazero's module carries
// it: every module and every assertion runs with and without the meter, and
// must do the same.

// script is a file of the suite, as wast2json writes it.
type script struct {
	Commands []command `json:"commands"`
}

type command struct {
	Type       string `json:"type"`
	Line       int    `json:"line"`
	Name       string `json:"name"`
	As         string `json:"as"`
	Filename   string `json:"filename"`
	ModuleType string `json:"module_type"`
	Action     action `json:"action"`
}

type action struct {
	Type   string     `json:"type"`
	Field  string     `json:"field"`
	Module string     `json:"module"`
	Args   []argument `json:"args"`
}

type argument struct {
	Type string          `json:"type"`
	Lane string          `json:"lane_type"`
	Raw  json.RawMessage `json:"value"`
}

// values are those that a function takes for the argument.
func (a argument) values() ([]uint64, error) {
	var lanes []string
	if err := json.Unmarshal(a.Raw, &lanes); err == nil {
		bits, err := strconv.Atoi(a.Lane[1:])
		if err != nil {
			return nil, err
		}
		v := make([]uint64, 2)
		for i, lane := range lanes {
			n, err := number(lane, bits)
			if err != nil {
				return nil, err
			}
			v[i*bits/64] |= n << (i * bits % 64)
		}
		return v, nil
	}
	var text string
	if err := json.Unmarshal(a.Raw, &text); err != nil {
		return nil, err
	}
	switch {
	case text == "null":
		return []uint64{0}, nil
	case strings.HasSuffix(a.Type, "ref"):
		n, err := number(text, 64)
		return []uint64{n + 1}, err // 0 is null
	}
	bits, err := strconv.Atoi(a.Type[1:])
	if err != nil {
		return nil, err
	}
	n, err := number(text, bits)
	return []uint64{n}, err
}

func number(text string, bits int) (uint64, error) {
	if strings.HasPrefix(text, "-") {
		n, err := strconv.ParseInt(text, 10, bits)
		return uint64(n) & (math.MaxUint64 >> (64 - bits)), err
	}
	return strconv.ParseUint(text, 10, bits)
}

// world runs one script, with or without the meter.
type world struct {
	runtime wazero.Runtime
	rewrite func([]byte) ([]byte, error)
	// last is the module before, and named are all that have a name.
	last  api.Module
	named map[string]api.Module
	// reload makes the last module anew.
	reload func() error
}

func newWorld(t *testing.T, spectest []byte, rewrite func([]byte) ([]byte, error)) *world {
	ctx := t.Context()
	w := &world{runtime: wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfigCompiler()), rewrite: rewrite, named: map[string]api.Module{}}
	t.Cleanup(func() { w.runtime.Close(context.Background()) })
	refuel := func(_ context.Context, stack []uint64) {
		if int64(stack[0]) == meter.FuelCallDepth {
			panic(errCallDepth)
		}
		stack[0] = 1000 // low, so that it is called often
	}
	_, err := w.runtime.NewHostModuleBuilder(options.ImportModule).NewFunctionBuilder().
		WithGoFunction(api.GoFunc(refuel), []api.ValueType{api.ValueTypeI64}, []api.ValueType{api.ValueTypeI64}).Export(options.ImportName).
		Instantiate(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.runtime.InstantiateWithConfig(ctx, spectest, wazero.NewModuleConfig().WithName("spectest")); err != nil {
		t.Fatal(err)
	}
	return w
}

// load instantiates a module under a name, and replaces another one of it.
func (w *world) load(ctx context.Context, wasm []byte, name, as string) error {
	w.last = nil
	original := wasm
	w.reload = func() error { return w.load(ctx, original, name, as) }
	wasm, err := w.rewrite(wasm)
	if err != nil {
		return err
	}
	if old := w.runtime.Module(as); as != "" && old != nil {
		if err := old.Close(ctx); err != nil {
			return err
		}
	}
	m, err := w.runtime.InstantiateWithConfig(ctx, wasm, wazero.NewModuleConfig().WithName(as))
	if err != nil {
		return err
	}
	w.last = m
	if name != "" {
		w.named[name] = m
	}
	return nil
}

// act returns what an action comes to, as text.
func (w *world) act(ctx context.Context, a action) (outcome string, found bool) {
	m := w.last
	if a.Module != "" {
		m = w.named[a.Module]
	}
	if m == nil {
		return "no module", false
	}
	if a.Type == "get" {
		if g := m.ExportedGlobal(a.Field); g != nil {
			return fmt.Sprint(g.Get()), true
		}
		return "no global", false
	}
	var args []uint64
	for _, arg := range a.Args {
		v, err := arg.values()
		if err != nil {
			return err.Error(), false
		}
		args = append(args, v...)
	}
	f := m.ExportedFunction(a.Field)
	if f == nil {
		return "no function", false
	}
	results, err := f.Call(ctx, args...)
	if err != nil {
		return trap(err), true
	}
	return fmt.Sprint(results), true
}

// trap is the kind of an error. Where the calls nest too deep, the engine may
// be the first to say so, or the meter.
func trap(err error) string {
	text, _, _ := strings.Cut(err.Error(), "\n")
	if errors.Is(err, errCallDepth) || strings.Contains(text, "stack overflow") {
		return exhausted
	}
	return text
}

const exhausted = "call depth"

// tally counts what has been compared.
type tally struct {
	modules, refused, rejected, assertions, unread int
}

func TestSpecificationSuiteRunsTheSame(t *testing.T) {
	if testing.Short() {
		t.Skip("make test-all runs it")
	}
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/tetratelabs/wazero").Output()
	if err != nil {
		t.Fatal(err)
	}
	suite := filepath.Join(strings.TrimSpace(string(out)), "internal/integration_test/spectest")
	spectest, err := os.ReadFile(filepath.Join(suite, "testdata/spectest.wasm"))
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(suite, "v2/testdata/*.json"))
	if err != nil || len(files) < 100 {
		t.Fatalf("%d scripts, %v", len(files), err)
	}
	var total tally
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) { total.runScript(t, spectest, file) })
	}
	t.Logf("%d modules and %d actions run the same, %d invalid modules are rejected; %d modules import memories or tables, which the meter refuses, and %d actions need one of those",
		total.modules, total.assertions, total.rejected, total.refused, total.unread)
	if total.modules < 1000 || total.assertions < 20_000 {
		t.Error("much of the suite has not run")
	}
}

func (n *tally) runScript(t *testing.T, spectest []byte, file string) {
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var s script
	if err := json.Unmarshal(data, &s); err != nil {
		t.Fatal(err)
	}
	large := options
	large.MaxMemoryPages, large.MaxTableElements = 1<<16, math.MaxUint32
	plain := newWorld(t, spectest, func(wasm []byte) ([]byte, error) { return wasm, nil })
	metered := newWorld(t, spectest, func(wasm []byte) ([]byte, error) { return meter.Rewrite(wasm, large) })
	for i, c := range s.Commands {
		where := fmt.Sprintf("line %d", c.Line)
		switch c.Type {
		case "module", "assert_uninstantiable", "assert_unlinkable", "assert_invalid", "assert_malformed":
			if c.ModuleType == "text" {
				continue
			}
			wasm, err := os.ReadFile(filepath.Join(filepath.Dir(file), c.Filename))
			if err != nil {
				t.Fatal(err)
			}
			n.runModule(t, where, plain, metered, wasm, c.Name, registered(s.Commands[i+1:], c.Name), c.Type)
		case "assert_return", "assert_trap", "assert_exhaustion", "action":
			want, foundPlain := plain.act(t.Context(), c.Action)
			got, foundMetered := metered.act(t.Context(), c.Action)
			if !foundPlain || !foundMetered {
				n.unread++
				continue
			}
			n.assertions++
			if want != got {
				t.Errorf("%s: %s(%v): %s without the meter, %s with it", where, c.Action.Field, c.Action.Args, want, got)
			}
			if got != exhausted {
				continue
			}
			// The meter counts on: an instance that has failed is thrown away.
			if err := errors.Join(plain.reload(), metered.reload()); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// registered is the name under which others import a module.
func registered(after []command, name string) string {
	for _, c := range after {
		if c.Type == "register" && (c.Name == name || c.Name == "") {
			return c.As
		}
		if c.Type == "module" && name == "" {
			return ""
		}
	}
	return ""
}

// refusedOnPurpose tells modules that are valid, but not for a guest, and
// those that import from one.
func refusedOnPurpose(err error) bool {
	for _, text := range []string{"only functions are allowed", "not instantiated", "ref.func in a function", "is padded"} {
		if strings.Contains(err.Error(), text) {
			return true
		}
	}
	return false
}

func (n *tally) runModule(t *testing.T, where string, plain, metered *world, wasm []byte, name, as, kind string) {
	if kind != "module" { // what fails must not replace what is there
		a, b := *plain, *metered
		defer func() { *plain, *metered = a, b }()
		name, as = "", ""
	}
	got := metered.load(t.Context(), wasm, name, as)
	if got != nil && refusedOnPurpose(got) {
		n.refused++ // or imports from one that was
		plain.last = nil
		return
	}
	want := plain.load(t.Context(), wasm, name, as)
	switch {
	case want == nil && got == nil:
		n.modules++
	case want != nil && got != nil:
		n.rejected++
	default:
		t.Errorf("%s: %s: %v without the meter, %v with it", where, kind, want, got)
	}
}
