package module_test

import (
	"context"
	"errors"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/abi/manifest"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/meter"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/module"
)

// spec describes a module, which bytes encodes.
type spec struct {
	imports  []module.Import
	exports  []module.Export
	start    bool
	manifest string
}

var (
	nothing  = module.FuncType{}
	callType = module.FuncType{Params: module.I32 + module.I32, Results: module.I32}
	hostCall = module.FuncType{Params: module.I32 + module.I32, Results: module.I64}
)

const goodManifest = `{"name":"test","version":"1","abi":{"min":1,"max":1},"ops":["instance_exists"],"capabilities":["cache"]}`

// good is a provider that uses the cache and is fine.
func good() spec {
	return spec{
		imports: []module.Import{
			{Module: "ccm_v1", Name: "cache", Type: hostCall},
			{Module: "wasi_snapshot_preview1", Name: "fd_close", Type: module.FuncType{Params: module.I32, Results: module.I32}},
		},
		exports: []module.Export{
			{Name: "memory", Kind: module.KindMemory},
			{Name: "_initialize", Type: nothing},
			{Name: "ccm_abi_v1", Type: nothing},
			{Name: "ccm_call", Type: callType},
		},
		manifest: goodManifest,
	}
}

func section(id byte, items [][]byte) []byte {
	content := []byte{byte(len(items))}
	for _, item := range items {
		content = append(content, item...)
	}
	return append([]byte{id, byte(len(content)) | 0x80, byte(len(content) >> 7)}, content...)
}

func name(s string) []byte { return append([]byte{byte(len(s))}, s...) }

func typeBytes(t module.FuncType) []byte {
	out := append([]byte{0x60, byte(len(t.Params))}, t.Params...)
	return append(append(out, byte(len(t.Results))), t.Results...)
}

// bytes encodes the module; each function has a type of its own.
func (s spec) bytes(tb testing.TB) []byte {
	tb.Helper()
	var types, imports, functions, exports [][]byte
	functionCount := byte(0)
	for _, i := range s.imports {
		b := append(append(name(i.Module), name(i.Name)...), byte(i.Kind))
		switch i.Kind {
		case module.KindFunc:
			b = append(b, byte(len(types)))
			types = append(types, typeBytes(i.Type))
			functionCount++
		case module.KindTable:
			b = append(b, 0x70, 0, 1)
		case module.KindMemory:
			b = append(b, 1, 1, 2)
		case module.KindGlobal:
			b = append(b, 0x7f, 0)
		}
		imports = append(imports, b)
	}
	for _, e := range s.exports {
		b := append(name(e.Name), byte(e.Kind))
		if e.Kind != module.KindFunc {
			exports = append(exports, append(b, 0))
			continue
		}
		exports = append(exports, append(b, functionCount))
		functions = append(functions, []byte{byte(len(types))})
		types = append(types, typeBytes(e.Type))
		functionCount++
	}
	wasm := []byte("\x00asm\x01\x00\x00\x00")
	wasm = append(wasm, section(1, types)...)
	wasm = append(wasm, section(2, imports)...)
	wasm = append(wasm, section(3, functions)...)
	wasm = append(wasm, section(5, [][]byte{{0, 1}})...)
	wasm = append(wasm, section(7, exports)...)
	if s.start {
		wasm = append(wasm, 8, 1, 0)
	}
	wasm = append(wasm, section(10, slices.Repeat([][]byte{{3, 0, 0, 0x0b}}, len(functions)))...) // unreachable
	if s.manifest != "" {
		content := append(name(abi.ManifestSection), s.manifest...)
		wasm = append(wasm, 0, byte(len(content))|0x80, byte(len(content)>>7))
		wasm = append(wasm, content...)
	}
	return wasm
}

func TestCheckAcceptsAProvider(t *testing.T) {
	s := good()
	s.imports = append(s.imports, module.Import{Module: "ccm_v1", Name: "log", Type: hostCall})
	_, got, err := module.Check(s.bytes(t), module.Policy{Capabilities: []string{"cache", "store"}})
	if err != nil {
		t.Fatal(err)
	}
	want, err := manifest.Parse([]byte(goodManifest))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("manifest (-want +got):\n%s", diff)
	}
}

func TestCheckRefuses(t *testing.T) {
	importing := func(i module.Import) func(*spec) {
		return func(s *spec) { s.imports = append(s.imports, i) }
	}
	without := func(export string) func(*spec) {
		return func(s *spec) {
			s.exports = slices.DeleteFunc(s.exports, func(e module.Export) bool { return e.Name == export })
		}
	}
	exporting := func(export string, kind module.Kind, t module.FuncType) func(*spec) {
		return func(s *spec) {
			without(export)(s)
			s.exports = append(s.exports, module.Export{Name: export, Kind: kind, Type: t})
		}
	}
	withManifest := func(text string) func(*spec) { return func(s *spec) { s.manifest = text } }
	for name, test := range map[string]struct {
		change func(*spec)
		reason string
		want   []string
	}{
		"no manifest":       {withManifest(""), module.ReasonManifestMissing, []string{"ccm.manifest", "append"}},
		"bad manifest":      {withManifest(`{"name":"x"}`), module.ReasonManifestInvalid, []string{"$.version"}},
		"another ABI range": {withManifest(strings.Replace(goodManifest, `"min":1,"max":1`, `"min":2,"max":3`, 1)), module.ReasonABIUnsupported, []string{"speaks ABI 2 to 3", "speaks 1"}},
		"another ABI": {func(s *spec) {
			without("ccm_abi_v1")(s)
			exporting("ccm_abi_v2", module.KindFunc, nothing)(s)
		}, module.ReasonABIUnsupported, []string{"ccm_abi_v2", "ccm_abi_v1"}},
		"another ABI's imports":   {importing(module.Import{Module: "ccm_v2", Name: "cache", Type: hostCall}), module.ReasonABIUnsupported, []string{"ccm_v2", "ccm_v1"}},
		"no ABI at all":           {without("ccm_abi_v1"), module.ReasonExportMissing, []string{"ccm_abi_v1", "is it a provider"}},
		"no memory":               {without("memory"), module.ReasonExportMissing, []string{`memory "memory"`}},
		"no _initialize":          {without("_initialize"), module.ReasonExportMissing, []string{`"_initialize"`}},
		"no ccm_call":             {without("ccm_call"), module.ReasonExportMissing, []string{`"ccm_call"`}},
		"ccm_call of another":     {exporting("ccm_call", module.KindFunc, nothing), module.ReasonExportInvalid, []string{"ccm_call", "() -> ()", "(i32 i32) -> (i32)"}},
		"memory is a function":    {exporting("memory", module.KindFunc, nothing), module.ReasonExportInvalid, []string{"memory", "is a function"}},
		"_initialize with result": {exporting("_initialize", module.KindFunc, callType), module.ReasonExportInvalid, []string{"_initialize"}},
		"ccm_resume with result":  {exporting("ccm_resume", module.KindFunc, callType), module.ReasonExportInvalid, []string{"ccm_resume", "(i32 i32) -> (i32)", "() -> ()"}},
		"start":                   {func(s *spec) { s.start = true }, module.ReasonStartFunction, []string{"start function", "_initialize", "reactor"}},
		"unknown import":          {importing(module.Import{Module: "ccm_v1", Name: "teleport", Type: hostCall}), module.ReasonImportUnknown, []string{"ccm_v1.teleport"}},
		"unknown module":          {importing(module.Import{Module: "env", Name: "abort", Type: nothing}), module.ReasonImportUnknown, []string{"env.abort", "ccm_v1", "wasi_snapshot_preview1"}},
		"the meter's module":      {importing(module.Import{Module: "ccm_meter", Name: "refuel", Type: nothing}), module.ReasonImportUnknown, []string{"ccm_meter.refuel"}},
		"a name of control bytes": {importing(module.Import{Module: "a\nb", Name: "c", Type: nothing}), module.ReasonImportUnknown, []string{`"a\nb".c`}},
		"unknown WASI function":   {importing(module.Import{Module: "wasi_snapshot_preview1", Name: "sock_open", Type: nothing}), module.ReasonImportUnknown, []string{"wasi_snapshot_preview1.sock_open"}},
		"wrong WASI signature":    {importing(module.Import{Module: "wasi_snapshot_preview1", Name: "fd_sync", Type: nothing}), module.ReasonImportInvalid, []string{"fd_sync", "() -> ()", "(i32) -> (i32)"}},
		"wrong signature":         {importing(module.Import{Module: "ccm_v1", Name: "now", Type: callType}), module.ReasonImportInvalid, []string{"ccm_v1.now", "(i32 i32) -> (i32)", "() -> (i64)"}},
		"imported memory":         {importing(module.Import{Module: "env", Name: "memory", Kind: module.KindMemory}), module.ReasonImportUnknown, []string{"env.memory is a memory"}},
		"imported table":          {importing(module.Import{Module: "env", Name: "table", Kind: module.KindTable}), module.ReasonImportUnknown, []string{"is a table"}},
		"imported global":         {importing(module.Import{Module: "env", Name: "global", Kind: module.KindGlobal}), module.ReasonImportUnknown, []string{"is a global"}},
		"not in the manifest":     {importing(module.Import{Module: "ccm_v1", Name: "store", Type: hostCall}), module.ReasonCapabilityUndeclared, []string{`"store"`, "manifest"}},
		"not granted":             {withManifest(strings.Replace(goodManifest, `["cache"]`, `["cache","http_send"]`, 1)), module.ReasonCapabilityDenied, []string{`"http_send"`, "(providers[].grants)"}},
		"kube not granted":        {withManifest(strings.Replace(goodManifest, `["cache"]`, `["cache","kube"]`, 1)), module.ReasonCapabilityDenied, []string{`"kube"`, "(providers[].kube)"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := good()
			test.change(&s)
			_, _, err := module.Check(s.bytes(t), module.Policy{Capabilities: []string{"cache", "store"}})
			checkError(t, err, test.reason, test.want...)
		})
	}
}

func checkError(t *testing.T, err error, reason string, want ...string) {
	t.Helper()
	var e *module.Error
	if !errors.As(err, &e) || e.Reason != reason {
		t.Fatalf("error %v, want one with the reason %s", err, reason)
	}
	for _, w := range want {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("error %q does not say %q", err, w)
		}
	}
	if strings.Contains(err.Error(), "\n") {
		t.Errorf("error %q has more than one line", err)
	}
}

func TestCheckRefusesWhatIsNoModule(t *testing.T) {
	whole := string(good().bytes(t))
	for name, test := range map[string]struct{ wasm, want string }{
		"empty":           {"", "not a WebAssembly module"},
		"ELF":             {"\x7fELF\x02\x01\x01\x00", `starts with "\x7fELF"`},
		"gzip":            {"\x1f\x8b\x08\x00\x00\x00\x00\x00", "not a WebAssembly module"},
		"header only":     {"\x00asm\x01\x00", "ends within its header"},
		"component":       {"\x00asm\x0d\x00\x01\x00", "component"},
		"version 2":       {"\x00asm\x02\x00\x00\x00", "version 02 00 00 00"},
		"truncated":       {whole[:len(whole)/2], "damaged or truncated"},
		"one byte short":  {whole[:len(whole)-1], "damaged or truncated"},
		"section twice":   {whole[:8] + "\x01\x01\x00\x01\x01\x00", "stands twice"},
		"out of order":    {whole[:8] + "\x03\x01\x00\x01\x01\x00", "out of order"},
		"unknown section": {whole[:8] + "\x0e\x00", "section 14 is unknown"},
		"huge count":      {whole[:8] + "\x01\x05\xff\xff\xff\xff\x0f", "at most 65536 are allowed"},
		"long number":     {whole[:8] + "\x01\x06\x80\x80\x80\x80\x80\x00", "number"},
		"missing type":    {whole[:8] + "\x01\x01\x00\x02\x07\x01\x01a\x01b\x00\x00", "type 0 does not exist"},
		"strange import":  {whole[:8] + "\x02\x07\x01\x01a\x01b\x09\x00", "unknown kind 9"},
		"type of a GC":    {whole[:8] + "\x01\x02\x01\x5f", "0x5f"},
		"export of none":  {whole[:8] + "\x07\x05\x01\x01a\x00\x03", "function 3, which does not exist"},
		"left over":       {whole[:8] + "\x01\x02\x00\x00", "left over"},
		// An engine makes room for 4 billion segments, or for one of 4 GiB.
		"many data segments": {whole[:8] + "\x0b\x05\xff\xff\xff\xff\x0f", "at most 131072 are allowed"},
		"huge data segment":  {whole[:8] + "\x0b\x0a\x01\x00\x41\x00\x0b\xff\xff\xff\xff\x0f", "data section: at byte"},
		// What takes a compiler long.
		"many memories":     {whole[:8] + "\x05\x04\x02\x00\x00\x00", "2 memories, at most 1"},
		"many globals":      {whole[:8] + "\x06\x05\xff\xff\xff\xff\x0f", "at most 4096 are allowed"},
		"many elements":     {whole[:8] + "\x09\x05\xff\xff\xff\xff\x0f", "at most 65536 are allowed"},
		"large body":        {whole[:8] + "\x0a\x05\x01\x81\x80\x80\x02", "has 4194305 bytes, at most 4194304"},
		"body of none":      {whole[:8] + "\x0a\x04\x01\x02\x00\x0b", "more bodies than functions"},
		"function, no body": {whole[:8] + "\x01\x04\x01\x60\x00\x00\x03\x02\x01\x00", "1 functions, but 0 have a body"},
		"too large":         {whole[:8] + strings.Repeat("\x00", module.MaxBytes), "at most 268435456 are allowed"},
		"data of what kind": {whole[:8] + "\x0b\x02\x01\x03", "flags 3"},
		"data at a call":    {whole[:8] + "\x0b\x05\x01\x00\x10\x00\x0b", "instruction call"},
		"data at a sum":     {whole[:8] + "\x05\x03\x01\x00\x01" + "\x0b\x0a\x01\x00\x41\x00\x41\x00\x6a\x0b\x00\x00", "more than one instruction"},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := module.Check([]byte(test.wasm), module.Policy{})
			checkError(t, err, module.ReasonModuleInvalid, test.want)
		})
	}
}

// A module that lies about sizes costs an error, not memory.
func TestParseAllocatesNoMoreThanTheModule(t *testing.T) {
	wasm := []byte("\x00asm\x01\x00\x00\x00\x01\x08\x80\x80\x04\x60\x80\x08\x00\x00")
	if n := testing.AllocsPerRun(10, func() { _, _ = module.Parse(wasm) }); n > 50 {
		t.Errorf("%v allocations for %d bytes", n, len(wasm))
	}
}

// The functions and signatures of WASI are those that the engines have.
func TestWASIIsTheEnginesWASI(t *testing.T) {
	ctx := context.Background()
	r := wazero.NewRuntime(ctx)
	defer func() { _ = r.Close(ctx) }()
	library, err := wasi_snapshot_preview1.NewBuilder(r).Compile(ctx)
	if err != nil {
		t.Fatal(err)
	}
	functions := library.ExportedFunctions()
	for _, name := range slices.Sorted(maps.Keys(functions)) {
		s := good()
		i := module.Import{Module: "wasi_snapshot_preview1", Name: name}
		for _, v := range functions[name].ParamTypes() {
			i.Type.Params += string(rune(v))
		}
		for _, v := range functions[name].ResultTypes() {
			i.Type.Results += string(rune(v))
		}
		s.imports = append(s.imports, i)
		if _, _, err := module.Check(s.bytes(t), module.Policy{Capabilities: abi.Capabilities()}); err != nil {
			t.Error(err)
		}
	}
	if len(functions) != 46 {
		t.Errorf("the library has %d functions", len(functions))
	}
}

func FuzzParse(f *testing.F) {
	f.Add(good().bytes(f))
	minimal, err := os.ReadFile("../../../../testdata/wat/minimal.wasm")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(minimal)
	for _, seed := range []string{"", "\x00asm\x0d\x00\x01\x00", "\x00asm\x01\x00\x00\x00\x01\xff\xff\xff\xff\x0f"} {
		f.Add([]byte(seed))
	}
	ctx := context.Background()
	f.Fuzz(func(t *testing.T, wasm []byte) {
		m, err := module.Parse(wasm)
		var e *module.Error
		if err != nil {
			if !errors.As(err, &e) || e.Reason == "" {
				t.Fatalf("error %v has no reason", err)
			}
			return
		}
		// What the engine reads is what was checked. It gets the metered module.
		metered, err := meter.Rewrite(wasm, meter.Options{
			ImportModule: "ccm_meter", ImportName: "refuel", MaxMemoryPages: 1, MaxTableElements: 100,
		})
		if err != nil {
			return
		}
		r := wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfigInterpreter().WithMemoryLimitPages(1))
		defer func() { _ = r.Close(ctx) }()
		compiled, err := r.CompileModule(ctx, metered)
		if err != nil {
			return
		}
		if got, want := len(compiled.ImportedFunctions())-1, functionImports(m); got != want {
			t.Fatalf("the engine reads %d imported functions, Parse %d", got, want)
		}
		for name, f := range compiled.ExportedFunctions() {
			i := slices.IndexFunc(m.Exports, func(e module.Export) bool { return e.Name == name && e.Kind == module.KindFunc })
			if i < 0 || len(m.Exports[i].Type.Params) != len(f.ParamTypes()) || len(m.Exports[i].Type.Results) != len(f.ResultTypes()) {
				t.Fatalf("the engine reads another export %q than Parse", name)
			}
		}
	})
}

func functionImports(m *module.Module) (n int) {
	for _, i := range m.Imports {
		if i.Kind == module.KindFunc {
			n++
		}
	}
	return n
}
