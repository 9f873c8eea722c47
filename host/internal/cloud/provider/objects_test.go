package provider

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/host/internal/cloud/opcontext"
	"github.com/wasm-ccm/wasm-ccm/testdata/objects"
)

// A controller hands in another copy each time, and the nodes in another order:
// what the guest is asked is the same.
func TestTheSameObjectIsTheSameQuestion(t *testing.T) {
	var asked []abi.Message
	var nodes [][]string
	p := New(&fakeInvoker{invoke: func(ctx context.Context, _ abi.Op, req, _ abi.Message) error {
		var names []string
		for _, n := range opcontext.FromContext(ctx).Nodes {
			names = append(names, n.Name)
		}
		asked, nodes = append(asked, req), append(nodes, names)
		return &abi.Error{Code: abi.CodeUnavailable, Message: "enough"}
	}})
	balancer, _ := p.LoadBalancer()
	instances, _ := p.InstancesV2()
	var all []*corev1.Node
	for _, n := range objects.Nodes(t) {
		all = append(all, n)
	}
	twice := func(name string, ask func() error) {
		t.Helper()
		asked, nodes = nil, nil
		for range 2 {
			if err := ask(); err == nil {
				t.Fatalf("%s: no error", name)
			}
			slices.Reverse(all)
		}
		if !reflect.DeepEqual(asked[0], asked[1]) || !slices.Equal(nodes[0], nodes[1]) {
			t.Errorf("%s: the second question is another one: %v, %v", name, nodes[0], nodes[1])
		}
	}
	for name, s := range objects.Services(t) {
		twice(name, func() error {
			_, err := balancer.EnsureLoadBalancer(t.Context(), "c", s.DeepCopy(), all)
			return err
		})
		twice(name, func() error { return balancer.UpdateLoadBalancer(t.Context(), "c", s.DeepCopy(), all) })
		twice(name, func() error { return balancer.EnsureLoadBalancerDeleted(t.Context(), "c", s.DeepCopy()) })
	}
	for name, n := range objects.Nodes(t) {
		twice(name, func() error {
			_, err := instances.InstanceMetadata(t.Context(), n.DeepCopy())
			return err
		})
		twice(fmt.Sprint(name, " exists"), func() error {
			_, err := instances.InstanceExists(t.Context(), n.DeepCopy())
			return err
		})
	}
}
