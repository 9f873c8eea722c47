package meter_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"
	corev1 "k8s.io/api/core/v1"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/meter"
	"github.com/wasm-ccm/wasm-ccm/host/test/requests"
)

// guestRun is a real provider with a host that answers little, and always the
// same: it writes down everything that the guest does.
type guestRun struct {
	request []byte
	did     []string
	fuel    int64
}

func (g *guestRun) note(format string, args ...any) {
	g.did = append(g.did, fmt.Sprintf(format, args...))
}

func (g *guestRun) hostFunction(name string) api.GoModuleFunc {
	return func(_ context.Context, m api.Module, stack []uint64) {
		switch name {
		case abi.ImportReqRead:
			off, ptr, size := uint32(stack[0]), uint32(stack[1]), uint32(stack[2])
			part := g.request[min(int(off), len(g.request)):]
			part = part[:min(len(part), int(size))]
			m.Memory().Write(ptr, part)
			stack[0] = uint64(len(part))
		case abi.ImportRespWrite, abi.ImportErrWrite, abi.ImportLog:
			data, _ := m.Memory().Read(uint32(stack[0]), uint32(stack[1]))
			g.note("%s %x", name, data)
			stack[0] = 0
		case abi.ImportNow, abi.ImportDeadline:
			stack[0] = 1 << 40
		default: // a host call, or reading its result
			g.note("%s", name)
			stack[0] = uint64(abi.CodeInternal) << 32
		}
	}
}

// instance of a guest whose imports are answered by g.
func (g *guestRun) instance(t *testing.T, wasm []byte) api.Module {
	ctx := context.Background()
	r := wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfigCompiler())
	t.Cleanup(func() { r.Close(ctx) })
	wasi_snapshot_preview1.MustInstantiate(ctx, r)
	compiled, err := r.CompileModule(ctx, wasm)
	if err != nil {
		t.Fatal(err)
	}
	modules := map[string]wazero.HostModuleBuilder{}
	for _, f := range compiled.ImportedFunctions() {
		module, name, _ := f.Import()
		if strings.HasPrefix(module, "wasi_") {
			continue
		}
		if modules[module] == nil {
			modules[module] = r.NewHostModuleBuilder(module)
		}
		run := g.hostFunction(name)
		if module == options.ImportModule {
			run = func(_ context.Context, _ api.Module, stack []uint64) {
				if int64(stack[0]) == meter.FuelCallDepth {
					panic(errCallDepth)
				}
				g.fuel += tank - int64(stack[0])
				stack[0] = tank
			}
		}
		modules[module].NewFunctionBuilder().WithGoModuleFunction(run, f.ParamTypes(), f.ResultTypes()).Export(name)
	}
	for _, b := range modules {
		if _, err := b.Instantiate(ctx); err != nil {
			t.Fatal(err)
		}
	}
	m, err := r.InstantiateModule(ctx, compiled, wazero.NewModuleConfig().WithStartFunctions("_initialize"))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// encodedRequests mean something, or nothing at all. They are encoded once: the
// order of a map's entries is not.
func encodedRequests(t *testing.T) [][]byte {
	config := []byte("machines:\n  - name: m1\n    zone: a\n    addresses:\n      - {type: InternalIP, address: 10.0.0.1}\n")
	encoded := [][]byte{nil, {0xff, 0xff}, {8, 1}}
	for _, message := range []abi.Message{
		&abi.DescribeRequest{AbiVersion: abi.Version, HostVersion: "v1"},
		&abi.ConfigureRequest{Config: config, ClusterName: "c"},
		requests.Instance("m1", func(n *corev1.Node) { n.Spec.ProviderID = "static://m1" }),
	} {
		data := make([]byte, message.SizeVT())
		if _, err := message.MarshalToSizedBufferVT(data); err != nil {
			t.Fatal(err)
		}
		encoded = append(encoded, data)
	}
	return encoded
}

// all asks one instance for every op, with each request.
func (g *guestRun) all(t *testing.T, wasm []byte, encoded [][]byte) {
	m := g.instance(t, wasm)
	for round := range 2 { // before and after it has been configured
		for op := range uint64(52) {
			for i, request := range encoded {
				g.request = request
				results, err := m.ExportedFunction(abi.ExportCall).Call(context.Background(), op, uint64(len(request)))
				g.note("round %d, op %d, request %d: %v, %v", round, op, i, results, firstLine(err))
				if err != nil {
					m = g.instance(t, wasm)
				}
			}
		}
	}
}

func firstLine(err error) string {
	if err == nil {
		return ""
	}
	line, _, _ := strings.Cut(err.Error(), "\n")
	return line
}

func TestRealGuestsDoTheSameAndCostTheSame(t *testing.T) {
	if testing.Short() {
		t.Skip("make test-all runs it")
	}
	for _, name := range []string{"static.wasm", "static-go.wasm"} {
		wasm, err := os.ReadFile(filepath.Join(buildDir(), name))
		if errors.Is(err, os.ErrNotExist) && name == "static-go.wasm" {
			t.Logf("%s is not built; run make guests-go", name)
			continue
		} else if err != nil {
			t.Fatalf("%v; run make guests", err)
		}
		large := options
		large.MaxMemoryPages, large.MaxTableElements = 1<<10, 1<<20
		metered, err := meter.Rewrite(wasm, large)
		if err != nil {
			t.Fatal(err)
		}
		var plain, first, second guestRun
		encoded := encodedRequests(t)
		plain.all(t, wasm, encoded)
		first.all(t, metered, encoded)
		second.all(t, metered, encoded)
		if len(plain.did) < 600 || len(plain.did) != len(first.did) {
			t.Fatalf("%s: %d acts without the meter, %d with it", name, len(plain.did), len(first.did))
		}
		for i, want := range plain.did {
			if first.did[i] != want {
				t.Fatalf("%s: %s without the meter, %s with it", name, want, first.did[i])
			}
		}
		if first.fuel != second.fuel || first.fuel == 0 {
			t.Errorf("%s: the same work costs %d once and %d the next time", name, first.fuel, second.fuel)
		}
		t.Logf("%s: %d acts, %d fuel; the rewrite makes %d KiB out of %d", name, len(plain.did), first.fuel, len(metered)>>10, len(wasm)>>10)
	}
}
