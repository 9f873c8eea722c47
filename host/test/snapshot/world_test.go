package snapshot_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/abi/manifest"
	"github.com/wasm-ccm/wasm-ccm/abi/wire"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/engine"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/module"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/plugin"
)

// world is what a guest talks with. It answers the same to the same, and writes
// down what it is asked.
type world struct {
	mu    sync.Mutex
	asked []string
	// created counts instances.
	created atomic.Int64
	// configured counts those that were initialised and configured.
	configured atomic.Int64
}

func (w *world) InstanceCreated()         { w.created.Add(1) }
func (w *world) InstanceDiscarded(string) {}

// HostCall denies, fails, or answers with an empty message.
func (w *world) HostCall(_ context.Context, name string, request []byte) (abi.Code, []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	request = withoutTime(name, request)
	w.asked = append(w.asked, fmt.Sprintf("%s %x", name, request))
	sum := sha256.Sum256(append([]byte(name), request...))
	return []abi.Code{abi.CodeOK, abi.CodeOK, abi.CodeDenied, abi.CodeUnavailable}[sum[0]%4], nil
}

// withoutTime is the request without what is left of the op's time.
func withoutTime(name string, request []byte) []byte {
	batch := &abi.HttpSendRequest{}
	if name != abi.CapabilityHTTP || wire.Unmarshal(request, batch) != nil {
		return request
	}
	for _, r := range batch.Requests {
		r.TimeoutMs = 0
	}
	without, err := wire.Marshal(batch)
	if err != nil {
		return request
	}
	return without
}

// took returns what was asked since the last time.
func (w *world) took() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	defer func() { w.asked = nil }()
	return fmt.Sprint(w.asked)
}

func guestOf(tb testing.TB, name string) []byte {
	tb.Helper()
	dir := os.Getenv("CCM_BUILD")
	if dir == "" {
		dir = filepath.Join("..", "..", "..", "build")
	}
	wasm, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		tb.Fatalf("%v; run make guests guests-test guests-go", err)
	}
	return wasm
}

// load makes a generation. With fromNothing each of its instances is initialised
// and configured.
func load(t *testing.T, e engine.Engine, bundle plugin.Bundle, fromNothing bool) (*plugin.Slot, *plugin.Generation, *world) {
	t.Helper()
	w := &world{}
	loader := &plugin.Loader{
		Engine: &counting{e, w}, Observer: w, EachFromNothing: fromNothing, ClusterName: "c",
		Limits: plugin.Limits{
			MaxInstances: 4, MaxMemoryBytes: 64 << 20, MaxTableElements: 1 << 16,
			OpTimeout: time.Minute, LoadTimeout: time.Minute,
		},
		Policy: module.Policy{Capabilities: abi.Capabilities()},
		NewHost: func(*manifest.Manifest) (engine.Host, io.Writer, io.Writer) {
			return w, io.Discard, io.Discard
		},
	}
	g, err := loader.Prepare(t.Context(), bundle, func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	slot := plugin.NewSlot()
	slot.Swap(t.Context(), g)
	t.Cleanup(func() { slot.Close(context.Background()) })
	w.took()
	return slot, g, w
}

// counting counts the instances that an engine makes from nothing.
type counting struct {
	engine.Engine
	world *world
}

type countingModule struct {
	engine.Module
	world *world
}

func (c *counting) Compile(ctx context.Context, wasm []byte, config engine.ModuleConfig) (engine.Module, error) {
	m, err := c.Engine.Compile(ctx, wasm, config)
	return countingModule{m, c.world}, err
}

func (m countingModule) Instantiate(ctx context.Context) (engine.Instance, error) {
	m.world.configured.Add(1)
	return m.Module.Instantiate(ctx)
}

// guest is one of the repository's, with a configuration that it takes.
type guest struct {
	name   string
	config []byte
}

func guests(t *testing.T) []guest {
	t.Helper()
	machines := bytes.NewBufferString("machines:\n")
	for n := range 50 {
		fmt.Fprintf(machines, "  - name: m%d\n    zone: a\n    addresses:\n      - {type: InternalIP, address: 10.0.0.%d}\n", n, n+1)
	}
	machines.WriteString("pools:\n  - name: public\n    cidrs: [198.51.100.0/24]\nroutes: true\n")
	cloudConf, err := os.ReadFile("../../../guests/openstack/example/cloud.conf")
	if err != nil {
		t.Fatal(err)
	}
	all := []guest{
		{"static.wasm", machines.Bytes()}, {"openstack.wasm", cloudConf},
		{"faulty.wasm", []byte("routes=on\ncount=http://cloud.example.com")},
	}
	if !testing.Short() { // make test-all has it: it takes seconds to compile
		all = append(all, guest{"static-go.wasm", machines.Bytes()})
	}
	return all
}
