package hostile_test

import (
	"slices"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/plugin"
)

// hostCases are about what the host does for a guest.
func hostCases() []hostileCase {
	return slices.Concat(floodCases(), timeCases(), wasiCases(), argumentCases(), leftoverCases(), deniedCases())
}

// 6: they make the host write, keep or do more than it should.
func floodCases() []hostileCase {
	return slices.Concat(
		ending(deadline,
			"stdout_lines", "stderr_lines", "stdout_no_newline", "stdout_binary",
			"log_flood", "log_debug_flood", "log_large_flood", "log_values_flood",
			"event_flood", "cache_values_flood", "cache_keys_flood", "store_read_flood", "store_write_flood",
			"http_flood", "nodes_flood", "random_flood", "response_read_flood"),
		ending("",
			"log_huge", "log_forged", "event_invalid", "cache_invalid", "store_large", "store_keys",
			"http_batch_65", "http_batch_million", "http_batch_none", "nodes_fields", "nodes_snapshot",
			"garbage_http_send", "garbage_store", "garbage_cache", "garbage_nodes", "garbage_event", "garbage_log"),
	)
}

// 7: they wait.
func timeCases() []hostileCase {
	return append(ending("", "poll_counts"),
		ending(deadline, "poll_sleep", "poll_sleep_forever", "poll_spin", "clock_spin", "now_spin", "yield_spin", "yield_double")...)
}

// 14: they ask WASI for what there is not.
func wasiCases() []hostileCase {
	return ending("", "wasi_random_huge", "wasi_iovecs", "wasi_pointers", "wasi_files", "wasi_environment")
}

// 9: pointers and lengths.
func argumentCases() []hostileCase {
	all := ending(broken,
		"args_req_read", "args_result_read", "args_resp_write", "args_err_write",
		"args_log", "args_cache", "args_store", "args_http_send", "args_nodes", "args_event")
	for i := range all {
		// Each op of these hands over another pair.
		all[i].ops = []abi.Op{
			abi.OpInstanceExists, abi.OpInstanceShutdown, abi.OpInstanceMetadata,
			abi.OpLoadBalancerGet, abi.OpLoadBalancerEnsure, abi.OpLoadBalancerUpdate, abi.OpLoadBalancerDelete,
		}
	}
	return append(all, ending("", "args_zero", "args_overlap")...)
}

// 10: growth during host calls, re-entry, and what an op before left behind.
func leftoverCases() []hostileCase {
	return ending("", "grow_between", "reentry_exports", "reentry_marker", "leftover_result")
}

// 12: every host call without a grant.
func deniedCases() (all []hostileCase) {
	for _, name := range abi.Capabilities() {
		all = append(all,
			hostileCase{
				name: "denied_" + name, title: "denied_" + name + "_at_load",
				phase: plugin.PhaseVerify, want: "needs the capability \"" + name, grant: grantNone,
			},
			hostileCase{name: "denied_" + name, phase: phaseOp, grant: grantEmpty},
			hostileCase{
				name: "denied_" + name, title: "denied_" + name + "_undeclared",
				phase: plugin.PhaseVerify, want: "which its manifest does not name", manifest: withoutCapabilities,
			})
	}
	return all
}
