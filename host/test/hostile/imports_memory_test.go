package hostile_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/host/internal/cloud/opcontext"
	"github.com/wasm-ccm/wasm-ccm/host/internal/hostcall/hostfunc"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/engine"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/engine/imports"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/meter"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/wasmbin"
)

// importGrowth is how many MiB the process may grow while one instance calls
// one import a million times, or as often as there is time for. A leak grows
// each time; a heap that has never been as large, and the race detector's shadow
// of it, grow once. So growth counts when it comes importRounds times in a row.
const (
	importGrowth = 16
	importRounds = 3
)

// callsPerOp is how often each op calls the import.
const callsPerOp = 10_000

// What a host call allocates is charged to nobody, so none may leave anything
// behind: each import of the ABI and of WASI is called again and again in one
// instance, with arguments that it takes and with such that it refuses.
func TestImportsLeaveNothingBehind(t *testing.T) {
	if testing.Short() {
		t.Skip("make test-all runs it")
	}
	long := os.Getenv("HOSTILE_STRICT") == "1"
	for _, e := range engines() {
		t.Run(e.name, func(t *testing.T) {
			var table strings.Builder
			w := tabwriter.NewWriter(&table, 0, 0, 2, ' ', tabwriter.AlignRight)
			fmt.Fprintln(w, "import\twith\tcalls\tper call\tmemory KiB\theap KiB\tmemory KiB per million\t")
			for _, c := range importCalls() {
				t.Run(c.name+"/"+c.with, func(t *testing.T) { c.run(t, e, w, long) })
			}
			if err := w.Flush(); err != nil {
				t.Error(err)
			}
			t.Logf("%s:\n%s", e.name, table.String())
		})
	}
}

// importCall is an import with its arguments.
type importCall struct {
	function imports.Function
	name     string
	// with says which arguments these are.
	with string
	args []int
	// data lies in the guest's memory at messageAt.
	data string
	// once: it is called once in each op.
	once bool
}

// importCalls are all imports, but for those that end a guest or that the
// meter keeps to itself.
func importCalls() (all []importCall) {
	for _, f := range imports.Functions() {
		name := f.Module + "." + f.Name
		switch {
		case f.Module == engine.RefuelModule, f.Name == "proc_exit":
			continue
		case f.Name == abi.ImportRespWrite || f.Name == abi.ImportErrWrite:
			all = append(all, importCall{f, name, "8 KiB", []int{messageAt, 8 << 10}, "", true})
			continue
		}
		given, data := usualArguments(f)
		all = append(all, importCall{f, name, "what it takes", given, data, false})
		if f.Module == abi.ImportModule && slices.Contains(append(abi.Capabilities(), abi.ImportLog), f.Name) {
			all = append(all,
				importCall{f, name, "garbage", []int{messageAt, 9}, strings.Repeat("\xff", 9), false},
				importCall{f, name, "too much", []int{0, 60 << 10}, "", false})
		}
	}
	return all
}

// usualArguments are what an import takes; all others get pointers.
func usualArguments(f imports.Function) (args []int, data string) {
	message := func(s string) ([]int, string) { return []int{messageAt, len(s)}, s }
	switch f.Name {
	case abi.ImportLog:
		return message("\x12\x04text\x1a\x06\x0a\x01k\x12\x01v")
	case abi.CapabilityEvent:
		return message("\x12\x06Reason\x1a\x01m")
	case abi.CapabilityCache:
		return message("\x0a\x01k\x12\x06\x0a\x02ab\x10\x7f")
	case abi.CapabilityStore:
		return message("\x12\x01p")
	case abi.CapabilityNodes:
		return message("\x08\x01\x22\x01\x01")
	case abi.CapabilityKube:
		return message("\x0a\x05nodes\x22\x03old\x28\xff\xff\xff\xff\x0f")
	case abi.CapabilityHTTP:
		return message("\x0a\x16\x0a\x03GET\x12\x0fhttps://x.test/")
	case abi.ImportReqRead, abi.ImportResultRead:
		return []int{0, messageAt, 64}, ""
	case "fd_write":
		return []int{1, messageAt, 1, seedAt}, "\x00\x08\x00\x00\x40\x00\x00\x00"
	case "poll_oneoff":
		return []int{messageAt, 4096, 1, seedAt}, ""
	case "clock_time_get":
		return []int{0, 0, messageAt}, ""
	case "clock_res_get":
		return []int{0, messageAt}, ""
	case "random_get":
		return []int{messageAt, 64}, ""
	case "fd_fdstat_get":
		return []int{1, messageAt}, ""
	}
	for _, p := range f.Params {
		if p == imports.I64 {
			args = append(args, 0)
			continue
		}
		args = append(args, messageAt)
	}
	return args, ""
}

// module is a guest that makes the calls.
func (c *importCall) module() []byte {
	b := newBuilt()
	results := []byte{0}
	if len(c.function.Results) > 0 {
		results = []byte{1, byte(c.function.Results[0])}
	}
	params := wasmbin.AppendU32([]byte{0x60}, uint32(len(c.function.Params)))
	var call []byte
	for i, p := range c.function.Params {
		params = append(params, byte(p))
		if p == imports.I64 {
			call = append(call, 0x42, 0) // i64.const 0
		} else {
			call = append(call, constant(c.args[i])...)
		}
	}
	b.types = append(b.types, append(params, results...))
	b.imports = append(b.imports, slices.Concat(name(c.function.Module), name(c.function.Name), []byte{0, byte(len(b.types) - 1)}))
	if call = append(call, 0x10, 1); len(c.function.Results) > 0 {
		call = append(call, 0x1a)
	}
	body := call
	if !c.once {
		body = slices.Concat(constant(callsPerOp), []byte{0x21, 1, 0x03, 0x40}, call, // local.set 1, loop
			[]byte{0x20, 1, 0x41, 1, 0x6b, 0x22, 1, 0x0d, 0, 0x0b}) // local 1 less one, br_if 0, end
	}
	body = slices.Concat(vector(nil), body, []byte{0x41, 0, 0x0b})
	b.bodies[2] = append(wasmbin.AppendU32(nil, uint32(len(body))), body...)
	if c.data != "" {
		b.datas = append(b.datas, slices.Concat([]byte{0}, constant(messageAt), []byte{0x0b}, name(c.data)))
	}
	return b.wasm()
}

func (c *importCall) run(t *testing.T, e engineCase, w *tabwriter.Writer, long bool) {
	limit := 300 * time.Millisecond
	if long {
		limit = 10 * time.Second
	}
	i := c.instance(t, e)
	ctx, cancel := context.WithTimeout(opcontext.NewContext(t.Context(), opcontext.Op{
		Object: &corev1.ObjectReference{Kind: "Service", Namespace: "default", Name: "web"}, Nodes: []*corev1.Node{node()},
	}), time.Minute)
	defer cancel()
	calls, perOp := 0, callsPerOp
	if c.once {
		perOp = 1
	}
	ops := func(most int, until time.Time) {
		for ; calls < most && time.Now().Before(until); calls += perOp {
			if _, err := i.Call(ctx, abi.OpInstanceExists, []byte("request")); err != nil {
				t.Fatal(err)
			}
		}
	}
	ops(perOp, time.Now().Add(limit)) // what the first calls make stays
	for round := 1; ; round++ {
		calls = 0
		before, start := settled(t), time.Now()
		ops(1_000_000, start.Add(limit))
		took, after := time.Since(start), settled(t)
		grown, heap := after.anonymous-before.anonymous, after.heap-before.heap
		fmt.Fprintf(w, "%s\t%s\t%d\t%v\t%d\t%d\t%d\t\n", c.name, c.with, calls, (took / time.Duration(max(calls, 1))).Round(time.Nanosecond),
			grown>>10, heap>>10, max(grown, 0)*1_000_000/int64(max(calls, 1))>>10)
		if grown>>20 <= importGrowth {
			return
		}
		if round == importRounds {
			t.Fatalf("after %d calls in one instance the process has %d MiB more, as after each of %d rounds before; at most %d are allowed", calls, grown>>20, round-1, importGrowth)
		}
	}
}

// instance is one of the module on an engine, with a host that grants
// everything at any rate.
func (c *importCall) instance(t *testing.T, e engineCase) engine.Instance {
	t.Helper()
	metered, err := meter.Rewrite(c.module(), meterOptions())
	if err != nil {
		t.Fatal(err)
	}
	const any = 1 << 30
	host := hostfunc.New(hostfunc.Options{
		Provider: "test", Logger: logr.Discard(), Events: nothingHappens{}, Nodes: true, Cache: hostfunc.NewCache(clock.RealClock{}),
		Store: nothingHappens{}, HTTP: nothingHappens{},
		Rates: hostfunc.NewRates(hostfunc.Limits{LogLines: any, LogLinesBurst: any, LogBytes: any, LogBytesBurst: any, Events: any, EventsBurst: any, StoreCalls: any, StoreCallsBurst: any}),
	})
	made := e.make(t.TempDir())
	m, err := made.Compile(t.Context(), metered, engine.ModuleConfig{MemoryLimitBytes: memoryLimit, Host: host, Stdout: host.Output("stdout"), Stderr: host.Output("stderr")})
	if err != nil {
		t.Fatal(err)
	}
	i, err := m.Instantiate(t.Context())
	if err != nil {
		t.Fatal(errors.Join(err, m.Close(context.Background())))
	}
	t.Cleanup(func() {
		if err := errors.Join(i.Close(context.Background()), m.Close(context.Background()), made.Close(context.Background())); err != nil {
			t.Error(err)
		}
	})
	return i
}
