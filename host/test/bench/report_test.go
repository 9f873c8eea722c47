package bench_test

import (
	"os"
	"testing"
	"time"
)

// TestReport prints the ratios of one run, for make bench. It asserts nothing:
// machines are noisy, and a timed test is a flaky one.
func TestReport(t *testing.T) {
	if os.Getenv("BENCH_REPORT") == "" {
		t.Log("make bench prints the report")
		return
	}
	perOp := func(f func(*testing.B)) time.Duration {
		return time.Duration(testing.Benchmark(f).NsPerOp())
	}
	native, wasm, grpc := perOp(benchNative), perOp(benchWasm), perOp(benchGRPC)
	t.Logf("instance_metadata: native %v, TinyGo guest %v, gRPC over a unix socket %v", native, wasm, grpc)
	t.Logf("instance_metadata: gRPC is %.1f times the guest (to reach: 15), the host and the guest add %v (to reach: 25us)",
		float64(grpc)/float64(wasm), wasm-native)
	t.Logf("lb_update with %d nodes, names and addresses: %v of host work (to reach: 5ms)", clusterNodes, perOp(benchUpdate))
}
