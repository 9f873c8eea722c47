package wasmbin_test

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/wasmbin"
)

func section(id byte, content string) string {
	return string(id) + string(wasmbin.AppendU32(nil, uint32(len(content)))) + content
}

// Sections of a small module that is valid: one function of type () -> (), a
// table, a memory and a constant global.
const (
	typeSection     = "\x01\x04\x01\x60\x00\x00"
	functionSection = "\x03\x02\x01\x00"
	tableSection    = "\x04\x04\x01\x70\x00\x01"
	memorySection   = "\x05\x03\x01\x00\x01"
	globalSection   = "\x06\x06\x01\x7f\x00\x41\x2a\x0b"
	codeSection     = "\x0a\x04\x01\x02\x00\x0b"
)

// TestModule parses modules that differ from a small valid one in one section.
func TestModule(t *testing.T) {
	globals := func(inits ...string) string {
		return section(6, string(byte(len(inits)))+"\x7f\x00"+strings.Join(inits, "\x7f\x00"))
	}
	element := func(segment string) string { return section(9, "\x01"+segment) }
	data := func(segment string) string { return section(11, "\x01"+segment) }
	parts := []string{1: typeSection, 3: functionSection, 4: tableSection, 5: memorySection, 6: globalSection, 10: codeSection, 13: ""}
	for name, c := range map[string]struct {
		// at is the place of what is put in place of a section, or between two.
		at         int
		part, want string
	}{
		"valid":                         {0, "", ""},
		"custom section":                {7, section(0, "\x01xabc"), ""},
		"custom section without a name": {7, section(0, ""), "unexpected end"},
		"custom section, name too long": {7, section(0, "\x05abc"), "unexpected end"},
		"custom section, name of 1,024": {7, section(0, "\x80\x08"+strings.Repeat("x", 1024)), ""},
		"custom section, name of 1,025": {7, section(0, "\x81\x08"+strings.Repeat("x", 1025)), "1025 bytes in a name"},
		"custom section, not UTF-8":     {7, section(0, "\x01\xff"), "not UTF-8"},
		"section without a size":        {13, "\x00", "unexpected end"},
		"section of 4 GiB":              {13, "\x00\xff\xff\xff\xff\x0f", "unexpected end"},
		"section size of 6 bytes":       {13, "\x00\x82\x80\x80\x80\x80\x00\x00\x00", "number too long"},
		"section size padded":           {5, "\x05\x83\x80\x80\x80\x00\x01\x00\x01", ""},
		"section 13":                    {13, section(13, "\x00"), "section 13 is unknown"},
		"section 64":                    {13, section(64, ""), "section 64 is unknown"},
		"memory section twice":          {6, memorySection, "stands twice or out of order"},
		"section out of order":          {7, section(2, "\x00"), "stands twice or out of order"},
		"section too long":              {5, "\x05\x04\x01\x00\x01\x00", "1 bytes left over"},
		"section ends in an entry":      {5, "\x05\x02\x01\x00", "unexpected end"},

		"function type of another form": {1, section(1, "\x01\x5f\x00"), "type form 0x5f"},
		"recursive types":               {1, section(1, "\x01\x4e\x01\x60\x00\x00"), "type form 0x4e"},
		"parameter without a type":      {1, section(1, "\x01\x60\x01\x40\x00"), "type 0x40 is not a value type"},
		"parameters without end":        {1, section(1, "\x01\x60\xff\xff\x03\x00"), "are allowed"},
		"function of no type":           {3, section(3, "\x01\x01"), "type 1 does not exist"},
		"function without a body":       {10, "", "1 functions, but 0 have a body"},
		"body without a function":       {10, section(10, "\x02\x02\x00\x0b\x02\x00\x0b"), "more bodies than functions"},
		"body that is cut":              {10, section(10, "\x01\x09\x00\x0b"), "unexpected end"},
		"body with more locals":         {10, section(10, "\x01\x08\x01\xff\xff\xff\xff\x0f\x7f\x0b"), "locals in one function"},
		"body, locals add up":           {10, section(10, "\x01\x0e\x02\xff\xff\xff\xff\x0f\x7f\xff\xff\xff\xff\x0f\x7f\x0b"), "locals in one function"},

		"import of a tag":        {2, section(2, "\x01\x01a\x01b\x04\x00\x00"), "unknown kind 4"},
		"import of no module":    {2, section(2, "\x01\x00\x01b\x00\x00"), "from a module without a name"},
		"two memories":           {5, section(5, "\x02\x00\x01\x00\x01"), "2 memories, at most 1"},
		"memory, shared":         {5, section(5, "\x01\x03\x01\x02"), "shared or 64 bit"},
		"memory, 64 bit":         {5, section(5, "\x01\x04\x01"), "shared or 64 bit"},
		"memory, page size":      {5, section(5, "\x01\x08\x01\x00"), "shared or 64 bit"},
		"memory, flags padded":   {5, section(5, "\x01\x80\x00\x01"), "shared or 64 bit"},
		"memory, too large":      {5, section(5, "\x01\x00\x81\x80\x04"), "at most 65536"},
		"memory, less than none": {5, section(5, "\x01\x01\x02\x01"), "a maximum of 1 is below"},
		"table with a value":     {4, section(4, "\x01\x40\x00\x70\x00\x01\xd0\x70\x0b"), "type 0x40 is not a reference type"},
		"table of numbers":       {4, section(4, "\x01\x7f\x00\x01"), "type 0x7f is not a reference type"},
		"table, 64 bit":          {4, section(4, "\x01\x70\x04\x01"), "shared or 64 bit"},

		"mutability 2":            {6, section(6, "\x01\x7f\x02\x41\x00\x0b"), "neither 0 nor 1"},
		"constant of two":         {6, globals("\x41\x01\x41\x01\x6a\x0b"), "more than one instruction"},
		"constant of none":        {6, globals("\x0b"), "not allowed in a constant"},
		"constant, another type":  {6, globals("\x42\x01\x0b"), "of type i64, must be i32"},
		"constant, own global":    {6, globals("\x41\x01\x0b", "\x23\x00\x0b"), "not imported or not constant"},
		"constant, nop":           {6, globals("\x01\x41\x01\x0b"), "nop is not allowed"},
		"constant without an end": {6, globals("\x41\x01"), "unexpected end"},
		"constant, block":         {6, globals("\x02\x7f\x41\x01\x0b\x0b"), "block is not allowed"},

		"export of nothing":      {7, section(7, "\x01\x01a\x00\x01"), "function 1, which does not exist"},
		"export of a tag":        {7, section(7, "\x01\x01a\x04\x00"), "which does not exist"},
		"exports of one name":    {7, section(7, "\x02\x01a\x00\x00\x01a\x02\x00"), "two exports are called"},
		"export, not UTF-8":      {7, section(7, "\x01\x01\x80\x00\x00"), "not UTF-8"},
		"export, index of 2^32":  {7, section(7, "\x01\x01a\x00\x80\x80\x80\x80\x10"), "out of range"},
		"start of nothing":       {8, section(8, "\x01"), "function 1 does not exist"},
		"element":                {9, element("\x00\x41\x00\x0b\x01\x00"), ""},
		"element, flags padded":  {9, element("\x80\x00\x41\x00\x0b\x01\x00"), "is padded"},
		"element, flags 8":       {9, element("\x08\x41\x00\x0b\x01\x00"), "flags 8 is not supported"},
		"element, kind 1":        {9, element("\x01\x01\x01\x00"), "kind 0x01"},
		"element, table 1":       {9, element("\x02\x01\x41\x00\x0b\x00\x01\x00"), "table 1 does not exist"},
		"element, type":          {9, element("\x06\x00\x41\x00\x0b\x6f\x00"), "table 0 is of funcref, the segment of externref"},
		"element, no function":   {9, element("\x00\x41\x00\x0b\x01\x01"), "function 1 does not exist"},
		"element, i64 offset":    {9, element("\x00\x42\x00\x0b\x01\x00"), "of type i64, must be i32"},
		"element, expressions":   {9, element("\x05\x70\x02\xd2\x00\x0b\xd0\x70\x0b"), ""},
		"element, external null": {9, element("\x05\x70\x01\xd0\x6f\x0b"), "of type externref, must be funcref"},
		"element, 4 G of them":   {9, element("\x00\x41\x00\x0b\xff\xff\xff\xff\x0f\x00"), "are allowed"},

		"data":                {11, data("\x00\x41\x00\x0b\x02ab"), ""},
		"data, memory 0":      {11, data("\x02\x00\x41\x00\x0b\x02ab"), ""},
		"data, memory padded": {11, data("\x02\x80\x00\x41\x00\x0b\x02ab"), "more than one memory"},
		"data, memory 1":      {11, data("\x02\x01\x41\x00\x0b\x02ab"), "more than one memory"},
		"data, flags 3":       {11, data("\x03\x02ab"), "flags 3 is not supported"},
		"data, flags padded":  {11, data("\x81\x00\x02ab"), "is padded"},
		"data, 4 GiB":         {11, data("\x01\xff\xff\xff\xff\x0fab"), "unexpected end"},
		"data, size padded":   {11, data("\x01\x82\x80\x80\x80\x00ab"), ""},
		"data count":          {9, section(12, "\x01"), "says 1 segments, the data section has 0"},
		"data count, twice":   {9, section(12, "\x00") + section(12, "\x00"), "stands twice"},
		"data without count":  {12, section(11, "\x01\x01\x00") + section(12, "\x01"), "out of order"},
	} {
		t.Run(name, func(t *testing.T) {
			changed := slices.Clone(parts)
			changed[c.at] = c.part
			m, err := wasmbin.Parse([]byte("\x00asm\x01\x00\x00\x00" + strings.Join(changed, "")))
			if err == nil {
				err = open(m)
			}
			wants(t, err, c.want)
		})
	}
}

// open returns the first error of the locals of a body.
func open(m *wasmbin.Module) error {
	for i := range m.Bodies {
		if r, _ := m.Bodies[i].Open(0, nil); r.Err != nil {
			return r.Err
		}
	}
	return nil
}

func TestHeader(t *testing.T) {
	for wasm, want := range map[string]string{
		"":                                    "not a WebAssembly module",
		"\x00as":                              "not a WebAssembly module",
		"\x00asm\x01\x00":                     "ends within its header",
		"\x00asm\x02\x00\x00\x00":             "version 02 00 00 00 is not known",
		"\x00asm\x0d\x00\x01\x00":             "a WebAssembly component",
		"\x00asm\x01\x00\x00\x00":             "",
		"\x00asm\x01\x00\x00\x00\x00":         "unexpected end",
		"\x00asm\x01\x00\x00\x00\x00\x00":     "unexpected end",
		"\x00asm\x01\x00\x00\x00\x00\x01\x00": "",
	} {
		_, err := wasmbin.Parse([]byte(wasm))
		wants(t, err, want)
	}
	if got := wasmbin.Header(); !bytes.Equal(got, []byte("\x00asm\x01\x00\x00\x00")) {
		t.Errorf("the header is % x", got)
	}
}

// FuzzParse reads any bytes as a module, within bounds.
func FuzzParse(f *testing.F) {
	f.Add([]byte("\x00asm\x01\x00\x00\x00" + typeSection + functionSection + tableSection + memorySection + globalSection + codeSection))
	f.Fuzz(func(t *testing.T, wasm []byte) {
		m, err := wasmbin.Parse(wasm)
		if err != nil {
			return
		}
		if len(m.Bodies)+int(m.ImportedFunctions) != len(m.Functions) {
			t.Error("the parts of the module do not fit")
		}
		v, in := wasmbin.NewValidator(m), wasmbin.Instruction{}
		for i := range m.Bodies {
			r, _ := v.Enter(uint32(i), nil)
			for r.More() && v.Depth() > 0 {
				if r.Instruction(&in); r.Err != nil || v.Next(&in) != nil {
					return
				}
			}
		}
	})
}
