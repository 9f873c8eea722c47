package meter_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"

	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/meter"
)

var options = meter.Options{ImportModule: "host", ImportName: "refuel", MaxMemoryPages: 16, MaxTableElements: 100}

func rewrite(tb testing.TB, file string) []byte {
	tb.Helper()
	wasm, err := os.ReadFile(filepath.Join("testdata", file))
	if err != nil {
		tb.Fatal(err)
	}
	metered, err := meter.Rewrite(wasm, options)
	if err != nil {
		tb.Fatalf("%s: %v", file, err)
	}
	return metered
}

var errOutOfTime = errors.New("out of time")

// run instantiates a metered module and calls one function, counting tanks.
// The tank refuses to be filled when the context is over.
func run(t *testing.T, wasm []byte, name string, tank int64, args ...uint64) (result []uint64, tanks int, err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
	defer cancel()
	r := wazero.NewRuntimeWithConfig(context.Background(), wazero.NewRuntimeConfig())
	defer r.Close(context.Background())
	refuel := func(ctx context.Context, stack []uint64) {
		if ctx.Err() != nil {
			panic(errOutOfTime)
		}
		for fuel := int64(stack[0]); fuel < 0; fuel += tank {
			tanks++
			stack[0] = uint64(fuel + tank)
		}
	}
	_, err = r.NewHostModuleBuilder("host").NewFunctionBuilder().
		WithGoFunction(api.GoFunc(refuel), []api.ValueType{api.ValueTypeI64}, []api.ValueType{api.ValueTypeI64}).Export("refuel").
		Instantiate(ctx)
	if err != nil {
		t.Fatal(err)
	}
	m, err := r.Instantiate(ctx, wasm)
	if err != nil {
		t.Fatalf("instantiating the metered module: %v", err)
	}
	result, err = m.ExportedFunction(name).Call(ctx, args...)
	return result, tanks, err
}

func TestMeteredModuleComputesTheSame(t *testing.T) {
	wasm := rewrite(t, "compute.wasm")
	for _, test := range []struct {
		name string
		args []uint64
		want uint64
	}{
		{"factorial", []uint64{10}, 3628800},
		{"fibonacci", []uint64{20}, 6765},
		{"indirect", []uint64{1, 20}, 6765},
		{"fill", []uint64{7, 100}, 7},
		{"table", nil, 3},
		{"branches", []uint64{2}, 30},
		{"grow", []uint64{1}, 1},
		{"grow", []uint64{1000}, 0xffffffff}, // above the limit
	} {
		got, tanks, err := run(t, wasm, test.name, 1<<20, test.args...)
		if err != nil || got[0] != test.want {
			t.Errorf("%s%v = %v, %v; want %d", test.name, test.args, got, err, test.want)
		}
		if tanks == 0 {
			t.Errorf("%s%v: the host was never asked for fuel", test.name, test.args)
		}
	}
}

func TestEndlessGuestsEndSoon(t *testing.T) {
	wasm := rewrite(t, "endless.wasm")
	for _, name := range []string{"loop", "calls", "fills", "copies", "nested", "mutual", "indirect", "long_body", "start_again"} {
		t.Run(name, func(t *testing.T) {
			begin := time.Now()
			_, _, err := run(t, wasm, name, 1<<20)
			if !errors.Is(err, errOutOfTime) {
				t.Fatalf("error %v, want %v", err, errOutOfTime)
			}
			if late := time.Since(begin) - 300*time.Millisecond; late > 2*time.Second {
				t.Errorf("ended %v after its deadline", late)
			}
		})
	}
}

func TestCostFollowsTheWork(t *testing.T) {
	wasm := rewrite(t, "compute.wasm")
	tanks := func(name string, args ...uint64) int {
		_, n, err := run(t, wasm, name, 1000, args...)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	if a, b := tanks("sum", 10_000), tanks("sum", 100_000); b < 9*a || b > 11*a {
		t.Errorf("ten times the iterations cost %d tanks instead of %d", b, a)
	}
	if a, b := tanks("fill", 1, 6_400), tanks("fill", 1, 640_000); b < 80*a {
		t.Errorf("a hundred times the length costs %d tanks after %d", b, a)
	}
	if a, b := tanks("sum", 50_000), tanks("sum", 50_000); a != b {
		t.Errorf("the same work costs %d tanks once and %d the next time", a, b)
	}
}

func TestMemoryAndTableAreClamped(t *testing.T) {
	wasm := rewrite(t, "compute.wasm")
	if _, _, err := run(t, wasm, "table_grow", 1<<20, 50); err != nil {
		t.Fatal(err)
	}
	got, _, err := run(t, wasm, "table_grow", 1<<20, 1<<20)
	if err != nil || uint32(got[0]) != 0xffffffff {
		t.Errorf("table.grow beyond the limit = %v, %v; want -1", got, err)
	}
}

// section makes a module of one section after the header.
func section(id byte, content ...byte) string {
	return "\x00asm\x01\x00\x00\x00" + string([]byte{id, byte(len(content))}) + string(content)
}

func TestMalformedModulesAreRefused(t *testing.T) {
	for name, test := range map[string]struct{ wasm, want string }{
		"empty":                {"", "not a WebAssembly module"},
		"component":            {"\x00asm\x0d\x00\x01\x00", "component"},
		"truncated section":    {"\x00asm\x01\x00\x00\x00\x01\x7f", "unexpected end"},
		"unknown section":      {section(99), "section 99 is unknown"},
		"section twice":        {section(1, 0) + "\x01\x01\x00", "stands twice"},
		"type of no function":  {section(1, 1, 0x5f), "not that of a function"},
		"count beyond the end": {section(1, 0xff, 0x01), "unexpected end"},
		"imported memory":      {section(2, 1, 1, 'a', 1, 'b', 2, 0, 1), "only functions"},
		"imports the meter":    {section(2, 1, 4, 'h', 'o', 's', 't', 1, 'b', 3, 0x7f, 0), "the host's own"},
		"function of no type":  {section(3, 1, 0), "type 0 does not exist"},
		"memory too large":     {section(5, 1, 0, 17), "above the limit"},
		"memory shared":        {section(5, 1, 3, 1, 1), "not supported"},
		"memory maximum":       {section(5, 1, 1, 3, 2), "below its minimum"},
		"function, no body":    {section(1, 1, 0x60, 0, 0) + "\x03\x02\x01\x00", "1 functions, but 0 have a body"},
		"left over":            {section(1, 0, 0), "left over"},
		"exports the fuel":     {section(7, 1, 1, 'f', 3, 0), "does not exist"},
		"bad constant":         {section(6, 1, 0x7f, 0, 0x20, 0, 0x0b), "not allowed in a constant"},
	} {
		if _, err := meter.Rewrite([]byte(test.wasm), options); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: error %v, want one with %q", name, err, test.want)
		}
	}
}

// withBody makes a module of one function () -> () with this code.
func withBody(code ...byte) []byte {
	body := append([]byte{0}, code...)
	content := append([]byte{1, byte(len(body))}, body...)
	wasm := "\x00asm\x01\x00\x00\x00\x01\x04\x01\x60\x00\x00\x03\x02\x01\x00\x05\x03\x01\x00\x01"
	return append([]byte(wasm+"\x0a"), append([]byte{byte(len(content))}, content...)...)
}

// A function is referred to in tables and globals, and by no instruction.
func TestReferencesToFunctionsAreRefused(t *testing.T) {
	exported := func(code ...byte) []byte { // so that the reference itself is valid
		memory := []byte{5, 3, 1, 0, 1}
		return bytes.Replace(withBody(code...), memory, append(bytes.Clone(memory), 7, 5, 1, 1, 'f', 0, 0), 1)
	}
	_, err := meter.Rewrite(exported(0xd2, 0, 0x1a, 0x0b), options)
	if err == nil || !strings.Contains(err.Error(), "ref.func in a function is not supported") {
		t.Errorf("error %v", err)
	}
	if _, err := meter.Rewrite(exported(0xd0, 0x70, 0x1a, 0x0b), options); err != nil {
		t.Errorf("a null reference: %v", err)
	}
}

func TestCodeCannotReachTheMeter(t *testing.T) {
	for name, test := range map[string]struct {
		code []byte
		want string
	}{
		"writes the fuel":      {[]byte{0x42, 0, 0x24, 0, 0x0b}, "global 0 does not exist"},
		"reads the fuel":       {[]byte{0x23, 0, 0x1a, 0x0b}, "global 0 does not exist"},
		"scratch local":        {[]byte{0x20, 0, 0x1a, 0x0b}, "local 0 does not exist"},
		"type of the refuel":   {[]byte{0x02, 1, 0x0b, 0x0b}, "type 1 does not exist"},
		"unknown instruction":  {[]byte{0xff, 0x0b}, "not one of WebAssembly 2.0"},
		"tail call":            {[]byte{0x12, 0, 0x0b}, "not one of WebAssembly 2.0"},
		"atomics":              {[]byte{0xfe, 0, 0x0b}, "not one of WebAssembly 2.0"},
		"code after the end":   {[]byte{0x0b, 0x01}, "left over"},
		"no end":               {[]byte{0x01}, "unexpected end"},
		"second memory":        {[]byte{0x3f, 1, 0x1a, 0x0b}, "more than one memory"},
		"block of a high type": {[]byte{0x02, 5, 0x0b, 0x0b}, "type 5 does not exist"},
	} {
		if _, err := meter.Rewrite(withBody(test.code...), options); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: error %v, want one with %q", name, err, test.want)
		}
	}
	if _, err := meter.Rewrite(withBody(0x0b), options); err != nil {
		t.Errorf("an empty function: %v", err)
	}
}

func TestTooManyLocalsAreRefused(t *testing.T) {
	// One group of 2^31 locals, declared in six bytes.
	body := []byte{1, 0x80, 0x80, 0x80, 0x80, 0x08, 0x7f, 0x0b}
	wasm := append([]byte("\x00asm\x01\x00\x00\x00\x01\x04\x01\x60\x00\x00\x03\x02\x01\x00\x0a"), byte(len(body)+2), 1, byte(len(body)))
	_, err := meter.Rewrite(append(wasm, body...), options)
	if err == nil || !strings.Contains(err.Error(), "split the function") {
		t.Errorf("error %v", err)
	}
}

// TestCostOfChecking: what takes long to check for its size is refused, since
// that happens in the manager. A call of two bytes has a thousand arguments and
// a thousand results; a label of one byte takes as many along.
func TestCostOfChecking(t *testing.T) {
	const values, calls = 1000, 400_000
	types := append([]byte{1, 0x60}, append(leb(values), bytes.Repeat([]byte{0x7b}, values)...)...)
	types = append(types, append(leb(values), bytes.Repeat([]byte{0x7b}, values)...)...)
	body := []byte{0}
	for i := range values {
		body = append(append(body, 0x20), leb(i)...)
	}
	body = append(append(body, bytes.Repeat([]byte{0x10, 0}, calls)...), 0x0b)
	code := append(leb(1), append(leb(len(body)), body...)...)
	wasm := append([]byte("\x00asm\x01\x00\x00\x00\x01"), append(leb(len(types)), types...)...)
	wasm = append(wasm, 3, 2, 1, 0, 10)
	wasm = append(append(wasm, leb(len(code))...), code...)
	start := time.Now()
	_, err := meter.Rewrite(wasm, options)
	if err == nil || !strings.Contains(err.Error(), "for each byte of code") {
		t.Errorf("error %v after %v", err, time.Since(start))
	}
}

func FuzzRewrite(f *testing.F) {
	files, err := filepath.Glob("testdata/*.wasm")
	if err != nil || len(files) == 0 {
		f.Fatal("no seeds", err)
	}
	for _, file := range files {
		wasm, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(wasm)
	}
	ctx := context.Background()
	f.Fuzz(func(t *testing.T, wasm []byte) {
		metered, err := meter.Rewrite(wasm, options)
		if err != nil {
			return
		}
		// Whatever has been rewritten is no danger to a compiler. What it is
		// not checked for here, the compiler refuses.
		_, rawErr := compileModule(ctx, wazero.NewRuntimeConfigInterpreter(), wasm)
		_, err = compileModule(ctx, wazero.NewRuntimeConfigCompiler(), metered)
		if rawErr == nil && err != nil {
			t.Fatal(fmt.Errorf("valid before, invalid after the rewrite: %w", err))
		}
		// The engine reads the custom section of names; it is dropped here.
		if rawErr != nil && err == nil && !strings.Contains(rawErr.Error(), "custom section") {
			t.Fatal(fmt.Errorf("invalid before, valid after the rewrite: %w", rawErr))
		}
	})
}

func compileModule(ctx context.Context, config wazero.RuntimeConfig, wasm []byte) (wazero.CompiledModule, error) {
	r := wazero.NewRuntimeWithConfig(ctx, config.WithMemoryLimitPages(16).WithCustomSections(false))
	defer r.Close(ctx)
	return r.CompileModule(ctx, wasm)
}
