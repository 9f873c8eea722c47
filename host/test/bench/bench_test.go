package bench_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/abi/manifest"
	"github.com/wasm-ccm/wasm-ccm/host/internal/cloud/opcontext"
	"github.com/wasm-ccm/wasm-ccm/host/internal/cloud/provider"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/engine"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/engine/wazero"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/module"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/plugin"
)

// machines in the inventory; the benchmarks ask for the last one.
const machines = 200

func TestMain(m *testing.M) {
	if socket := os.Getenv(grpcSocketEnv); socket != "" {
		if err := serveGRPC(socket, nativeMetadata()); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

func machineName(i int) string { return fmt.Sprintf("machine-%03d", i) }

func inventory() []byte {
	var b strings.Builder
	b.WriteString("region: lab\nmachines:\n")
	for i := range machines {
		fmt.Fprintf(&b, "  - name: %s\n    zone: rack-%d\n    type: metal.large\n    addresses:\n      - {type: InternalIP, address: 10.0.%d.%d}\n      - {type: Hostname, address: %s}\n",
			machineName(i), i%4, i/250, i%250+1, machineName(i))
	}
	return []byte(b.String())
}

// nativeMetadata is what the guest does, as Go in the same process: find the
// machine by its provider ID or its name, and answer with its metadata.
func nativeMetadata() metadataFunc {
	byName := map[string]*abi.InstanceMetadata{}
	for i := range machines {
		byName[machineName(i)] = &abi.InstanceMetadata{
			ProviderId: "static://" + machineName(i), InstanceType: "metal.large", Zone: fmt.Sprintf("rack-%d", i%4), Region: "lab",
			Addresses: []*abi.NodeAddress{
				{Type: abi.AddressType_ADDRESS_TYPE_INTERNAL_IP, Address: fmt.Sprintf("10.0.%d.%d", i/250, i%250+1)},
				{Type: abi.AddressType_ADDRESS_TYPE_HOSTNAME, Address: machineName(i)},
			},
		}
	}
	return func(n *abi.Node) *abi.InstanceMetadata {
		if id, ok := strings.CutPrefix(n.ProviderId, "static://"); ok {
			return byName[id]
		}
		return byName[n.Name]
	}
}

// nativeInvoker runs the native logic where the guest would be.
type nativeInvoker struct{ metadata metadataFunc }

func (i nativeInvoker) InvokeFresh(ctx context.Context, op abi.Op, req, resp abi.Message) error {
	return i.Invoke(ctx, op, req, resp)
}

func (i nativeInvoker) Invoke(_ context.Context, _ abi.Op, req, resp abi.Message) error {
	resp.(*abi.InstanceMetadataResponse).Metadata = i.metadata(req.(*abi.InstanceRequest).Node)
	return nil
}
func (nativeInvoker) Supports(abi.Op) bool { return true }
func (nativeInvoker) ProviderName() string { return "static" }
func (nativeInvoker) HasClusterID() bool   { return true }

// grpcInvoker asks the server.
type grpcInvoker struct {
	nativeInvoker
	invoke func(ctx context.Context, req, resp any) error
}

func (i grpcInvoker) Invoke(ctx context.Context, _ abi.Op, req, resp abi.Message) error {
	return i.invoke(ctx, req, resp)
}

type nobody struct{}

func (nobody) InstanceCreated()         {}
func (nobody) InstanceDiscarded(string) {}

func guestFile(tb testing.TB) []byte {
	tb.Helper()
	build := os.Getenv("CCM_BUILD")
	if build == "" {
		build = "../../../build"
	}
	wasm, err := os.ReadFile(filepath.Join(build, "static.wasm"))
	if err != nil {
		tb.Fatalf("%v; run make guests", err)
	}
	return wasm
}

// guestSlot loads the TinyGo guest.
func guestSlot(tb testing.TB, host engine.Host) *plugin.Slot {
	tb.Helper()
	slot := plugin.NewSlot()
	serve(tb, slot, host, inventory())
	return slot
}

// serve loads the TinyGo guest into a slot.
func serve(tb testing.TB, slot *plugin.Slot, host engine.Host, config []byte) {
	tb.Helper()
	limits := plugin.Limits{
		MaxInstances: 4, MaxCallsPerInstance: 10_000, MaxMemoryBytes: 64 << 20, MaxTableElements: 1 << 16,
		OpTimeout: 30 * time.Second, LoadTimeout: 30 * time.Second,
	}
	loader := &plugin.Loader{
		Engine: wazero.New(wazero.Options{}), Limits: limits, Observer: nobody{},
		Policy:      module.Policy{Capabilities: abi.Capabilities()},
		ClusterName: "bench",
		NewHost: func(*manifest.Manifest) (engine.Host, io.Writer, io.Writer) {
			return host, os.Stderr, os.Stderr
		},
	}
	g, err := loader.Load(tb.Context(), plugin.Bundle{Module: guestFile(tb), Config: config})
	if err != nil {
		tb.Fatal(err)
	}
	slot.Swap(tb.Context(), g)
	tb.Cleanup(func() { slot.Close(context.Background()) })
}

func benchNode() *corev1.Node {
	name := machineName(machines - 1)
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, UID: "7c9e6679-7425-40de-944b-e07fc1f90ae7",
			Labels: map[string]string{"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"},
		},
		Spec: corev1.NodeSpec{ProviderID: "static://" + name, PodCIDRs: []string{"10.244.3.0/24"}},
		Status: corev1.NodeStatus{
			Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "10.0.0.200"}, {Type: corev1.NodeHostName, Address: name}},
			NodeInfo:  corev1.NodeSystemInfo{SystemUUID: "f9c2", MachineID: "a1b2"},
		},
	}
}

func instances(tb testing.TB, invoker opcontext.Invoker) cloudprovider.InstancesV2 {
	tb.Helper()
	v2, ok := provider.New(invoker).InstancesV2()
	if !ok {
		tb.Fatal("the provider has no instances")
	}
	return v2
}

func benchMetadata(b *testing.B, invoker opcontext.Invoker) {
	b.Helper()
	v2, node := instances(b, invoker), benchNode()
	for range 100 { // connects, warms up
		if _, err := v2.InstanceMetadata(context.Background(), node); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportAllocs()
	for b.Loop() {
		got, err := v2.InstanceMetadata(context.Background(), node)
		if err != nil || got.Zone != "rack-3" {
			b.Fatalf("metadata %+v, error %v", got, err)
		}
	}
}

func BenchmarkInstanceMetadata(b *testing.B) {
	b.Run("native", benchNative)
	b.Run("wasm", benchWasm)
	b.Run("grpc", benchGRPC)
}

func benchNative(b *testing.B) { benchMetadata(b, nativeInvoker{nativeMetadata()}) }

func benchWasm(b *testing.B) { benchMetadata(b, guestSlot(b, noHost{})) }

func benchGRPC(b *testing.B) {
	conn := newGRPCClient(b)
	benchMetadata(b, grpcInvoker{invoke: func(ctx context.Context, req, resp any) error {
		return conn.Invoke(ctx, grpcMethod, req, resp)
	}})
}

// noHost answers no host call: instance_metadata of static makes none.
type noHost struct{}

func (noHost) HostCall(context.Context, string, []byte) (abi.Code, []byte) {
	return abi.CodeDenied, nil
}
