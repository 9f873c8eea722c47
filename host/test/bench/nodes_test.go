package bench_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/go-logr/logr"
	"google.golang.org/protobuf/encoding/protowire"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/host/internal/cloud/opcontext"
	"github.com/wasm-ccm/wasm-ccm/host/internal/cloud/provider"
	"github.com/wasm-ccm/wasm-ccm/host/internal/hostcall/hostfunc"
)

const clusterNodes = 5000

func clusterOf(n int) []*corev1.Node {
	nodes := make([]*corev1.Node, n)
	for i := range nodes {
		node := benchNode()
		node.Name = fmt.Sprintf("node-%05d", i)
		node.Status.Addresses[0].Address = fmt.Sprintf("10.%d.%d.%d", i>>16, i>>8&255, i&255)
		nodes[i] = node
	}
	return nodes
}

// readNodes does what a guest does that reads names and addresses: it asks for
// page after page. What it costs is the host's work for them.
func readNodes(ctx context.Context, host *hostfunc.Host) (int, error) {
	request := &abi.NodesRequest{SnapshotId: opcontext.SnapshotID, Fields: []uint32{1, 5}}
	for {
		data := make([]byte, request.SizeVT())
		if _, err := request.MarshalToSizedBufferVT(data); err != nil {
			return 0, err
		}
		code, result := host.HostCall(ctx, abi.CapabilityNodes, data)
		if code != abi.CodeOK {
			return 0, fmt.Errorf("nodes: %s", code)
		}
		page, total, err := countNodes(result)
		if err != nil {
			return 0, err
		}
		if request.Offset += page; request.Offset >= total {
			return int(request.Offset), nil
		}
	}
}

// countNodes counts without decoding: that is the guest's work.
func countNodes(page []byte) (n, total uint32, err error) {
	for len(page) > 0 {
		number, wireType, length := protowire.ConsumeTag(page)
		if length < 0 {
			return 0, 0, protowire.ParseError(length)
		}
		page = page[length:]
		if number == 2 {
			value, _ := protowire.ConsumeVarint(page)
			total = uint32(value)
		} else {
			n++
		}
		if length = protowire.ConsumeFieldValue(number, wireType, page); length < 0 {
			return 0, 0, protowire.ParseError(length)
		}
		page = page[length:]
	}
	return n, total, nil
}

// hostWork is an invoker whose guest costs nothing but the pages it asks for.
type hostWork struct {
	nativeInvoker
	host *hostfunc.Host
	tb   testing.TB
}

func (i hostWork) InvokeFresh(ctx context.Context, op abi.Op, req, resp abi.Message) error {
	return i.Invoke(ctx, op, req, resp)
}

func (i hostWork) Invoke(ctx context.Context, _ abi.Op, _, resp abi.Message) error {
	n, err := readNodes(ctx, i.host)
	if n != clusterNodes {
		i.tb.Errorf("the guest read %d nodes", n)
	}
	resp.(*abi.Done).Done = true
	return err
}

func benchUpdate(b *testing.B) {
	host := hostfunc.New(hostfunc.Options{Provider: "bench", Logger: logr.Discard(), Nodes: true})
	balancer, ok := provider.New(hostWork{host: host, tb: b}).LoadBalancer()
	if !ok {
		b.Fatal("no load balancer")
	}
	nodes := clusterOf(clusterNodes)
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "u"},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, Ports: []corev1.ServicePort{{Port: 80, NodePort: 30080}}},
	}
	b.ReportAllocs()
	for b.Loop() {
		if err := balancer.UpdateLoadBalancer(context.Background(), "bench", service, nodes); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkLoadBalancerUpdate5000Nodes is the adapter, the snapshot and every
// page of names and addresses, as the guest asks for them.
func BenchmarkLoadBalancerUpdate5000Nodes(b *testing.B) { benchUpdate(b) }
