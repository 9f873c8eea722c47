package bench_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/host/internal/hostcall/egress"
	"github.com/wasm-ccm/wasm-ccm/host/internal/hostcall/hostfunc"
	"github.com/wasm-ccm/wasm-ccm/host/internal/hostcall/kubecache"
	"github.com/wasm-ccm/wasm-ccm/testdata/objects"
)

// largeNodes is how many Nodes a large cluster has.
const largeNodes = 5000

// seen is a kubecache.View as a hostfunc.Kube.
type seen struct{ *kubecache.View }

func (s seen) Read(ctx context.Context, r *abi.KubeRequest) ([]byte, int, error) {
	return s.View.Read(ctx, 1, r)
}
func (s seen) Patch(context.Context, *abi.KubeRequest, *corev1.ObjectReference) error { return nil }

// largeCluster are the Nodes of a cluster as a kubelet has registered them, with
// what trimming takes away.
func largeCluster(b *testing.B) *corev1.NodeList {
	list, sample := &corev1.NodeList{}, objects.Nodes(b)["kubeadm-joining.yaml"]
	for i := range largeNodes {
		n := objects.NewNode(sample)
		n.Name = fmt.Sprintf("node-%04d", i)
		n.UID, n.ResourceVersion = types.UID("uid-"+n.Name), strconv.Itoa(i+1)
		n.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kubelet", FieldsV1: metav1.NewFieldsV1(strings.Repeat(" ", 2000))}}
		for image := range 50 {
			n.Status.Images = append(n.Status.Images, corev1.ContainerImage{Names: []string{fmt.Sprintf("registry.example.com/image-%d@sha256:%064d", image, image)}, SizeBytes: 1 << 20})
		}
		list.Items = append(list.Items, *n)
	}
	return list
}

// kubeHost answers kube with the Nodes of a large cluster; change changes one.
func kubeHost(b *testing.B) (h *hostfunc.Host, change func(i int)) {
	list := largeCluster(b)
	events := watch.NewFake()
	client := fake.NewClientset()
	client.PrependReactor("list", "nodes", func(clienttesting.Action) (bool, runtime.Object, error) { return true, list.DeepCopy(), nil })
	client.PrependWatchReactor("nodes", clienttesting.DefaultWatchReactor(events, nil))
	life, end := context.WithCancel(b.Context())
	b.Cleanup(end)
	caches := kubecache.New(kubecache.Options{Client: client, Go: func(_ string, run func(context.Context)) { go run(life) }})
	view := caches.Open(kubecache.Grant{Nodes: true}, func(string, string) {})
	b.Cleanup(view.Close)
	h = hostfunc.New(hostfunc.Options{Provider: "p", Logger: logr.Discard(), Kube: seen{view}, Rates: hostfunc.NewRates(hostfunc.Limits{
		KubeCalls: 1 << 30, KubeCallsBurst: 1 << 30, KubeBytes: 1 << 40, KubeBytesBurst: 1 << 40,
	})})
	version := largeNodes
	return h, func(i int) {
		version++
		n := list.Items[i%largeNodes].DeepCopy()
		n.ResourceVersion, n.Labels["changed"] = strconv.Itoa(version), strconv.Itoa(version)
		events.Modify(n)
	}
}

// readKube reads until there is no more, and returns the cursor, the bytes, and
// how many objects were told.
func readKube(b *testing.B, h *hostfunc.Host, cursor []byte) (next []byte, bytes, told int) {
	for {
		request := &abi.KubeRequest{Resource: "nodes", Cursor: cursor, Limit: abi.MaxKubePage}
		data := make([]byte, request.SizeVT())
		if _, err := request.MarshalToSizedBufferVT(data); err != nil {
			b.Fatal(err)
		}
		code, result := h.HostCall(b.Context(), abi.CapabilityKube, data)
		var m abi.KubeResponse
		if err := m.UnmarshalVT(result); err != nil || code != abi.CodeOK {
			b.Fatal(code, err)
		}
		cursor, bytes, told = m.Cursor, bytes+len(result), told+len(m.Objects)
		if !m.More {
			return cursor, bytes, told
		}
	}
}

// BenchmarkKube is what an op costs that asks what has happened to 5,000 Nodes,
// beside a LIST of them through http_send.
func BenchmarkKube(b *testing.B) {
	h, change := kubeHost(b)
	cursor, _, told := readKube(b, h, nil)
	if told != largeNodes {
		b.Fatalf("%d Nodes", told)
	}
	report := func(b *testing.B, bytes int) { b.ReportMetric(float64(bytes)/float64(b.N), "bytes/op") }
	b.Run("nothing changed", func(b *testing.B) {
		total := 0
		for b.Loop() {
			_, bytes, told := readKube(b, h, cursor)
			if total += bytes; told != 0 {
				b.Fatalf("%d are told", told)
			}
		}
		report(b, total)
	})
	b.Run("one changed", func(b *testing.B) {
		total := 0
		for i := 0; b.Loop(); i++ {
			b.StopTimer()
			change(i)
			before := cursor
			for told := 0; told == 0; { // until the watch has told it
				cursor, _, told = readKube(b, h, cursor)
			}
			b.StartTimer()
			_, bytes, told := readKube(b, h, before)
			if total += bytes; told != 1 {
				b.Fatalf("%d are told", told)
			}
		}
		report(b, total)
	})
	b.Run("everything", func(b *testing.B) {
		total := 0
		for b.Loop() {
			_, bytes, _ := readKube(b, h, nil)
			total += bytes
		}
		report(b, total)
	})
	b.Run("LIST by http_send", func(b *testing.B) { benchmarkList(b, report) })
}

// benchmarkList sends the LIST of the same Nodes, as the API server would answer
// it in protobuf, in pages of 500: a batch has at most 8 MiB.
func benchmarkList(b *testing.B, report func(*testing.B, int)) {
	list := largeCluster(b)
	const page = 500
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		from, err := strconv.Atoi(r.URL.Query().Get("from"))
		if err != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		data, err := (&corev1.NodeList{Items: list.Items[from : from+page]}).Marshal()
		if err == nil {
			_, _ = w.Write(data)
		}
	}))
	defer server.Close()
	at, err := url.Parse(server.URL)
	if err != nil {
		b.Fatal(err)
	}
	port, err := strconv.ParseUint(at.Port(), 10, 16)
	if err != nil {
		b.Fatal(err)
	}
	client, err := egress.New([]egress.Grant{{
		Scheme: "http", Host: at.Hostname(), Port: uint16(port), PathPrefix: "/", CIDRs: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")},
	}}, egress.Options{RequestsPerSecond: 1e6, Burst: 1e6, MaxBatchBytes: 8 << 20})
	if err != nil {
		b.Fatal(err)
	}
	defer client.Close()
	h := hostfunc.New(hostfunc.Options{Provider: "p", Logger: logr.Discard(), HTTP: client})
	total := 0
	for b.Loop() {
		for from := 0; from < largeNodes; from += page {
			request := &abi.HttpSendRequest{Requests: []*abi.HttpRequest{{Method: http.MethodGet, Url: fmt.Sprintf("%s/api/v1/nodes?from=%d", server.URL, from)}}}
			data := make([]byte, request.SizeVT())
			if _, err := request.MarshalToSizedBufferVT(data); err != nil {
				b.Fatal(err)
			}
			code, result := h.HostCall(b.Context(), abi.CapabilityHTTP, data)
			var m abi.HttpSendResponse
			if err := m.UnmarshalVT(result); err != nil || code != abi.CodeOK || m.Results[0].Response == nil || m.Results[0].Response.Status != http.StatusOK {
				b.Fatal(code, err, m.Results)
			}
			total += len(result)
		}
	}
	report(b, total)
}
