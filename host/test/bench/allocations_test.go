//go:build !race

package bench_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"testing"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/abi/wire"
	"github.com/wasm-ccm/wasm-ccm/host/internal/cloud/opcontext"
	"github.com/wasm-ccm/wasm-ccm/host/internal/hostcall/egress"
	"github.com/wasm-ccm/wasm-ccm/host/internal/hostcall/hostfunc"
	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/shadow"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/plugin"
	"github.com/wasm-ccm/wasm-ccm/host/test/requests"
)

// The times of this package are noisy, so nothing bounds them in a test. What is
// allocated is the same in each run, and tells as early of work that is done twice.

// cost is what one call allocates.
type cost struct{ objects, bytes uint64 }

// within checks what f allocates each time it is called, once all is warm.
func within(t *testing.T, name string, most cost, f func() error) {
	t.Helper()
	const runs = 200
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	var before, after runtime.MemStats
	for run := range 2 * runs {
		if run == runs {
			runtime.ReadMemStats(&before)
		}
		if err := f(); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	runtime.ReadMemStats(&after)
	got := cost{(after.Mallocs - before.Mallocs) / runs, (after.TotalAlloc - before.TotalAlloc) / runs}
	t.Logf("%s: %d objects, %d bytes", name, got.objects, got.bytes)
	if got.objects > most.objects || got.bytes > most.bytes {
		t.Errorf("%s allocates %d objects and %d bytes, want %d and %d at most", name, got.objects, got.bytes, most.objects, most.bytes)
	}
}

// emptyStore is one in which nothing stays, so that each op is the first one.
type emptyStore struct{}

func (emptyStore) Read(context.Context, string) (*abi.StoreResponse, error) {
	return &abi.StoreResponse{Version: "1"}, nil
}

func (emptyStore) Write(context.Context, *abi.StoreWrite) (*abi.StoreResponse, error) {
	return &abi.StoreResponse{Version: "2"}, nil
}

func TestWhatAnOpAllocates(t *testing.T) {
	t.Run("instance_metadata", func(t *testing.T) {
		v2, node := instances(t, guestSlot(t, noHost{})), benchNode()
		within(t, "with the provider's answer checked", cost{30, 2 << 10}, func() error {
			_, err := v2.InstanceMetadata(t.Context(), node)
			return err
		})
	})
	config := append(inventory(), "pools: [{name: a, cidrs: [198.51.100.0/24]}]\nroutes: true\nvolumes: [{driver: disk.csi.example.com, zoneFrom: node}]\n"...)
	host := hostfunc.New(hostfunc.Options{Provider: "p", Logger: logr.Discard(), Store: emptyStore{}, Rates: hostfunc.NewRates(hostfunc.Limits{StoreCalls: 1 << 30, StoreCallsBurst: 1 << 30})})
	slot, shadowed := plugin.NewSlot(), plugin.NewRecordedSlot(shadow.NewRecorder(shadow.Options{}))
	serve(t, slot, host, config)
	serve(t, shadowed, shadow.Host(host), config)
	for _, op := range abi.Ops() {
		most, ok := mostOf(op)
		if !ok {
			continue
		}
		request, response := requestOf(op)
		within(t, op.String(), most, func() error { return slot.Invoke(t.Context(), op, request, response) })
		// The record keeps a copy of what was asked and answered, host calls included.
		most = cost{most.objects + 10, 2*most.bytes + 1<<10}
		within(t, op.String()+", shadowed", most, func() error { return shadowed.Invoke(t.Context(), op, request, response) })
	}
}

// mostOf is what an op may allocate: the request and the response each once as bytes and
// the response once as a message, its host calls, a deadline, and not much more.
func mostOf(op abi.Op) (most cost, asked bool) {
	switch op {
	case abi.OpInstanceExists, abi.OpInstanceShutdown:
		return cost{10, 4500}, true
	case abi.OpInstanceMetadata:
		return cost{21, 5000}, true
	case abi.OpListInstances: // 200 of them
		return cost{2620, 110_000}, true
	case abi.OpLoadBalancerName, abi.OpLoadBalancerUpdate:
		return cost{10, 1500}, true
	case abi.OpLoadBalancerGet, abi.OpLoadBalancerDelete: // one host call
		return cost{15, 1800}, true
	case abi.OpLoadBalancerEnsure: // two
		return cost{34, 2600}, true
	case abi.OpRouteList, abi.OpRouteDelete:
		return cost{15, 800}, true
	case abi.OpRouteCreate:
		return cost{24, 1300}, true
	case abi.OpVolumeLabels:
		return cost{10, 900}, true
	}
	return cost{}, op.Group() >= abi.GroupInstances && op.Group() <= abi.GroupVolumes // a new one needs a bound
}

// requestOf is a request that static answers, about an object as clusters have it.
func requestOf(op abi.Op) (request, response abi.Message) {
	const name = "machine-199"
	request, response = op.New()
	route := &abi.Route{Name: "r", TargetNode: name, DestinationCidr: "10.244.3.0/24"}
	switch request.(type) {
	case *abi.InstanceRequest:
		request = requests.Instance(name, func(n *corev1.Node) { n.Spec.ProviderID = "static://" + name })
	case *abi.LoadBalancerRequest:
		request = requests.LoadBalancer("shop", "web")
	case *abi.VolumeLabelsRequest:
		request = requests.VolumeLabels("pv")
	case *abi.RouteCreateRequest:
		request = &abi.RouteCreateRequest{ClusterName: "c", NameHint: "r", Route: route}
	case *abi.RouteDeleteRequest:
		request = &abi.RouteDeleteRequest{ClusterName: "c", Route: route}
	}
	return request, response
}

// fixed is a network that answers at once.
type fixed struct{ answer []*abi.HttpResult }

func (f fixed) Send(context.Context, []*abi.HttpRequest) ([]*abi.HttpResult, error) {
	return f.answer, nil
}

func TestWhatAHostCallAllocates(t *testing.T) {
	headers := []*abi.HttpHeader{{Name: "Content-Type", Value: "application/json"}, {Name: "X-Request-Id", Value: "7"}}
	answer := []*abi.HttpResult{{Response: &abi.HttpResponse{Status: 200, Headers: headers, Body: make([]byte, 1000)}}}
	host := hostfunc.New(hostfunc.Options{Provider: "p", Logger: logr.Discard(), Nodes: true, HTTP: fixed{answer}})
	ctx := opcontext.NewContext(t.Context(), opcontext.Op{Nodes: clusterOf(500)})
	for _, test := range []struct {
		name    string
		request abi.Message
		most    cost
	}{
		{abi.CapabilityHTTP, &abi.HttpSendRequest{Requests: []*abi.HttpRequest{{Method: "GET", Url: "https://cloud.test/v1/servers/1", Headers: headers}}}, cost{16, 1800}},
		{abi.CapabilityNodes, &abi.NodesRequest{SnapshotId: opcontext.SnapshotID, Fields: []uint32{1, 5}}, cost{13, 132_000}}, // for 500 nodes
	} {
		data, err := wire.Marshal(test.request)
		if err != nil {
			t.Fatal(err)
		}
		within(t, test.name, test.most, func() error {
			if code, _ := host.HostCall(ctx, test.name, data); code != abi.CodeOK {
				return fmt.Errorf("code %s", code)
			}
			return nil
		})
	}
}

// The server of the test is in it, too.
func TestWhatARequestToACloudAllocates(t *testing.T) {
	cloud := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, 1000)) }))
	defer cloud.Close()
	grant, err := egress.ParseGrant(cloud.URL + "/")
	if err != nil {
		t.Fatal(err)
	}
	client, err := egress.New([]egress.Grant{grant}, egress.Options{RequestsPerSecond: 1e6, Burst: 1e6})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	request := []*abi.HttpRequest{{Method: "GET", Url: cloud.URL + "/v1/servers/1"}}
	within(t, "one GET", cost{160, 14_000}, func() error {
		results, err := client.Send(t.Context(), request)
		if err == nil && (results[0].Response == nil || results[0].Response.Status != http.StatusOK) {
			err = fmt.Errorf("answer %v", results[0].Error)
		}
		return err
	})
}
