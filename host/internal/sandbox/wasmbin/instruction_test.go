package wasmbin_test

import (
	"bytes"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/wasmbin"
)

func decode(data []byte) (wasmbin.Instruction, error) {
	r := &wasmbin.Reader{Data: data}
	in := wasmbin.Instruction{}
	r.Instruction(&in)
	return in, r.Done("instruction")
}

// TestInstructions decodes encodings that the specification allows, and those
// that it does not allow, or that readers of the format take in different ways.
func TestInstructions(t *testing.T) {
	zeros := strings.Repeat("\x00", 16)
	for name, c := range map[string]struct{ data, err string }{
		"nop":             {"\x01", ""},
		"no opcode":       {"\x06", "instruction 0x06 is not one of WebAssembly 2.0"},
		"try_table":       {"\x1f\x40\x00", "instruction 0x1f"},
		"tail call":       {"\x12\x00", "instruction 0x12"},
		"atomic":          {"\xfe\x00\x02\x00", "instruction 0xfe"},
		"struct.new":      {"\xfb\x00\x00", "instruction 0xfb"},
		"return_call_ref": {"\x15\x00", "instruction 0x15"},

		"v128.const":                {"\xfd\x0c" + zeros, ""},
		"v128.const, padded":        {"\xfd\x8c\x00" + zeros, "the opcode 12 is padded"},
		"v128.const, padded to 5":   {"\xfd\x8c\x80\x80\x80\x00" + zeros, "the opcode 12 is padded"},
		"two bytes as they must be": {"\xfd\x80\x01", ""},
		"two bytes, padded":         {"\xfd\x8c\x81\x00", "the opcode 140 is padded"},
		"memory.fill":               {"\xfc\x0b\x00", ""},
		"memory.fill, padded":       {"\xfc\x8b\x00\x00", "the opcode 11 is padded"},
		"no vector opcode 154":      {"\xfd\x9a\x01", "instruction 0xfd 154"},
		"no vector opcode 162":      {"\xfd\xa2\x01", "instruction 0xfd 162"},
		"relaxed vector opcode":     {"\xfd\x80\x02", "is not one of WebAssembly 2.0"},
		"opcode of 32 bits":         {"\xfd\x8c\x80\x80\x80\x01" + zeros, "is not one of WebAssembly 2.0"},
		"no opcode behind 0xfc":     {"\xfc\x12", "instruction 0xfc 18"},

		"block of nothing":         {"\x02\x40", ""},
		"block of i32":             {"\x02\x7f", ""},
		"block of type 3":          {"\x02\x03", ""},
		"block of type 64":         {"\x02\xc0\x00", ""},
		"block of type 3, padded":  {"\x02\x83\x00", "is padded or negative"},
		"block of i32, padded":     {"\x02\xff\x7f", "is padded or negative"},
		"block of nothing, padded": {"\x02\xc0\x7f", "is padded or negative"},
		"block of type -65":        {"\x02\xbf\x7f", "is padded or negative"},
		"block of a reference":     {"\x02\x63\x00", "type 0x63 is not a value type"},
		"loop of type 2^32":        {"\x03\x80\x80\x80\x80\x10", "out of range"},

		"load":                          {"\x28\x02\x00", ""},
		"load of a smaller alignment":   {"\x28\x00\x00", ""},
		"load of a larger alignment":    {"\x28\x03\x00", "alignment of 2^3, at most 2^2"},
		"load, alignment padded":        {"\x28\x82\x00\x00", "the alignment 2 is padded"},
		"load of a memory by number":    {"\x28\x42\x00\x00", "alignment of 2^66"},
		"load, alignment of 2^32":       {"\x28\x80\x80\x80\x80\x10\x00", "out of range"},
		"load, offset padded":           {"\x28\x02\x84\x80\x80\x80\x00", ""},
		"load, offset of 33 bits":       {"\x28\x02\x80\x80\x80\x80\x10", "out of range"},
		"lane of a load":                {"\xfd\x54\x00\x00\x0f", ""},
		"lane of a load that is none":   {"\xfd\x54\x00\x00\x10", "lane 16, there are 16"},
		"lane of 64 bits":               {"\xfd\x57\x03\x00\x02", "lane 2, there are 2"},
		"lane that is none":             {"\xfd\x1d\x02", "lane 2, there are 2"},
		"shuffle of lane 32":            {"\xfd\x0d" + zeros[1:] + "\x20", "lane 32, there are 32"},
		"shuffle":                       {"\xfd\x0d" + zeros[1:] + "\x1f", ""},
		"memory.size":                   {"\x3f\x00", ""},
		"memory.size of memory 1":       {"\x3f\x01", "more than one memory"},
		"memory.size, padded":           {"\x3f\x80\x00", "more than one memory"},
		"memory.copy, padded":           {"\xfc\x0a\x80\x00\x00", "more than one memory"},
		"memory.init, padded segment":   {"\xfc\x08\x81\x00\x00", ""},
		"memory.init, memory 1":         {"\xfc\x08\x01\x01", "more than one memory"},
		"call, padded":                  {"\x10\x83\x80\x80\x80\x00", ""},
		"local.get, padded too long":    {"\x20\x80\x80\x80\x80\x80\x00", "number too long"},
		"call_indirect, padded":         {"\x11\x81\x00\x80\x00", ""},
		"i32.const, padded":             {"\x41\xff\xff\xff\xff\x7f", ""},
		"i32.const of 33 bits":          {"\x41\x80\x80\x80\x80\x10", "out of range"},
		"select":                        {"\x1c\x01\x7f", ""},
		"select of no types":            {"\x1c\x00", "one type, and 1 as the count"},
		"select of two types":           {"\x1c\x02\x7f\x7f", "one type, and 1 as the count"},
		"select, count padded":          {"\x1c\x81\x00\x7f", "one type, and 1 as the count"},
		"select of no value type":       {"\x1c\x01\x40", "type 0x40 is not a value type"},
		"ref.null of func":              {"\xd0\x70", ""},
		"ref.null of i32":               {"\xd0\x7f", "not a reference type"},
		"ref.null of a type by number":  {"\xd0\x00", "not a reference type"},
		"br_table":                      {"\x0e\x01\x00\x00", ""},
		"br_table, padded":              {"\x0e\x81\x00\x80\x00\x00", ""},
		"br_table of more than is left": {"\x0e\xff\xff\xff\x00\x00", "unexpected end"},
		"br_table of 4 G":               {"\x0e\xff\xff\xff\xff\x0f\x00", "are allowed"},
		"f32.const, cut":                {"\x43\x00\x00\x00", "unexpected end"},
		"v128.const, cut":               {"\xfd\x0c" + zeros[1:], "unexpected end"},
		"nothing":                       {"", "unexpected end"},
		"a prefix only":                 {"\xfd", "unexpected end"},
	} {
		t.Run(name, func(t *testing.T) {
			in, err := decode([]byte(c.data))
			wants(t, err, c.err)
			if err == nil {
				checkRoundTrip(t, in, []byte(c.data))
			}
		})
	}
}

// checkRoundTrip checks that what is written is what was read, and is no longer.
func checkRoundTrip(t *testing.T, in wasmbin.Instruction, data []byte) {
	t.Helper()
	written := in.Append(nil)
	if len(written) > len(data) {
		t.Errorf("% x is written as % x, which is longer", data, written)
	}
	again, err := decode(written)
	if err != nil {
		t.Fatalf("% x is written as % x, which is not read: %v", data, written, err)
	}
	if !reflect.DeepEqual(plain(in), plain(again)) {
		t.Errorf("% x is written as % x, which is %+v instead of %+v", data, written, again, in)
	}
	if twice := again.Append(nil); !bytes.Equal(twice, written) {
		t.Errorf("% x is not written the same twice: % x", written, twice)
	}
}

// plain makes a missing slice and an empty one the same.
func plain(in wasmbin.Instruction) wasmbin.Instruction {
	in.Raw = append([]byte{}, in.Raw...)
	in.Labels = append([]uint32{}, in.Labels...)
	return in
}

// TestEveryInstructionRoundTrips writes and reads each instruction with many
// immediates, the largest included.
func TestEveryInstructionRoundTrips(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	opcodes := wasmbin.Opcodes()
	if len(opcodes) != 437 {
		t.Errorf("%d instructions, WebAssembly 2.0 has 437", len(opcodes))
	}
	for _, op := range opcodes {
		read := 0
		for range 2000 {
			data := op.Append(nil)
			switch op {
			case wasmbin.OpSelectTyped:
				data = append(data, 1)
			case wasmbin.OpV128Const + 1: // i8x16.shuffle
				for range 16 {
					data = append(data, byte(random.IntN(32)))
				}
			}
			for range random.IntN(20) {
				data = append(data, byte(random.Uint32()&random.Uint32())) // rather small
			}
			r := &wasmbin.Reader{Data: data}
			in := wasmbin.Instruction{}
			if r.Instruction(&in); r.Err == nil {
				read++
				checkRoundTrip(t, in, data[:r.Pos])
			}
		}
		if read == 0 {
			t.Errorf("%s has never been read", op.Spec().Name)
		}
	}
}

// TestNothingElseIsAnInstruction: what the table does not have is refused.
func TestNothingElseIsAnInstruction(t *testing.T) {
	known := map[string]bool{}
	for _, op := range wasmbin.Opcodes() {
		known[string(op.Append(nil))] = true
	}
	for n := range uint32(1 << 12) {
		opcodes := [][]byte{wasmbin.AppendU32([]byte{0xfc}, n), wasmbin.AppendU32([]byte{0xfd}, n)}
		if n < 256 && n != 0xfc && n != 0xfd {
			opcodes = append(opcodes, []byte{byte(n)})
		}
		for _, opcode := range opcodes {
			_, err := decode(append(bytes.Clone(opcode), make([]byte, 32)...))
			unknown := err != nil && strings.Contains(err.Error(), "is not one of WebAssembly 2.0")
			if unknown == known[string(opcode)] {
				t.Errorf("% x: %v, known: %v", opcode, err, known[string(opcode)])
			}
		}
	}
}

// FuzzInstruction reads any bytes as instructions.
func FuzzInstruction(f *testing.F) {
	for _, op := range wasmbin.Opcodes() {
		f.Add(append(op.Append(nil), make([]byte, 20)...))
	}
	f.Add([]byte("\xfd\x8c\x00" + "\x03\x40\x0c\x00\x0b" + strings.Repeat("\x01", 11)))
	f.Fuzz(func(t *testing.T, data []byte) {
		r := &wasmbin.Reader{Data: data}
		in := wasmbin.Instruction{}
		for r.More() {
			start := r.Pos
			if r.Instruction(&in); r.Err != nil {
				return
			}
			if r.Pos <= start || r.Pos > len(data) {
				t.Fatalf("from byte %d to %d of %d", start, r.Pos, len(data))
			}
			checkRoundTrip(t, plain(in), data[start:r.Pos])
		}
	})
}
