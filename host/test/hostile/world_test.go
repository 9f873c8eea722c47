package hostile_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/utils/clock"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/abi/manifest"
	"github.com/wasm-ccm/wasm-ccm/host/internal/hostcall/egress"
	"github.com/wasm-ccm/wasm-ccm/host/internal/hostcall/hostfunc"
	"github.com/wasm-ccm/wasm-ccm/host/internal/hostcall/kubecache"
	"github.com/wasm-ccm/wasm-ccm/host/internal/hostcall/store"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/compile"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/engine"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/module"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/plugin"
)

// engineCase is an engine that the suite runs on.
type engineCase struct {
	name string
	// make returns the engine, which keeps what it has compiled in a directory.
	make func(cacheDir string) engine.Engine
}

// compileChild is the argument that makes the test binary a child that
// compiles, as the manager has it for its own binary.
const compileChild = "compile-child"

func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == compileChild {
		os.Exit(compile.RunChild(context.Background(), os.Stdin, os.Stdout, func(name, cacheDir string) (engine.Engine, error) {
			for _, e := range engines() {
				if e.name == name {
					return e.make(cacheDir), nil
				}
			}
			return nil, fmt.Errorf("no engine is called %q", name)
		}))
	}
	os.Exit(m.Run())
}

// raised has the suite run at the limits of a vendor's own provider, instead of
// the defaults.
func raised() bool { return os.Getenv("HOSTILE_RAISED") == "1" }

// compiler compiles apart, with the limits of the manager but for the time of
// the CPU.
func compiler(tb testing.TB, cacheDir string) *compile.Owner {
	tb.Helper()
	limits := compile.DefaultLimits()
	limits.Wall, limits.CPU = time.Minute, 5*time.Second // on a busy machine the wall clock says nothing
	if raised() {
		limits = compile.Limits{Wall: 5 * time.Minute, CPU: time.Minute, MemoryBytes: 2 << 30, OutputBytes: 1 << 30}
	}
	p, err := compile.NewParent(compile.Options{
		Command: []string{os.Args[0], compileChild}, Version: func(string) string { return "test" }, CacheDir: cacheDir, Limits: limits,
	})
	if err != nil {
		tb.Fatal(err)
	}
	return p.For("test")
}

// The limits are the manager's defaults (host/internal/manager/config and
// internal/manager), but for the times: 30 s each would take hours.
const (
	memoryLimit   = 64 << 20
	tableLimit    = 1 << 20
	instanceLimit = 8
	callLimit     = 10_000
)

func defaultLimits(timeout time.Duration) plugin.Limits {
	return plugin.Limits{
		MaxInstances: instanceLimit, MaxCallsPerInstance: callLimit,
		MaxMemoryBytes: memoryLimit, MaxTableElements: tableLimit,
		OpTimeout: timeout, LoadTimeout: timeout,
	}
}

// world is the host of one provider, with everything behind the host calls
// counted.
type world struct {
	host    *hostfunc.Host
	options hostfunc.Options

	logLines, logBytes, events, requests atomic.Int64
	storeCalls                           atomic.Int64
	// latest is how long after its deadline the latest op ended, in ns.
	latest                                 atomic.Int64
	created, discarded, late, failed, quot atomic.Int64
}

// newWorld returns a host that grants everything, or nothing.
func newWorld(granted bool) *world {
	w := &world{}
	logger := funcr.New(func(_, line string) {
		w.logLines.Add(1)
		w.logBytes.Add(int64(len(line)))
	}, funcr.Options{Verbosity: 10})
	options := hostfunc.Options{Provider: "test", Logger: logger}
	if granted {
		options.Events, options.Nodes, options.HTTP = w, true, w
		options.Cache = hostfunc.NewCache(clock.RealClock{})
		options.Kube = seen{kubecache.Of(manyNodes()...).Open(kubecache.Grant{Nodes: true}, func(string, string) {})}
		options.Store = countedStore{w, store.New(fake.NewClientset().CoreV1(), "kube-system", "store", "test")}
	}
	w.host, w.options = hostfunc.New(options), options
	return w
}

// world is what a case's guest gets.
func (g grant) world(tb testing.TB) *world {
	tb.Helper()
	switch g {
	case grantSecret: // often enough to be asked all the time
		return newWorld(true).withSecret(tb, theSecret, egress.Options{RequestsPerSecond: 1e9, Burst: 1e9})
	case grantSecretAtDefaultRates:
		return newWorld(true).withSecret(tb, theSecret, egress.Options{})
	}
	return newWorld(g == grantAll)
}

// Event implements hostfunc.EventRecorder.
func (w *world) Event(runtime.Object, string, string, string) { w.events.Add(1) }

// Send implements hostfunc.HTTP: a cloud that answers at once.
func (w *world) Send(_ context.Context, requests []*abi.HttpRequest) ([]*abi.HttpResult, error) {
	w.requests.Add(int64(len(requests)))
	results := make([]*abi.HttpResult, len(requests))
	for i := range results {
		results[i] = &abi.HttpResult{Response: &abi.HttpResponse{Status: 200, Body: make([]byte, bodyBytes(requests[i]))}}
	}
	return results, nil
}

// bodyBytes is large where the URL asks for it: 64 of them are what egress
// allows in one batch, or a quarter of it.
func bodyBytes(r *abi.HttpRequest) int {
	switch {
	case strings.HasSuffix(r.Url, "/large"):
		return 8 << 20 / abi.MaxHTTPBatch
	case strings.HasSuffix(r.Url, "/quite"):
		return 2 << 20 / abi.MaxHTTPBatch
	}
	return 1 << 10
}

type countedStore struct {
	w    *world
	real hostfunc.Store
}

func (s countedStore) Read(ctx context.Context, prefix string) (*abi.StoreResponse, error) {
	s.w.storeCalls.Add(1)
	return s.real.Read(ctx, prefix)
}

func (s countedStore) Write(ctx context.Context, write *abi.StoreWrite) (*abi.StoreResponse, error) {
	s.w.storeCalls.Add(1)
	return s.real.Write(ctx, write)
}

// InstanceCreated implements plugin.Observer.
func (w *world) InstanceCreated() { w.created.Add(1) }

// InstanceDiscarded implements plugin.Observer.
func (w *world) InstanceDiscarded(reason string) {
	w.discarded.Add(1)
	switch reason {
	case plugin.DiscardDeadline:
		w.late.Add(1)
	case plugin.DiscardFailed:
		w.failed.Add(1)
	case plugin.DiscardQuota:
		w.quot.Add(1)
	}
}

func (w *world) loader(e engine.Engine, limits plugin.Limits, granted []string) *plugin.Loader {
	return &plugin.Loader{
		Engine: e, Limits: limits, Observer: w,
		Policy:      module.Policy{Capabilities: granted},
		ClusterName: "hostile", HostVersion: "v0",
		NewHost: func(*manifest.Manifest) (engine.Host, io.Writer, io.Writer) {
			return w.host, w.host.Output("stdout"), w.host.Output("stderr")
		},
	}
}

// goodModule is a provider that behaves.
func goodModule(tb testing.TB) []byte {
	tb.Helper()
	wasm := readModule(tb, filepath.Join("..", "provider"))
	declared := testManifest([]string{abi.CapabilityCache})
	return withManifest(tb, wasm, encodeManifest(tb, &declared))
}

// readModule reads testdata/wat/hostile/NAME.wasm.
func readModule(tb testing.TB, name string) []byte {
	tb.Helper()
	wasm, err := os.ReadFile(filepath.Join("..", "..", "..", "testdata", "wat", "hostile", name+".wasm"))
	if err != nil {
		tb.Fatal(err)
	}
	return wasm
}

func withManifest(tb testing.TB, wasm, declared []byte) []byte {
	tb.Helper()
	wasm, err := manifest.Append(wasm, declared)
	if err != nil {
		tb.Fatal(err)
	}
	return wasm
}

// node is the Node that the ops are about.
func node() *corev1.Node {
	n := &corev1.Node{}
	n.Name, n.UID, n.Spec.ProviderID = "node-1", "uid-1", "test://node-1"
	return n
}

// aService is the Service that the ops are about.
func aService() *corev1.Service {
	s := &corev1.Service{}
	s.Namespace, s.Name, s.UID = "default", "web", "uid-2"
	s.Spec.Type = corev1.ServiceTypeLoadBalancer
	s.Spec.Ports = []corev1.ServicePort{{Port: 80, NodePort: 30080}}
	return s
}

// seen is a kubecache.View as a hostfunc.Kube.
type seen struct{ *kubecache.View }

func (s seen) Read(ctx context.Context, r *abi.KubeRequest) ([]byte, int, error) {
	return s.View.Read(ctx, 1, r)
}

func (s seen) Patch(_ context.Context, r *abi.KubeRequest, own *corev1.ObjectReference) error {
	_, err := s.View.Patch(r, own)
	return err
}

// manyNodes are more than one page has.
func manyNodes() (all []runtime.Object) {
	for i := range 1500 {
		all = append(all, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("node-", i), Annotations: map[string]string{"about": strings.Repeat("x", 500)}}})
	}
	return all
}
