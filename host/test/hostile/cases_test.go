package hostile_test

import (
	"slices"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/plugin"
)

// cases is the table of all hostile modules.
func cases() []hostileCase {
	return slices.Concat(
		processorCases(), bulkCases(), tableCases(), recursionCases(), trapCases(), answerCases(), errorCases(),
		hostCases(), loadCases(), builtCases(), corruptCases(),
		addressCases(), decodingCases(), largeCases(), refusalCases(), growthCases(), encodingCases(),
		[]hostileCase{{name: "../provider", title: "control", phase: phaseOp}},
	)
}

// ending returns a case for each of the modules that load, and whose op must
// end with the error.
func ending(want string, names ...string) (out []hostileCase) {
	for _, name := range names {
		out = append(out, hostileCase{name: name, phase: phaseOp, want: want})
	}
	return out
}

// refused returns a case for each of the modules that must not load.
func refused(phase, want string, names ...string) (out []hostileCase) {
	for _, name := range names {
		out = append(out, hostileCase{name: name, phase: phase, want: want})
	}
	return out
}

// 1: they use the processor.
func processorCases() []hostileCase {
	return append(ending(deadline,
		"double_calls", "double_functions", "double_indirect", "loop_empty", "loop_nested", "loop_br_table",
		"loop_straight", "loop_float", "loop_divide", "loop_cache_misses"),
		hostileCase{name: "loop_empty", title: "loop_empty_everywhere", phase: phaseOp, want: deadline, parallel: instanceLimit})
}

// 2: they use bulk memory operations, and memory.
func bulkCases() []hostileCase {
	return slices.Concat(
		ending(deadline,
			"memory_fill_loop", "memory_copy_loop", "memory_init_loop", "memory_fill_double", "memory_copy_double",
			"memory_fill_straight", "memory_grow_spin"),
		ending(trapped, "memory_fill_4g"),
		ending("", "memory_grow_limit", "memory_maximum"),
		[]hostileCase{{name: "memory_grow_limit", title: "memory_grow_limit_everywhere", phase: phaseOp, parallel: instanceLimit}},
		refused(plugin.PhaseVerify, "memory of 65536 is above the limit of 1024", "memory_minimum"),
	)
}

// 3: they use tables.
func tableCases() []hostileCase {
	return slices.Concat(
		ending(deadline, "table_grow_huge", "table_fill_loop", "table_copy_loop", "table_init_loop", "table_double"),
		ending("", "table_grow_limit", "table_grow_many"),
		refused(plugin.PhaseVerify, "17 tables, at most 16", "table_count"),
		refused(plugin.PhaseVerify, "table of 1000000000 is above the limit", "table_minimum"),
	)
}

// 4: they use the stack.
func recursionCases() []hostileCase {
	return slices.Concat(
		ending(trapped, "recursion", "recursion_mutual", "recursion_indirect", "recursion_locals", "recursion_host"),
		ending("", "recursion_deep_then_fine"),
	)
}

// Whatever ends a guest ends its op, and nothing else.
func trapCases() []hostileCase {
	return append(ending(trapped,
		"trap_unreachable", "trap_divide", "trap_overflow", "trap_nan", "trap_float_range", "trap_indirect_type",
		"trap_indirect_null", "trap_indirect_outside", "trap_memory_read", "trap_memory_write", "trap_table",
		"trap_dropped_data", "trap_dropped_elem", "trap_after_gone"),
		hostileCase{name: "trap_exit", phase: phaseOp, want: "exited with status 0"},
		hostileCase{name: "trap_exit_error", phase: phaseOp, want: "exited with status 4294967295"},
		hostileCase{name: "spin_after_gone", phase: phaseOp, want: deadline},
		hostileCase{name: "exit_after_gone", phase: phaseOp, want: "exited with status 0"},
		hostileCase{name: "twice_after_gone", phase: phaseOp, want: broken},
		hostileCase{name: "code_after_gone", phase: phaseOp, want: "internal", answers: true},
	)
}

// 10: what they answer is no answer. All ops are tried: what one of them takes
// for "gone", a controller deletes.
func answerCases() []hostileCase {
	all := slices.Concat(
		ending("without a response", "answer_none"),
		ending("", "answer_empty", "answer_unspecified", "answer_unknown_field", "answer_wrong_type"),
		ending("cannot be decoded", "answer_truncated", "answer_group", "answer_field_zero", "answer_fields", "answer_nested"),
		ending("unknown code", "answer_code_unknown", "answer_code_negative"),
		ending("8388609 bytes, at most 8388608", "answer_huge"),
		ending("a second resp_write", "answer_twice"),
	)
	for i := range all {
		all[i].ops = everyOp()
		all[i].anyError = true
	}
	// Where "done" is asked for, every number but 0 says so.
	numbers := []abi.Op{abi.OpInstanceExists, abi.OpInstanceShutdown, abi.OpInstanceMetadata, abi.OpLoadBalancerGet, abi.OpRouteList}
	return append(all,
		hostileCase{name: "answer_in_two_ops", phase: phaseOp, anyError: true},
		hostileCase{name: "answer_unknown_enum", phase: phaseOp, anyError: true, ops: numbers},
		hostileCase{name: "answer_large_enum", phase: phaseOp, anyError: true, ops: numbers})
}

// 10: their errors are none, or say more than they may.
func errorCases() []hostileCase {
	explicit := func(name, want string) hostileCase {
		return hostileCase{name: name, phase: phaseOp, want: want, answers: true}
	}
	all := append(ending("cannot be decoded", "error_undecodable", "error_not_utf8"),
		explicit("error_not_found", "gone"),
		explicit("error_instance_not_found", "gone"),
		explicit("error_denied", "x"),
		explicit("error_deadline", "x"),
		explicit("error_control", "line"),
		explicit("error_retry_forever", "(retry after 15m0s)"),
		hostileCase{name: "error_huge", phase: phaseOp, want: "at most 8192"},
		hostileCase{name: "error_twice", phase: phaseOp, want: "a second err_write"},
		hostileCase{name: "error_and_gone", phase: phaseOp, want: "cannot be decoded"},
	)
	return all
}
