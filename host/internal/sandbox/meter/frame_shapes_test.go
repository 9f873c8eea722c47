package meter_test

import (
	"slices"
)

// shapes are recursions whose frames are large for an engine.
func shapes() []recursion {
	v128Op := func(n byte) []byte { return []byte{0xfd, n | 0x80, 0x01} }
	return []recursion{
		{name: "nothing"},
		{name: "1,000 results, v128", results: times(1000, typeV128)},
		{name: "1,000 results, i64", results: times(1000, typeI64)},
		{name: "1,000 params, v128", params: times(1000, typeV128), before: each(1000, get)},
		{name: "1,000 params, i64", params: times(1000, typeI64), before: each(1000, get)},
		{name: "1,000 params by call_indirect", params: times(1000, typeI64), before: append(each(1000, get), 0x41, 0), call: []byte{0x11, 0, 0}},
		{name: "1,000 results by call_indirect", results: times(1000, typeV128), before: []byte{0x41, 0}, call: []byte{0x11, 0, 0}},
		{name: "1,000 operands over a call, i32", before: globals(typeI32, 1000), after: sinks(typeI32, 1000)},
		{name: "1,000 operands over a call, f64", before: globals(typeF64, 1000), after: sinks(typeF64, 1000)},
		{name: "1,000 operands over a call, v128", before: globals(typeV128, 1000), after: sinks(typeV128, 1000)},
		{
			name: "1,000 locals over a call, v128", locals: times(1000, typeV128),
			before: each(1000, func(i int) []byte { return append(global(typeV128, i), set(i)...) }),
			after:  each(1000, func(i int) []byte { return append(get(i), sink(typeV128)...) }),
		},
		{
			name: "300 locals merged at the ends of 100 blocks", locals: times(300, typeI64),
			before: each(100, func(i int) []byte {
				return slices.Concat([]byte{0x02, 0x40}, global(typeI32, 1), []byte{0x0d, 0},
					each(300, func(i int) []byte { return append(global(typeI64, i), set(i)...) }), []byte{0x0b, 0x10, 2},
					each(300, func(i int) []byte { return append(get(i), sink(typeI64)...) }))
			}),
			after: each(300, func(i int) []byte { return append(get(i), sink(typeI64)...) }),
		},
		{
			name: "300 locals merged at the ends of 300 nested blocks", locals: times(300, typeV128),
			before: slices.Concat(times(300, 0x02, 0x40), each(300, func(i int) []byte {
				return slices.Concat(global(typeV128, 1), set(i), global(typeI32, 1), []byte{0x0d, 0, 0x0b, 0x10, 2})
			})),
			after: each(300, func(i int) []byte { return append(get(i), sink(typeV128)...) }),
		},
		{
			name: "a branch table out of 200 blocks", locals: times(200, typeI64),
			before: slices.Concat(times(200, 0x02, 0x40), global(typeI32, 1), []byte{0x0e}, leb(199), each(200, leb), []byte{0x0b},
				each(199, func(i int) []byte {
					return slices.Concat([]byte{0x10, 2}, global(typeI64, 1), set(i), global(typeI32, 1), indexed(0x0d, 198-i), []byte{0x0b})
				})),
			after: each(200, func(i int) []byte { return append(get(i), sink(typeI64)...) }),
		},
		{
			name: "50 loops that carry 200 locals", locals: times(200, typeI64),
			before: each(50, func(int) []byte {
				return slices.Concat([]byte{0x03, 0x40}, each(200, func(i int) []byte { return slices.Concat(get(i), global(typeI64, 1), []byte{0x7c}, set(i)) }),
					[]byte{0x10, 2, 0x41, 0, 0x0d, 0, 0x0b})
			}),
			after: each(200, func(i int) []byte { return append(get(i), sink(typeI64)...) }),
		},
		{
			name: "50 nested loops that carry 200 locals", locals: times(200, typeI64),
			before: slices.Concat(times(50, 0x03, 0x40), each(200, func(i int) []byte { return slices.Concat(get(i), global(typeI64, 1), []byte{0x7c}, set(i)) }),
				times(50, 0x10, 2, 0x41, 0, 0x0d, 0, 0x0b)),
			after: each(200, func(i int) []byte { return append(get(i), sink(typeI64)...) }),
		},
		{
			name: "loops that read 200 locals", locals: times(200, typeI64),
			before: slices.Concat(each(200, func(i int) []byte { return append(global(typeI64, i), set(i)...) }), each(100, func(int) []byte {
				return slices.Concat([]byte{0x03, 0x40}, each(200, func(i int) []byte { return append(get(i), sink(typeI64)...) }),
					[]byte{0x10, 2, 0x41, 0, 0x0d, 0, 0x0b})
			})),
			after: each(200, func(i int) []byte { return append(get(i), sink(typeI64)...) }),
		},
		{
			name: "the memory's place merged at the ends of 500 blocks",
			before: each(500, func(i int) []byte {
				return slices.Concat([]byte{0x02, 0x40}, global(typeI32, 1), []byte{0x0d, 0, 0x10, 2, 0x41, 0, 0x28, 2, 0, 0x24, 0, 0x0b, 0x41, 0, 0x28, 2, 0, 0x24, 0})
			}),
			after: []byte{0x41, 0, 0x28, 2, 0, 0x24, 0},
		},
		{
			name:   "the memory's place merged at the ends of 500 nested blocks",
			before: append(times(500, 0x02, 0x40), each(500, func(int) []byte { return []byte{0x23, 0, 0x0d, 0, 0x10, 2, 0x23, 0, 0x28, 2, 0, 0x24, 0, 0x0b} })...),
			after:  []byte{0x41, 0, 0x28, 2, 0, 0x24, 0},
		},
		{
			name: "500 addresses over a call", locals: times(500, typeI32),
			before: slices.Concat(each(500, func(i int) []byte { return append(global(typeI32, i), set(i)...) }), each(500, func(i int) []byte { return append(get(i), 0x28, 2, 0, 0x24, 0) })),
			after:  each(500, func(i int) []byte { return append(get(i), 0x28, 2, 4, 0x24, 0) }),
		},
		{
			name: "stores to 500 addresses, twice", locals: times(500, typeI32),
			before: slices.Concat(each(500, func(i int) []byte { return append(global(typeI32, i), set(i)...) }),
				each(500, func(i int) []byte { return slices.Concat(get(i), get(0), []byte{0x36, 2, 64}) }),
				each(500, func(i int) []byte { return slices.Concat(get(i), get(0), []byte{0x36, 2, 4}) })),
			after: each(500, func(i int) []byte { return slices.Concat(get(i), get(0), []byte{0x36, 2, 4}) }),
		},
		{
			name: "constants in 300 locals, merged", locals: times(300, typeI64),
			before: slices.Concat([]byte{0x02, 0x40, 0x41, 0, 0x0d, 0}, each(300, func(i int) []byte { return append([]byte{0x42, byte(i % 64)}, set(i)...) }), []byte{0x0b}),
			after:  each(300, func(i int) []byte { return append(get(i), sink(typeI64)...) }),
		},
		{
			name: "parameters twice over a call", params: times(500, typeI64),
			before: slices.Concat(each(500, get), each(500, get)),
			after:  sinks(typeI64, 500),
		},
		{
			name: "blocks of 200 values, 50 times", before: slices.Concat(globals(typeI64, 200), times(50, slices.Concat(
				[]byte{0x02, 4}, global(typeI32, 1), []byte{0x0d, 0, 0x10, 2, 0x0b})...)),
			after: sinks(typeI64, 200),
		},
		{
			name: "loops of 200 values, 50 times", before: slices.Concat(globals(typeI64, 200), times(50, 0x03, 4, 0x10, 2, 0x41, 0, 0x0d, 0, 0x0b)),
			after: sinks(typeI64, 200),
		},
		{
			name: "ifs of 10 values, 100 times", before: slices.Concat(globals(typeI64, 10), times(100, slices.Concat(
				global(typeI32, 1), []byte{0x04, 3, 0x10, 2}, sinks(typeI64, 10), globals(typeI64, 10), []byte{0x05, 0x10, 2, 0x0b})...)),
			after: sinks(typeI64, 10),
		},
		{
			name: "selects of 2,000 values, v128", before: slices.Concat(global(typeV128, 1), times(2000, slices.Concat(global(typeV128, 1), global(typeI32, 1), []byte{0x1b})...)),
			after: sink(typeV128),
		},
		{
			name: "2,000 vector operations under pressure",
			before: slices.Concat(globals(typeV128, 40), each(2000, func(i int) []byte {
				return slices.Concat(global(typeV128, i), global(typeV128, i+1), v128Op([]byte{0xd5, 0xce, 0xf0, 0xe7}[i%4]), sink(typeV128))
			})),
			after: sinks(typeV128, 40),
		},
		{
			name: "constants over a call", before: each(1000, func(i int) []byte { return append([]byte{0x42}, leb(i%64)...) }), after: sinks(typeI64, 1000),
		},
		{
			name: "results of calls over calls", before: each(2000, func(i int) []byte { return slices.Concat([]byte{0x10, 2}, global(typeI64, i)) }), after: sinks(typeI64, 2000),
		},
	}
}
