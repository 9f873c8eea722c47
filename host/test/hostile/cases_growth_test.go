package hostile_test

import (
	"bytes"
	"slices"

	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/plugin"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/wasmbin"
)

// growthCases take memory of the host that is not theirs: by what an
// instruction keeps, by what an instance is made of, by the sizes of frames.
func growthCases() []hostileCase {
	return slices.Concat(referenceCases(), growNothingCases(), instanceCases(), frameCases())
}

// Instructions and parts of them, for modules that are built.
var (
	loopForever = func(code ...[]byte) []byte {
		return slices.Concat([]byte{0x03, 0x40}, slices.Concat(code...), []byte{0x0c, 0, 0x0b})
	}
	i32Zero = []byte{0x41, 0}
	drop    = []byte{0x1a}
)

// attacks makes code what every op runs behind describe, configure and probe.
func (b *built) attacks(locals [][]byte, code ...[]byte) {
	const describe, ready = 1, 3
	body := slices.Concat(vector(locals), []byte{
		0x20, 0, 0x41, describe, 0x46, 0x04, 0x40, // if op == describe
		0x41, 0, 0x41, 15, 0x10, 0, 0x41, 0, 0x0f, 0x0b, // resp_write(0, 15), return 0
		0x20, 0, 0x41, ready, 0x4d, 0x04, 0x40, // if op <= ready
		0x41, 15, 0x41, 2, 0x10, 0, 0x41, 0, 0x0f, 0x0b, // resp_write(15, 2), return 0
	}, slices.Concat(code...), []byte{0x41, 15, 0x41, 2, 0x10, 0, 0x41, 0, 0x0b})
	b.bodies[2] = append(wasmbin.AppendU32(nil, uint32(len(body))), body...)
}

// initializes makes code what _initialize runs.
func (b *built) initializes(code []byte) {
	body := append(append([]byte{0}, code...), 0x0b)
	b.bodies[1] = append(wasmbin.AppendU32(nil, uint32(len(body))), body...)
}

// inAllInstances runs a case in all instances at once.
func inAllInstances(c hostileCase) hostileCase {
	c.parallel = instanceLimit
	return c
}

// mayGrow states another bound than defaultGrowth, in MiB.
func mayGrow(most int64, c hostileCase) hostileCase {
	c.growth = most
	return c
}

// 14: wazero keeps what ref.func makes until the instance ends.
func referenceCases() []hostileCase {
	verify, refused := plugin.PhaseVerify, "ref.func in a function is not supported"
	refFunc := []byte{0xd2, 1}
	// million runs code 65,536 times 16.
	many := slices.Concat([]byte{0x03, 0x40}, bytes.Repeat(slices.Concat(refFunc, drop), 16),
		[]byte{0x23, 0, 0x41, 1, 0x6a, 0x24, 0, 0x23, 0, 0x41, 0x80, 0x80, 0x04, 0x48, 0x0d, 0, 0x0b})
	return []hostileCase{
		inAllInstances(builtCase("ref_func", "Functions as values, a million in each op.", verify, refused, func(b *built) {
			b.globals = [][]byte{{0x7f, 1, 0x41, 0, 0x0b}}
			b.attacks(nil, many)
		})),
		builtCase("ref_func_initialize", "Functions as values, for ever, when it is initialized.", verify, refused, func(b *built) {
			b.initializes(loopForever(refFunc, drop))
		}),
		builtCase("ref_func_kept", "Functions as values, put into a table for ever.", verify, refused, func(b *built) {
			b.tables = [][]byte{{0x70, 0, 1}}
			b.attacks(nil, loopForever(i32Zero, refFunc, []byte{0x26, 0}))
		}),
		builtCase("ref_func_unreachable", "Functions as values, where nothing comes.", verify, refused, func(b *built) {
			b.attacks(nil, []byte{0x00}, refFunc, drop)
		}),
		inAllInstances(builtCase("ref_from_table", "Functions as values out of a table and into another.", phaseOp, deadline, func(b *built) {
			b.tables = [][]byte{{0x70, 0, 1}, {0x70, 0, 1}}
			b.elements = [][]byte{{0, 0x41, 0, 0x0b, 1, 1}}
			b.attacks(nil, loopForever(i32Zero, i32Zero, []byte{0x25, 0, 0x26, 1}))
		})),
		inAllInstances(builtCase("ref_from_global", "Functions as values out of a global.", phaseOp, deadline, func(b *built) {
			b.globals = [][]byte{{0x70, 0, 0xd2, 1, 0x0b}, {0x70, 1, 0xd0, 0x70, 0x0b}}
			b.attacks(nil, loopForever([]byte{0x23, 0, 0x24, 1}))
		})),
	}
}

// 14: what grows by nothing, or not at all.
func growNothingCases() []hostileCase {
	null, minusOne := []byte{0xd0, 0x70}, []byte{0x41, 0x7f}
	forever := func(name, tries string, code ...[]byte) hostileCase {
		return inAllInstances(builtCase(name, tries, phaseOp, deadline, func(b *built) {
			b.tables = [][]byte{{0x70, 1, 1, 1}}
			b.elements = [][]byte{{1, 0, 1, 1}}
			b.attacks(nil, loopForever(code...))
		}))
	}
	return []hostileCase{
		forever("memory_grow_nothing", "A memory that grows by no page.", i32Zero, []byte{0x40, 0}, drop),
		forever("memory_grow_fails", "A memory that cannot grow.", minusOne, []byte{0x40, 0}, drop),
		forever("table_grow_nothing", "A table that grows by no element.", null, i32Zero, []byte{0xfc, 15, 0}, drop),
		forever("table_grow_fails", "A table that cannot grow.", null, minusOne, []byte{0xfc, 15, 0}, drop),
		forever("table_init_nothing", "A table that gets nothing out of a segment.", i32Zero, i32Zero, i32Zero, []byte{0xfc, 12, 0, 0}),
	}
}

// 14: what each instance is made of, in all instances.
func instanceCases() []hostileCase {
	serves := func(name, tries string, change func(*built)) hostileCase {
		c := inAllInstances(builtCase(name, tries, plugin.PhaseCompile, "compiling", change))
		c.either = true
		return c
	}
	return []hostileCase{
		serves("instance_elements", "100,000 elements, which an engine makes an object of each.", func(b *built) {
			n := uint32(100_000)
			b.elements = [][]byte{append(append([]byte{1, 0}, wasmbin.AppendU32(nil, n)...), bytes.Repeat([]byte{1}, int(n))...)}
		}),
		serves("instance_tables", "16 tables of 65,536 elements.", func(b *built) {
			for range 16 {
				b.tables = append(b.tables, wasmbin.AppendU32([]byte{0x70, 0}, 1<<16))
			}
		}),
		serves("instance_globals", "4,000 globals that hold vectors.", func(b *built) {
			for range 4000 {
				b.globals = append(b.globals, slices.Concat([]byte{0x7b, 1, 0xfd, 12}, make([]byte, 16), []byte{0x0b}))
			}
		}),
	}
}

// stacksGrow are the MiB of eight stacks of 8 MiB, the halves that they grew from, and
// those of the ops before, which wait for the collector.
const stacksGrow = 240

// 15: frames are large where a function seems small.
func frameCases() []hostileCase {
	const i64, v128 = 0x7e, 0x7b
	value := map[byte][]byte{i64: {0x23, 0}, v128: {0x23, 1}}
	sink := map[byte][]byte{i64: {0x24, 0}, v128: {0x24, 1}}
	// recursion is a function that calls itself for ever, with this type.
	recursion := func(name, tries string, params, results []byte, locals [][]byte, before, after []byte) hostileCase {
		return mayGrow(stacksGrow, inAllInstances(builtCase(name, tries, phaseOp, trapped, func(b *built) {
			b.globals = [][]byte{{i64, 1, 0x42, 1, 0x0b}, slices.Concat([]byte{v128, 1, 0xfd, 12}, make([]byte, 16), []byte{0x0b})}
			own, index := uint32(len(b.types)), uint32(len(b.imports)+len(b.bodies))
			b.types = append(b.types, slices.Concat([]byte{0x60}, wasmbin.AppendU32(nil, uint32(len(params))), params, wasmbin.AppendU32(nil, uint32(len(results))), results))
			call := wasmbin.AppendU32([]byte{0x10}, index)
			b.function(own, locals, slices.Concat(before, call, after))
			var arguments, rest []byte
			for _, t := range params {
				arguments = append(arguments, value[t]...)
			}
			for range results {
				rest = append(rest, drop...)
			}
			b.attacks(nil, arguments, call, rest)
		})))
	}
	repeat := func(n int, code ...byte) []byte { return bytes.Repeat(code, n) }
	each := func(n uint32, code func(i uint32) []byte) (all []byte) {
		for i := range n {
			all = append(all, code(i)...)
		}
		return all
	}
	get := func(i uint32) []byte { return wasmbin.AppendU32([]byte{0x20}, i) }
	// change sets a local to something that nothing else is.
	change := func(i uint32) []byte {
		return slices.Concat(get(i), value[i64], []byte{0x7c, 0x21}, wasmbin.AppendU32(nil, i))
	}
	keep := func(i uint32) []byte { return append(get(i), sink[i64]...) }
	vectors := func(n uint32) [][]byte { return [][]byte{append(wasmbin.AppendU32(nil, n), v128)} }
	load := func(i uint32) []byte { return wasmbin.AppendU32([]byte{0x41, 0, 0xfd, 0, 0}, i) }
	setVector := func(i uint32) []byte { return append(load(i), wasmbin.AppendU32([]byte{0x21}, i)...) }
	keepVector := func(i uint32) []byte { return append(get(i), sink[v128]...) }
	return []hostileCase{
		recursion("frame_results", "1,000 vectors as results.", nil, repeat(1000, v128), nil, nil, nil),
		recursion("frame_results_numbers", "1,000 numbers as results.", nil, repeat(1000, i64), nil, nil, nil),
		recursion("frame_params", "1,000 vectors as parameters.", repeat(1000, v128), nil, nil, each(1000, get), nil),
		recursion("frame_both", "1,000 vectors as parameters and results.", repeat(1000, v128), repeat(1000, v128), nil, each(1000, get), nil),
		recursion("frame_operands", "3,000 vectors that are kept as operands.", nil, nil, nil, each(3000, load), repeat(3000, sink[v128]...)),
		recursion("frame_locals", "4,000 vectors that are kept as locals.", nil, nil, vectors(4000), each(4000, setVector), each(4000, keepVector)),
		recursion("frame_loops", "50 loops in each other that carry 200 numbers.", nil, nil, [][]byte{locals(200)},
			slices.Concat(repeat(50, 0x03, 0x40), each(200, change), repeat(50, 0x41, 0, 0x0d, 0, 0x0b)), each(200, keep)),
		recursion("frame_blocks", "100 blocks whose ends merge 100 numbers.", nil, nil, [][]byte{locals(100)},
			repeat(100, slices.Concat([]byte{0x02, 0x40, 0x41, 0, 0x0d, 0}, each(100, change), []byte{0x0b})...), each(100, keep)),
		recursion("frame_nothing", "Functions without anything.", nil, nil, nil, nil, nil),
		mayGrow(stacksGrow, inAllInstances(builtCase("frame_doubled", "Frames that make wazero double its stack at the very end.", phaseOp, trapped, func(b *built) {
			const n = 360
			b.globals = [][]byte{slices.Concat([]byte{v128, 1, 0xfd, 12}, make([]byte, 16), []byte{0x0b})}
			for range n {
				b.globals = append(b.globals, slices.Concat([]byte{v128, 0, 0xfd, 12}, make([]byte, 16), []byte{0x0b}))
			}
			index := byte(len(b.imports) + len(b.bodies))
			b.function(typeNone, nil, slices.Concat(
				each(n, func(i uint32) []byte { return wasmbin.AppendU32([]byte{0x23}, i+1) }), []byte{0x10, index}, repeat(n, 0x24, 0)))
			b.attacks(nil, []byte{0x10, index})
		}))),
		mayGrow(stacksGrow, inAllInstances(builtCase("frame_indirect", "1,000 vectors as results, through a table.", phaseOp, trapped, func(b *built) {
			own, index := byte(len(b.types)), byte(len(b.imports)+len(b.bodies))
			b.types = append(b.types, slices.Concat([]byte{0x60, 0}, wasmbin.AppendU32(nil, 1000), repeat(1000, v128)))
			b.tables, b.elements = [][]byte{{0x70, 0, 1}}, [][]byte{{0, 0x41, 0, 0x0b, 1, index}}
			b.function(uint32(own), nil, []byte{0x41, 0, 0x11, own, 0})
			b.attacks(nil, []byte{0x10, index}, repeat(1000, drop...))
		}))),
		builtCase("frame_of_one", "One function that counts as more than the whole stack.", phaseOp, trapped, func(b *built) {
			index := byte(len(b.imports) + len(b.bodies))
			vectorOfNothing := slices.Concat(i32Zero, []byte{0xfd, 0, 0, 0}, drop) // a load, behind a return
			b.function(typeNone, nil, append([]byte{0x0f}, repeat(200_000, vectorOfNothing...)...))
			b.attacks(nil, []byte{0x10, index})
		}),
	}
}
