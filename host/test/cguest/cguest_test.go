// Package cguest_test compiles the C guest of abi/SPEC.md and calls it through a
// host of ABI v1 that is written here from SPEC.md and nothing else, and
// through the manager's own engine: the text, the guest and the engine agree.
package cguest_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	corev1 "k8s.io/api/core/v1"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/abi/manifest"
	"github.com/wasm-ccm/wasm-ccm/abi/wire"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/engine"
	enginewazero "github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/engine/wazero"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/module"
	"github.com/wasm-ccm/wasm-ccm/host/test/requests"
)

// build compiles guest.c as its Makefile does.
func build(t *testing.T) []byte {
	t.Helper()
	out := filepath.Join(t.TempDir(), "guest.wasm")
	cmd := exec.CommandContext(t.Context(), "clang-19", "--target=wasm32", "-O2", "-Wall", "-Wextra", "-Werror",
		"-nostdlib", "-ffreestanding", "-fno-builtin", "-Wl,--no-entry", "-Wl,--strip-all", "-o", out, "../../../guests/example-c/guest.c")
	if log, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v (install the Debian packages clang-19 and lld-19): %s", err, log)
	}
	module, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("../../../guests/example-c/manifest.json")
	if err != nil {
		t.Fatal(err)
	}
	if module, err = manifest.Append(module, text); err != nil {
		t.Fatal(err)
	}
	return module
}

// host is one instance and the state of its current op.
type host struct {
	module             api.Module
	request, response  []byte
	detail             []byte
	responses, details int
	logged             []*abi.LogRequest
}

func instantiate(t *testing.T, module []byte) *host {
	t.Helper()
	ctx, h := t.Context(), new(host)
	runtime := wazero.NewRuntime(ctx)
	t.Cleanup(func() { _ = runtime.Close(context.Background()) })
	_, err := runtime.NewHostModuleBuilder(abi.ImportModule).
		NewFunctionBuilder().WithFunc(h.reqRead).Export(abi.ImportReqRead).
		NewFunctionBuilder().WithFunc(h.respWrite).Export(abi.ImportRespWrite).
		NewFunctionBuilder().WithFunc(h.errWrite).Export(abi.ImportErrWrite).
		NewFunctionBuilder().WithFunc(h.log).Export(abi.ImportLog).
		Instantiate(ctx)
	if err != nil {
		t.Fatal(err)
	}
	config := wazero.NewModuleConfig().WithStartFunctions(abi.ExportInitialize)
	if h.module, err = runtime.InstantiateWithConfig(ctx, module, config); err != nil {
		t.Fatal(err)
	}
	return h
}

func (h *host) reqRead(_ context.Context, m api.Module, off, ptr, capacity uint32) uint32 {
	if off >= uint32(len(h.request)) {
		return 0
	}
	part := h.request[off:]
	part = part[:min(len(part), int(capacity))]
	if !m.Memory().Write(ptr, part) {
		panic("req_read: out of range")
	}
	return uint32(len(part))
}

func (h *host) respWrite(_ context.Context, m api.Module, ptr, size uint32) {
	h.response, h.responses = read(m, ptr, size), h.responses+1
}

func (h *host) errWrite(_ context.Context, m api.Module, ptr, size uint32) {
	h.detail, h.details = read(m, ptr, size), h.details+1
}

func (h *host) log(_ context.Context, m api.Module, ptr, size uint32) uint64 {
	line := new(abi.LogRequest)
	if err := wire.Unmarshal(read(m, ptr, size), line); err != nil {
		panic(err)
	}
	h.logged = append(h.logged, line)
	return uint64(abi.CodeOK) << 32
}

func read(m api.Module, ptr, size uint32) []byte {
	view, ok := m.Memory().Read(ptr, size)
	if !ok {
		panic("out of range")
	}
	return bytes.Clone(view)
}

// Call runs one op.
func (h *host) Call(ctx context.Context, op abi.Op, request []byte) (engine.Result, error) {
	h.request, h.response, h.detail, h.responses, h.details = request, nil, nil, 0, 0
	result, err := h.module.ExportedFunction(abi.ExportCall).Call(ctx, uint64(op), uint64(len(request)))
	if err != nil {
		return engine.Result{}, err
	}
	code := abi.Code(result[0])
	if code == abi.CodeOK && (h.responses != 1 || h.details != 0) || code != abi.CodeOK && (h.responses != 0 || h.details > 1) {
		return engine.Result{}, fmt.Errorf("code %s with %d responses and %d details", code, h.responses, h.details)
	}
	return engine.Result{Code: code, Response: h.response, Detail: h.detail}, nil
}

// caller is an instance in either host.
type caller interface {
	Call(ctx context.Context, op abi.Op, request []byte) (engine.Result, error)
}

func call(t *testing.T, guest caller, op abi.Op, req, resp abi.Message) *abi.Error {
	t.Helper()
	request := make([]byte, req.SizeVT())
	if _, err := req.MarshalToSizedBufferVT(request); err != nil {
		t.Fatal(err)
	}
	result, err := guest.Call(t.Context(), op, request)
	if err != nil {
		t.Fatalf("%s: %v", op, err)
	}
	if result.Code == abi.CodeOK {
		if err := wire.Unmarshal(result.Response, resp); err != nil {
			t.Fatalf("%s: %v", op, err)
		}
		return nil
	}
	detail := new(abi.ErrorDetail)
	if err := wire.Unmarshal(result.Detail, detail); err != nil {
		t.Fatalf("%s: code %s, %v", op, result.Code, err)
	}
	return &abi.Error{Code: result.Code, Message: detail.GetMessage()}
}

// logHost is the host of the real engine: it takes log lines and nothing else.
type logHost struct{ lines atomic.Int32 }

func (h *logHost) HostCall(_ context.Context, name string, _ []byte) (abi.Code, []byte) {
	if name != abi.ImportLog {
		return abi.CodeDenied, nil
	}
	h.lines.Add(1)
	return abi.CodeOK, nil
}

// TestManager runs the guest as the manager does: checked, and in its engine.
func TestManager(t *testing.T) {
	ctx, wasm, log := t.Context(), build(t), new(logHost)
	if _, _, err := module.Check(wasm, module.Policy{}); err != nil {
		t.Fatal(err)
	}
	compiled, err := enginewazero.New(enginewazero.Options{}).Compile(ctx, wasm, engine.ModuleConfig{MemoryLimitBytes: 1 << 20, Host: log})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = compiled.Close(context.Background()) }()
	instance, err := compiled.Instantiate(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = instance.Close(context.Background()) }()
	testOps(t, instance)
	if log.lines.Load() != 1 {
		t.Errorf("%d lines logged, want 1", log.lines.Load())
	}
}

func TestModule(t *testing.T) {
	section, found, err := manifest.Section(build(t))
	if err != nil || !found {
		t.Fatalf("Section = %v, %v", found, err)
	}
	m, err := manifest.Parse(section)
	if err != nil || m.Name != "tiny" || !m.SupportsABI(abi.Version) {
		t.Fatalf("manifest %+v, %v", m, err)
	}
}

// TestSpec runs the guest in the host that is written from SPEC.md.
func TestSpec(t *testing.T) {
	h := instantiate(t, build(t))
	testOps(t, h)
	if len(h.logged) != 1 || h.logged[0].GetMessage() != "configured" || h.logged[0].GetSeverity() != abi.LogRequest_SEVERITY_INFO {
		t.Errorf("logged %+v, want one line at info", h.logged)
	}
}

func testOps(t *testing.T, guest caller) {
	named := func(name, id string) abi.Message {
		return requests.Instance(name, func(n *corev1.Node) { n.Spec.ProviderID = id })
	}
	node := func(name string) abi.Message { return named("node-"+name, "tiny://"+name) }
	metadata := &abi.InstanceMetadataResponse{Metadata: &abi.InstanceMetadata{
		ProviderId: "tiny://m1", InstanceType: "metal", Zone: "a",
		Addresses: []*abi.NodeAddress{{Type: abi.AddressType_ADDRESS_TYPE_INTERNAL_IP, Address: "10.0.0.1"}},
	}}
	gone := &abi.Error{Code: abi.CodeInstanceNotFound, Message: "tiny has no such machine"}
	foreign := &abi.Error{Code: abi.CodeInvalid, Message: "the provider ID is not tiny://NAME: this node is of another cloud"}
	tests := []struct {
		name string
		op   abi.Op
		req  abi.Message
		want abi.Message // or an empty one of the type
		err  *abi.Error
	}{
		{"describe", abi.OpDescribe, &abi.DescribeRequest{AbiVersion: abi.Version}, &abi.DescribeResponse{Name: "tiny", Version: "1.0.0", ProviderName: "tiny"}, nil},
		{"configure", abi.OpConfigure, &abi.ConfigureRequest{ClusterName: "c"}, &abi.ConfigureResponse{Accepted: true, HasClusterId: true}, nil},
		{"configure with something", abi.OpConfigure, &abi.ConfigureRequest{Config: []byte("x")}, &abi.ConfigureResponse{}, &abi.Error{Code: abi.CodeInvalid, Message: "tiny has no configuration, remove it"}},
		{"probe", abi.OpProbe, &abi.ProbeRequest{}, &abi.ProbeResponse{Ready: true, Summary: "two machines"}, nil},
		{"exists", abi.OpInstanceExists, node("m1"), &abi.InstanceExistsResponse{Existence: abi.Existence_EXISTENCE_EXISTS}, nil},
		{"does not exist", abi.OpInstanceExists, node("m3"), &abi.InstanceExistsResponse{Existence: abi.Existence_EXISTENCE_DOES_NOT_EXIST}, nil},
		{"exists by name", abi.OpInstanceExists, named("m2", ""), &abi.InstanceExistsResponse{Existence: abi.Existence_EXISTENCE_EXISTS}, nil},
		{"foreign", abi.OpInstanceExists, named("m1", "static://m1"), &abi.InstanceExistsResponse{}, foreign},
		{"metadata of a foreign one", abi.OpInstanceMetadata, named("m1", "static://m1"), &abi.InstanceMetadataResponse{}, foreign},
		{"on", abi.OpInstanceShutdown, node("m1"), &abi.InstanceShutdownResponse{State: abi.PowerState_POWER_STATE_ON}, nil},
		{"shutdown of nothing", abi.OpInstanceShutdown, node("m3"), &abi.InstanceShutdownResponse{}, gone},
		{"metadata", abi.OpInstanceMetadata, node("m1"), metadata, nil},
		{"metadata of nothing", abi.OpInstanceMetadata, node("m3"), &abi.InstanceMetadataResponse{}, gone},
		{"not implemented", abi.OpRouteList, &abi.RouteListRequest{}, &abi.RouteListResponse{}, &abi.Error{Code: abi.CodeNotImplemented, Message: "tiny does not have this op"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got := newOf(test.want)
			if diff := cmp.Diff(test.err, call(t, guest, test.op, test.req, got)); diff != "" {
				t.Errorf("error (-want +got):\n%s", diff)
			}
			if test.err == nil && !test.want.(interface{ EqualMessageVT(any) bool }).EqualMessageVT(got) {
				t.Errorf("got %+v, want %+v", got, test.want)
			}
		})
	}
}

func newOf(m abi.Message) abi.Message {
	return reflect.New(reflect.TypeOf(m).Elem()).Interface().(abi.Message)
}
