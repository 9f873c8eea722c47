package provider

import (
	"context"
	"errors"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/klog/v2"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/host/internal/cloud/convert"
	"github.com/wasm-ccm/wasm-ccm/host/internal/cloud/opcontext"
)

// loadBalancer implements cloudprovider.LoadBalancer. Ops on one Service are serialised by
// its name: upstream runs Ensure and Update of the same Service concurrently.
type loadBalancer struct {
	invoker  opcontext.Invoker
	steering *steering
}

// GetLoadBalancer returns false without an error only if the guest explicitly answered that
// there is none: the finalizer is removed then. For a Service that must lose its load
// balancer a refused status is dropped: nothing uses it any more, and the load balancer must
// be deletable.
func (l *loadBalancer) GetLoadBalancer(ctx context.Context, cluster string, service *corev1.Service) (*corev1.LoadBalancerStatus, bool, error) {
	const op = abi.OpLoadBalancerGet
	var answer abi.LoadBalancerGetResponse
	if err := l.serialised(ctx, op, cluster, service, nil, &answer); err != nil {
		return nil, false, err
	}
	exists, err := existence(answer.Existence)
	if err != nil {
		return nil, false, invalidAnswer(op, serviceKey(service), err)
	}
	if !exists {
		return nil, false, nil
	}
	status, err := convert.CloudLoadBalancerStatus(answer.Status, l.steering.policy())
	if err != nil && answer.Status != nil && unwanted(service) {
		return &corev1.LoadBalancerStatus{}, true, nil
	}
	if err != nil {
		return nil, false, invalidAnswer(op, serviceKey(service), err)
	}
	return status, true, nil
}

// unwanted reports whether the Service must lose its load balancer.
func unwanted(service *corev1.Service) bool {
	return service.DeletionTimestamp != nil || service.Spec.Type != corev1.ServiceTypeLoadBalancer
}

// GetLoadBalancerName returns upstream's default name if the guest has no valid answer: the
// interface has no error.
func (l *loadBalancer) GetLoadBalancerName(ctx context.Context, cluster string, service *corev1.Service) string {
	const op = abi.OpLoadBalancerName
	if !l.invoker.Supports(op) {
		return cloudprovider.DefaultLoadBalancerName(service)
	}
	var answer abi.LoadBalancerNameResponse
	err := l.invoke(ctx, op, cluster, service, nil, &answer)
	if err == nil && answer.Name == "" {
		err = invalidAnswer(op, serviceKey(service), errors.New("the name is empty"))
	}
	if err != nil {
		name := cloudprovider.DefaultLoadBalancerName(service)
		klog.FromContext(ctx).Error(err, "Using the default name of the load balancer", "service", serviceKey(service), "name", name)
		return name
	}
	return answer.Name
}

// EnsureLoadBalancer returns a status or an error, never neither.
func (l *loadBalancer) EnsureLoadBalancer(ctx context.Context, cluster string, service *corev1.Service, nodes []*corev1.Node) (*corev1.LoadBalancerStatus, error) {
	const op = abi.OpLoadBalancerEnsure
	var answer abi.LoadBalancerEnsureResponse
	if err := l.serialised(ctx, op, cluster, service, nodes, &answer); err != nil {
		return nil, err
	}
	status, err := convert.CloudLoadBalancerStatus(answer.Status, l.steering.policy())
	if err != nil {
		return nil, invalidAnswer(op, serviceKey(service), err)
	}
	return status, nil
}

// UpdateLoadBalancer sets the nodes behind the load balancer.
func (l *loadBalancer) UpdateLoadBalancer(ctx context.Context, cluster string, service *corev1.Service, nodes []*corev1.Node) error {
	var answer abi.Done
	if err := l.serialised(ctx, abi.OpLoadBalancerUpdate, cluster, service, nodes, &answer); err != nil {
		return err
	}
	return done(abi.OpLoadBalancerUpdate, serviceKey(service), &answer)
}

// EnsureLoadBalancerDeleted returns nil when the guest said that the load balancer is gone
// completely.
func (l *loadBalancer) EnsureLoadBalancerDeleted(ctx context.Context, cluster string, service *corev1.Service) error {
	var answer abi.Done
	if err := l.serialised(ctx, abi.OpLoadBalancerDelete, cluster, service, nil, &answer); err != nil {
		return err
	}
	return done(abi.OpLoadBalancerDelete, serviceKey(service), &answer)
}

func (l *loadBalancer) serialised(ctx context.Context, op abi.Op, cluster string, service *corev1.Service, nodes []*corev1.Node, answer abi.Message) error {
	// Invariant O3 (host/SECURITY.md): each op except the name's has the Service to itself.
	return l.invokeSerial(ctx, "Service "+serviceKey(service), op, cluster, service, nodes, answer)
}

// invoke runs an op that may run beside others on the Service.
func (l *loadBalancer) invoke(ctx context.Context, op abi.Op, cluster string, service *corev1.Service, nodes []*corev1.Node, answer abi.Message) error {
	return l.invokeSerial(ctx, "", op, cluster, service, nodes, answer)
}

func (l *loadBalancer) invokeSerial(ctx context.Context, serial string, op abi.Op, cluster string, service *corev1.Service, nodes []*corev1.Node, answer abi.Message) error {
	nodes = byName(nodes)
	ctx = opcontext.NewContext(ctx, opcontext.Op{
		Object: &corev1.ObjectReference{
			APIVersion: "v1", Kind: "Service", Namespace: service.Namespace, Name: service.Name,
			UID: service.UID, ResourceVersion: service.ResourceVersion,
		},
		Nodes:  nodes,
		Serial: serial,
	})
	request := &abi.LoadBalancerRequest{ClusterName: cluster, Service: convert.Service(service), Nodes: &abi.NodeSnapshot{}}
	if op == abi.OpLoadBalancerEnsure || op == abi.OpLoadBalancerUpdate {
		// Also without nodes: the snapshot is empty, not absent.
		request.Nodes = &abi.NodeSnapshot{Id: opcontext.SnapshotID, Count: uint32(len(nodes))}
	}
	return invoke(ctx, l.invoker.Invoke, op, serviceKey(service), request, answer)
}

// byName returns the nodes sorted by name: a lister has no order, and a provider that
// compares its last write would write in vain.
func byName(nodes []*corev1.Node) []*corev1.Node {
	return slices.SortedFunc(slices.Values(nodes), func(a, b *corev1.Node) int { return strings.Compare(a.Name, b.Name) })
}

func serviceKey(service *corev1.Service) string { return service.Namespace + "/" + service.Name }
