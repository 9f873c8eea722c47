// Package cguest_test compiles the guests in C and Rust of abi/SPEC.md and calls
// them through a host of ABI v1 that is written here from SPEC.md and nothing
// else, and through the manager's own engine: the text, the guests and the engine
// agree.
package cguest_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"google.golang.org/protobuf/encoding/protowire"
	corev1 "k8s.io/api/core/v1"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/abi/manifest"
	"github.com/wasm-ccm/wasm-ccm/abi/wire"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/engine"
	enginewazero "github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/engine/wazero"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/module"
	"github.com/wasm-ccm/wasm-ccm/host/test/requests"
)

// eachGuest compiles the guests as their Makefiles do.
func eachGuest(t *testing.T, test func(t *testing.T, wasm []byte)) {
	t.Helper()
	for lang, command := range map[string][]string{
		"c": {"clang-19", "--target=wasm32", "-O2", "-Wall", "-Wextra", "-Werror",
			"-nostdlib", "-ffreestanding", "-fno-builtin", "-Wl,--no-entry", "-Wl,--strip-all", "guest.c", "-o"},
		"rust": {"sh", "build.sh"},
	} {
		t.Run(lang, func(t *testing.T) {
			dir, out := "../../../guests/example-"+lang, filepath.Join(t.TempDir(), "guest.wasm")
			cmd := exec.CommandContext(t.Context(), command[0], append(command[1:], out)...)
			cmd.Dir = dir
			if log, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("%v (run make deps): %s", err, log)
			}
			wasm, err := os.ReadFile(out)
			if err != nil {
				t.Fatal(err)
			}
			text, err := os.ReadFile(filepath.Join(dir, "manifest.json"))
			if err != nil {
				t.Fatal(err)
			}
			if wasm, err = manifest.Append(wasm, text); err != nil {
				t.Fatal(err)
			}
			test(t, wasm)
		})
	}
}

// host is one instance and the state of its current op.
type host struct {
	module             api.Module
	request, response  []byte
	detail, result     []byte
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
		NewFunctionBuilder().WithFunc(h.resultRead).Export(abi.ImportResultRead).
		NewFunctionBuilder().WithFunc(h.log).Export(abi.ImportLog).
		NewFunctionBuilder().WithFunc(h.store).Export(abi.CapabilityStore).
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
	return write(m, h.request, off, ptr, capacity)
}

func (h *host) resultRead(_ context.Context, m api.Module, off, ptr, capacity uint32) uint32 {
	return write(m, h.result, off, ptr, capacity)
}

func (h *host) store(_ context.Context, m api.Module, ptr, size uint32) uint64 {
	var code abi.Code
	code, h.result = callStore(read(m, ptr, size))
	return uint64(code)<<32 | uint64(len(h.result))
}

// callStore is a store with one load balancer, in which somebody else always
// writes first.
func callStore(request []byte) (abi.Code, []byte) {
	asked := new(abi.StoreRequest)
	if err := wire.Unmarshal(request, asked); err != nil {
		panic(err)
	}
	code, answer := abi.CodeOK, abi.Message(&abi.StoreResponse{Version: "7", Entries: []*abi.StoreEntry{{Key: "lb-" + uid("web"), Value: []byte("v1 42")}}})
	if asked.Write != nil {
		code, answer = abi.CodeConflict, &abi.ErrorDetail{Message: "changed"}
	}
	return code, encoded(answer)
}

// write copies a part of data into the guest's memory.
func write(m api.Module, data []byte, off, ptr, capacity uint32) uint32 {
	if off >= uint32(len(data)) {
		return 0
	}
	part := data[off:]
	part = part[:min(len(part), int(capacity))]
	if !m.Memory().Write(ptr, part) {
		panic("a read buffer is out of range")
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
	result, err := guest.Call(t.Context(), op, encoded(req))
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
	return &abi.Error{Code: result.Code, Message: detail.Message}
}

func encoded(m abi.Message) []byte {
	data := make([]byte, m.SizeVT())
	if _, err := m.MarshalToSizedBufferVT(data); err != nil {
		panic(err)
	}
	return data
}

// logHost is the host of the real engine: it takes log lines, and has the store.
type logHost struct{ lines atomic.Int32 }

func (h *logHost) HostCall(_ context.Context, name string, request []byte) (abi.Code, []byte) {
	if name == abi.CapabilityStore {
		return callStore(request)
	}
	if name != abi.ImportLog {
		return abi.CodeDenied, nil
	}
	h.lines.Add(1)
	return abi.CodeOK, nil
}

// TestManager runs the guests as the manager does: checked, and in its engine.
func TestManager(t *testing.T) { eachGuest(t, testManager) }

func testManager(t *testing.T, wasm []byte) {
	ctx, log := t.Context(), new(logHost)
	if _, _, err := module.Check(wasm, module.Policy{Capabilities: []string{abi.CapabilityStore}}); err != nil {
		t.Fatal(err)
	}
	compiled, err := enginewazero.New(enginewazero.Options{}).Compile(ctx, wasm, engine.ModuleConfig{MemoryLimitBytes: 4 << 20, Host: log})
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

// TestSpec runs the guests in the host that is written from SPEC.md.
func TestSpec(t *testing.T) { eachGuest(t, testSpec) }

func testSpec(t *testing.T, wasm []byte) {
	h := instantiate(t, wasm)
	testOps(t, h)
	if len(h.logged) != 1 || h.logged[0].Message != "configured" || h.logged[0].Severity != abi.LogRequest_SEVERITY_INFO {
		t.Errorf("logged %+v, want one line at info", h.logged)
	}
	testGroups(t, h)
}

// testGroups asks for m2 with an unknown group (wire types 3 and 4) in the Node.
func testGroups(t *testing.T, guest caller) {
	deep := strings.Repeat("\x9b\x06", 100_000) + strings.Repeat("\x9c\x06", 100_000)
	exists := string(encoded(&abi.InstanceExistsResponse{Existence: abi.Existence_EXISTENCE_EXISTS}))
	for _, test := range []struct {
		name, group string
		code        abi.Code
		want        string
	}{
		{"empty", "\x9b\x06\x9c\x06", abi.CodeOK, exists},
		{"with the fields of a Node", "\x9b\x06\x0a\x02m3\x10\x01\x19\x00\x00\x00\x00\x00\x00\x00\x00\x25\x00\x00\x00\x00\x9c\x06", abi.CodeOK, exists},
		{"nested", "\x9b\x06\x0b\x0a\x02m3\x0c\x0a\x02m3\x9c\x06", abi.CodeOK, exists},
		{"nested deep", deep, abi.CodeOK, exists},
		{"unclosed", "\x9b\x06", abi.CodeInvalid, ""},
		{"unclosed outside", "\x9b\x06\x0b\x0c", abi.CodeInvalid, ""},
		{"unopened", "\x9c\x06", abi.CodeInvalid, ""},
	} {
		t.Run("group "+test.name, func(t *testing.T) {
			node := protowire.AppendBytes([]byte("\x0a"), []byte("\x0a\x02m2"+test.group))
			got, err := guest.Call(t.Context(), abi.OpInstanceExists, node)
			if err != nil || got.Code != test.code || string(got.Response) != test.want {
				t.Errorf("code %s, response %x, %v; want code %s, response %x", got.Code, got.Response, err, test.code, test.want)
			}
		})
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
	service := func(name string) abi.Message { return requests.LoadBalancer("default", name) }
	status := &abi.LoadBalancerStatus{Ingress: []*abi.LoadBalancerIngress{{Ip: "198.51.100.42", IpMode: "VIP"}}}
	restless := &abi.Error{Code: abi.CodeInternal, Message: "the store changes all the time"}
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
		{"load balancer", abi.OpLoadBalancerGet, service("web"), &abi.LoadBalancerGetResponse{Existence: abi.Existence_EXISTENCE_EXISTS, Status: status}, nil},
		{"no load balancer", abi.OpLoadBalancerGet, service("other"), &abi.LoadBalancerGetResponse{Existence: abi.Existence_EXISTENCE_DOES_NOT_EXIST}, nil},
		{"its name", abi.OpLoadBalancerName, service("web"), &abi.LoadBalancerNameResponse{Name: "lb-" + uid("web")}, nil},
		{"made before", abi.OpLoadBalancerEnsure, service("web"), &abi.LoadBalancerEnsureResponse{Status: status}, nil},
		{"never alone", abi.OpLoadBalancerEnsure, service("other"), &abi.LoadBalancerEnsureResponse{}, restless},
		{"updated", abi.OpLoadBalancerUpdate, service("web"), &abi.Done{Done: true}, nil},
		{"update of nothing", abi.OpLoadBalancerUpdate, service("other"), &abi.Done{}, &abi.Error{Code: abi.CodeNotFound, Message: "tiny has no such load balancer"}},
		{"never deleted", abi.OpLoadBalancerDelete, service("web"), &abi.Done{}, restless},
		{"nothing deleted", abi.OpLoadBalancerDelete, service("other"), &abi.Done{Done: true}, nil},
		{"not implemented", abi.OpRouteList, &abi.RouteListRequest{}, &abi.RouteListResponse{}, &abi.Error{Code: abi.CodeNotImplemented, Message: "tiny does not have this op"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got := newOf(test.want)
			if diff := cmp.Diff(test.err, call(t, guest, test.op, test.req, got)); diff != "" {
				t.Errorf("error (-want +got):\n%s", diff)
			}
			if test.err == nil && !reflect.DeepEqual(test.want, got) {
				t.Errorf("got %+v, want %+v", got, test.want)
			}
		})
	}
}

func uid(service string) string {
	return requests.LoadBalancer("default", service).Service.Uid
}

func newOf(m abi.Message) abi.Message {
	return reflect.New(reflect.TypeOf(m).Elem()).Interface().(abi.Message)
}
