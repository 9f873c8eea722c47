package bench_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/abi/wire"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/engine"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/meter"
)

// startedGuests are those whose instances are measured, with a configuration.
// What is not built is left out.
func startedGuests(t *testing.T) map[string][]byte {
	cloudConf, err := os.ReadFile("../../../guests/openstack/example/cloud.conf")
	if err != nil {
		t.Fatal(err)
	}
	return map[string][]byte{
		"static.wasm": inventory(), "static-go.wasm": inventory(),
		"openstack.wasm": cloudConf, "aws.wasm": []byte("{}"),
	}
}

// TestInstanceReport prints what an instance costs, made from nothing and as a
// snapshot of another one, for make bench.
func TestInstanceReport(t *testing.T) {
	if os.Getenv("BENCH_REPORT") == "" {
		t.Log("make bench prints the report")
		return
	}
	for name, e := range engines(t) {
		for guest, config := range startedGuests(t) {
			t.Run(name+"/"+guest, func(t *testing.T) { reportInstances(t, e, guest, config) })
		}
	}
}

type deny struct{}

func (deny) HostCall(context.Context, string, []byte) (abi.Code, []byte) { return abi.CodeDenied, nil }

func reportInstances(t *testing.T, e engine.Engine, guest string, config []byte) {
	wasm, err := os.ReadFile(filepath.Join(os.Getenv("CCM_BUILD"), guest))
	if err != nil {
		t.Skip(err)
	}
	const memory = 128 << 20
	metered, err := meter.Rewrite(wasm, meter.Options{
		ImportModule: engine.RefuelModule, ImportName: engine.RefuelName, MaxStackBytes: engine.StackBytes,
		MaxMemoryPages: memory >> 16, MaxTableElements: 1 << 20, Resume: abi.ExportResume, Globals: engine.GlobalPrefix,
	})
	if err != nil {
		t.Fatal(err)
	}
	m, err := e.Compile(t.Context(), metered, engine.ModuleConfig{MemoryLimitBytes: memory, Host: deny{}, Stdout: os.Stderr, Stderr: os.Stderr})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = m.Close(context.Background()) }()
	request, err := wire.Marshal(&abi.ConfigureRequest{Config: config, ClusterName: "bench"})
	if err != nil {
		t.Fatal(err)
	}
	fromNothing := func(ctx context.Context) (engine.Instance, error) {
		i, err := m.Instantiate(ctx)
		if err != nil {
			return nil, err
		}
		result, err := i.Call(ctx, abi.OpConfigure, request)
		if err == nil && result.Code != abi.CodeOK {
			err = fmt.Errorf("configure: %s, %q", result.Code, result.Detail)
		}
		return i, err
	}
	measureInstances(t, "from nothing", fromNothing)
	first, err := fromNothing(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	s, err := first.(engine.Snapshotter).Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("a snapshot of %.1f MiB, of a memory of %.1f MiB, takes %v", mib(s.Bytes()), mib(first.MemoryBytes()), time.Since(begin))
	defer func() { _ = s.Close() }()
	measureInstances(t, "from a snapshot", s.Instantiate)
}

func mib(bytes uint64) float64 { return float64(bytes) / (1 << 20) }

// measureInstances makes instances as a pool would, and asks each for one op.
func measureInstances(t *testing.T, how string, make func(context.Context) (engine.Instance, error)) {
	const n = 8
	best, bestOp := time.Hour, time.Hour
	debug.FreeOSMemory()
	before := taken(t)
	var instances []engine.Instance
	var made uint64
	for range n {
		begin := time.Now()
		i, err := make(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		best = min(best, time.Since(begin))
		instances = append(instances, i)
	}
	debug.FreeOSMemory()
	made = taken(t)
	for _, i := range instances {
		begin := time.Now()
		if _, err := i.Call(t.Context(), abi.OpProbe, nil); err != nil {
			t.Fatal(err)
		}
		bestOp = min(bestOp, time.Since(begin))
	}
	debug.FreeOSMemory()
	after := taken(t)
	t.Logf("%-16s start %v, %.2f MiB each; with the first op (%v) %.2f MiB", how, best,
		(mib(made)-mib(before))/n, bestOp, (mib(after)-mib(before))/n)
	for _, i := range instances {
		if err := i.Close(context.Background()); err != nil {
			t.Error(err)
		}
	}
	runtime.KeepAlive(instances)
}

// taken is the memory that only this process has: what it wrote.
func taken(t *testing.T) uint64 {
	t.Helper()
	data, err := os.ReadFile("/proc/self/smaps_rollup")
	if err != nil {
		t.Skip(err)
	}
	for line := range strings.Lines(string(data)) {
		var kib uint64
		if _, err := fmt.Sscanf(line, "Private_Dirty: %d kB", &kib); err == nil {
			return kib << 10
		}
	}
	t.Fatal("no Private_Dirty")
	return 0
}
