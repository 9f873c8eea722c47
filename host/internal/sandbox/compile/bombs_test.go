package compile_test

import "bytes"

// Modules that are small and take a compiler long, or much.
func bombs() map[string][]byte {
	return map[string][]byte{
		"many locals":      manyLocals(200, 4000),
		"many functions":   manyFunctions(200_000),
		"deep nesting":     module(repeat(100_000, 0x02, 0x40), repeat(100_000, 0x0b)),
		"nested loops":     module(repeat(8000, 0x03, 0x40), repeat(8000, 0x0b)),
		"nested blocks":    module(repeat(8000, 0x02, 0x40), repeat(8000, 0x0b)),
		"resumed":          resumed(8000),
		"huge br_table":    module([]byte{0x41, 0, 0x0e}, leb(1_000_000), make([]byte, 1_000_001), nil),
		"many br_tables":   manyTables(2000, 500),
		"huge stack":       module(repeat(300_000, 0x41, 0), repeat(300_000, 0x1a)),
		"many constants":   manyGlobals(500_000),
		"locals in blocks": phis(1000, 1000),
	}
}

func leb(n int) []byte {
	var out []byte
	for ; n >= 0x80; n >>= 7 {
		out = append(out, byte(n)|0x80)
	}
	return append(out, byte(n))
}

func repeat(n int, code ...byte) []byte { return bytes.Repeat(code, n) }

func sized(content []byte) []byte { return append(leb(len(content)), content...) }

func section(id byte, parts ...[]byte) []byte {
	return append([]byte{id}, sized(bytes.Join(parts, nil))...)
}

// modules makes a module of n functions () -> () with the same body.
func modules(n int, body []byte) []byte {
	return bytes.Join([][]byte{
		[]byte("\x00asm\x01\x00\x00\x00"),
		section(1, []byte{1, 0x60, 0, 0}),
		section(3, leb(n), make([]byte, n)),
		section(10, leb(n), repeat(n, sized(body)...)),
	}, nil)
}

// module makes a module of one function without locals.
func module(code ...[]byte) []byte {
	return modules(1, bytes.Join([][]byte{{0}, bytes.Join(code, nil), {0x0b}}, nil))
}

func emptyModule() []byte { return module() }

func manyFunctions(n int) []byte { return modules(n, []byte{0, 0x0b}) }

// manyLocals are all alive across a loop with a branch, in each of n functions.
func manyLocals(n, locals int) []byte {
	body := append([]byte{1}, append(leb(locals), 0x7e)...)
	body = append(body, 0x03, 0x40)
	for i := range 200 {
		body = append(append(append(body, 0x20), leb(i*locals/200)...), 0x21)
		body = append(body, leb((i*7919+1)%locals)...)
		body = append(body, 0x41, 0, 0x04, 0x40, 0x0b)
	}
	return modules(n, append(body, 0x0b, 0x0b))
}

func manyTables(n, targets int) []byte {
	table := bytes.Join([][]byte{{0x02, 0x40, 0x41, 0, 0x0e}, leb(targets), make([]byte, targets+1), {0x0b}}, nil)
	return module(repeat(n, table...))
}

func manyGlobals(n int) []byte {
	return append([]byte("\x00asm\x01\x00\x00\x00"), section(6, leb(n), repeat(n, 0x7f, 0, 0x41, 0, 0x0b))...)
}

// resumed is a function as stock Go makes it: a branch table into blocks, one for
// each place where it may go on, with some code behind each.
func resumed(places int) []byte {
	table := append([]byte{0x41, 0, 0x0e}, leb(places-1)...)
	for i := range places {
		table = append(table, leb(i)...)
	}
	return module(repeat(places, 0x02, 0x40), table, repeat(places, 0x0b, 0x41, 0, 0x1a))
}

// phis sets every local in a branch, again and again.
func phis(locals, blocks int) []byte {
	code := append([]byte{1}, append(leb(locals), 0x7f)...)
	for i := range blocks {
		code = append(code, 0x41, 0, 0x04, 0x40, 0x41, 1, 0x21)
		code = append(append(code, leb(i%locals)...), 0x0b, 0x03, 0x40)
	}
	code = append(append(code, repeat(blocks, 0x0b)...), 0x0b)
	return modules(20, code)
}
