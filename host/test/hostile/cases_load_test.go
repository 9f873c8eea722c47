package hostile_test

import (
	"cmp"
	"slices"

	"github.com/wasm-ccm/wasm-ccm/abi/manifest"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/plugin"
)

func withoutCapabilities(m *manifest.Manifest) { m.Capabilities = nil }

// loadCases must not load, or do their harm while they load.
func loadCases() []hostileCase {
	return slices.Concat(phaseCases(), interfaceCases(), invalidCases())
}

// 8: they do not come back from what every module is asked at first.
func phaseCases() []hostileCase {
	describe, configure, probe := plugin.PhaseDescribe, plugin.PhaseConfigure, plugin.PhaseProbe
	return slices.Concat(
		refused(describe, late, "init_spin", "init_sleep", "init_log_flood", "describe_spin"),
		refused(describe, trapped, "init_trap", "describe_trap"),
		refused(describe, trapped, "init_recursion"),
		refused(describe, "exited with status 0", "init_exit", "describe_exit"),
		refused(describe, "outside of an op", "init_response", "init_host_call"),
		refused(describe, "without a response", "describe_silent"),
		refused(describe, "cannot be decoded", "describe_garbage"),
		refused(describe, `the guest says it is "evil" "1"`, "describe_name"),
		refused(describe, "must be a DNS label", "describe_provider_name"),
		refused(describe, `the feature "root"`, "describe_feature"),
		refused(describe, "", "data_outside"),
		// wazero leaves out what does not fit into the table.
		[]hostileCase{{name: "elem_outside", phase: describe, either: true}},
		refused(configure, late, "configure_spin"),
		refused(configure, trapped, "configure_trap"),
		refused(configure, "exited with status 0", "configure_exit"),
		refused(configure, "without a response", "configure_silent"),
		refused(configure, "cannot be decoded", "configure_garbage"),
		refused(configure, "did not accept", "configure_refused"),
		refused(configure, "instance_not_found", "configure_instance_not_found"),
		refused(plugin.PhaseConfigure, "its parts take much more memory than its bytes", "configure_warnings"),
		refused(probe, late, "probe_spin"),
		refused(probe, trapped, "probe_trap"),
		refused(probe, "exited with status 0", "probe_exit"),
		refused(probe, "without a response", "probe_silent"),
		refused(probe, "cannot be decoded", "probe_garbage"),
		refused(probe, "not ready", "probe_not_ready"),
		[]hostileCase{{name: "late_configure_spin", phase: phaseOp, anyError: true}},
	)
}

// 13: their imports and exports are not those of a provider.
func interfaceCases() []hostileCase {
	return invalid(map[string]string{
		"import_unknown_module":   "there is no module env",
		"import_unknown_function": "import ccm_v1.exec is not part of ABI v1",
		"import_unknown_wasi":     "sock_open is not part of WASI preview 1",
		"import_wasi_unstable":    "there is no module wasi_unstable",
		"import_signature":        "import ccm_v1.log is (i64 i64) -> (i64), must be (i32 i32) -> (i64)",
		"import_wasi_signature":   "fd_write is (i64) -> (i32), must be (i32 i32 i32 i32) -> (i32)",
		"import_refuel":           "there is no module ccm_meter",
		"import_meter":            "there is no module ccm_meter",
		"import_memory":           "is a memory; a guest has its own",
		"import_table":            "is a table; a guest has its own",
		"import_global":           "is a global; a guest has its own",
		"import_next_abi":         "imports from ccm_v2, this manager speaks ccm_v1",
		"import_name_control":     `"x\n\x1b[2J\x00" is not part of ABI v1`,
		"marker_missing":          `does not export "ccm_abi_v1"`,
		"marker_next_abi":         "exports ccm_abi_v2, this manager speaks ccm_abi_v1",
		"marker_is_memory":        `export "ccm_abi_v1" is a memory`,
		"start_spin":              "has a start function",
		"start_trap":              "has a start function",
		"init_signature":          "",
		"memory_missing":          `does not export the memory "memory"`,
		"no_memory":               `does not export the memory "memory"`,
		"call_missing":            `does not export the function "ccm_call"`,
		"call_signature":          `export "ccm_call" is (i32 i32) -> (), must be`,
		"call_is_global":          `export "ccm_call" is a global`,
		"initialize_missing":      `does not export the function "_initialize"`,
		"command":                 "is it a provider",
		"export_twice":            "",
		"export_call_twice":       "",
	})
}

// 13: they are no modules, or not of WebAssembly 2.0.
func invalidCases() []hostileCase {
	return invalid(map[string]string{
		"memory_shared":   "shared or 64 bit",
		"memory_two":      "",
		"memory_64":       "shared or 64 bit",
		"tail_call":       "instruction 0x12 is not one of WebAssembly 2.0",
		"atomics":         "instruction 0xfe is not one of WebAssembly 2.0",
		"exceptions":      "",
		"fuel_read":       "global 0 does not exist",
		"fuel_write":      "global 0 does not exist",
		"fuel_export":     "is global 0, which does not exist",
		"fuel_init":       "",
		"type_mismatch":   "",
		"stack_underflow": "",
		"local_unknown":   "local 9 does not exist",
		"scratch_local":   "local 0 does not exist",
		"call_unknown":    "",
		"branch_unknown":  "",
		"data_unknown":    "",
	})
}

// invalid returns a case for each module of testdata/wat/hostile/invalid, which
// must be refused before anything of it runs, with the error.
func invalid(wants map[string]string) (out []hostileCase) {
	for name, want := range wants {
		out = append(out, hostileCase{name: "invalid/" + name, title: name, phase: beforeRunning, want: want})
	}
	slices.SortFunc(out, func(a, b hostileCase) int { return cmp.Compare(a.title, b.title) })
	return out
}
