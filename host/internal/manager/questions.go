package manager

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/tools/cache"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/abi/wire"
	"github.com/wasm-ccm/wasm-ccm/host/internal/cloud/addresses"
	"github.com/wasm-ccm/wasm-ccm/host/internal/cloud/listing"
	"github.com/wasm-ccm/wasm-ccm/host/internal/cloud/opcontext"
	"github.com/wasm-ccm/wasm-ccm/host/internal/cloud/provider"
	"github.com/wasm-ccm/wasm-ccm/host/internal/cloud/routing"
	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/shadow"
)

// sampleSize is the number of sampled objects of a kind: half of them the
// newest, half of them the oldest.
const sampleSize = 4

// ownObjects are the cluster's objects that belong to a provider.
type ownObjects struct {
	informers coreinformers.Interface
	router    *routing.Router
	provider  string
}

// watch registers the informers, so that they start with the others.
func (o ownObjects) watch() ownObjects {
	_ = o.synced()
	return o
}

func (o ownObjects) synced() []cache.InformerSynced {
	return []cache.InformerSynced{
		o.informers.Nodes().Informer().HasSynced, o.informers.Services().Informer().HasSynced,
		o.informers.PersistentVolumes().Informer().HasSynced,
	}
}

// objectSample are the objects for the questions.
type objectSample struct {
	nodes    []*corev1.Node
	services []*corev1.Service
	volumes  []*corev1.PersistentVolume
}

func (s objectSample) empty() bool { return len(s.nodes)+len(s.services)+len(s.volumes) == 0 }

// sample returns the newest and the oldest of each kind. The error means that
// the informers have no objects yet.
func (o ownObjects) sample(ctx context.Context) (s objectSample, err error) {
	if !cache.WaitForCacheSync(ctx.Done(), o.synced()...) {
		return s, errors.New("the objects of the cluster are not known yet")
	}
	// Stores in memory return no errors.
	nodes, _ := o.informers.Nodes().Lister().List(labels.Everything())
	services, _ := o.informers.Services().Lister().List(labels.Everything())
	volumes, _ := o.informers.PersistentVolumes().Lister().List(labels.Everything())
	classes, own := o.router.Classes(o.provider), o.router.Services(o.provider)
	s.nodes = newestAndOldest(nodes, o.router.OwnedNodes(o.provider))
	s.volumes = newestAndOldest(volumes, o.router.PersistentVolumes(o.provider))
	s.services = newestAndOldest(services, func(x *corev1.Service) bool {
		return x.Spec.Type == corev1.ServiceTypeLoadBalancer && own(x) && (x.Spec.LoadBalancerClass == nil || classes(x))
	})
	return s, nil
}

// newestAndOldest returns alternately the newest and the oldest of the chosen objects (nil:
// all), without those that are being deleted.
func newestAndOldest[T metav1.Object](all []T, chosen func(T) bool) (out []T) {
	all = slices.DeleteFunc(slices.Clone(all), func(o T) bool { return o.GetDeletionTimestamp() != nil || chosen != nil && !chosen(o) })
	slices.SortFunc(all, func(a, b T) int {
		return cmp.Or(b.GetCreationTimestamp().Compare(a.GetCreationTimestamp().Time), cmp.Compare(a.GetNamespace(), b.GetNamespace()), cmp.Compare(a.GetName(), b.GetName()))
	})
	for len(all) > 0 && len(out) < sampleSize {
		next := 0
		if len(out)%2 == 1 {
			next = len(all) - 1
		}
		out, all = append(out, all[next]), slices.Delete(all, next, next+1)
	}
	return out
}

// questions are the control loops' questions about the objects, first one of
// each kind. Ops that wanted rejects are left out.
func (s objectSample) questions(cluster string, wanted func(abi.Op) bool) []shadow.Question {
	c := &captured{wanted: wanted}
	l := newLoopOps(c, addresses.Default, cluster)
	for i := range sampleSize {
		if i < len(s.nodes) {
			_ = l.ask(abi.OpInstanceExists, s.nodes[i])
			_ = l.ask(abi.OpInstanceMetadata, s.nodes[i])
		}
		if i == 0 && len(s.nodes) > 0 {
			_ = l.ask(abi.OpListInstances, nil)
			_ = l.ask(abi.OpRouteList, nil)
		}
		if i < len(s.services) {
			_ = l.ask(abi.OpLoadBalancerGet, s.services[i])
		}
		if i < len(s.volumes) {
			_ = l.ask(abi.OpVolumeLabels, s.volumes[i])
		}
	}
	return c.questions
}

// loopOps makes the control loops' calls, and checks the answers as they do.
type loopOps struct {
	instances provider.Instances
	provider  *provider.Provider
	cluster   string
}

func newLoopOps(invoker opcontext.Invoker, policy func() *addresses.Policy, cluster string) *loopOps {
	l := &loopOps{cluster: cluster}
	l.provider = provider.New(invoker, provider.WithAddresses(policy, func(*corev1.Node, error) {}),
		provider.WithInstances(func(i provider.Instances) cloudprovider.InstancesV2 {
			l.instances = i
			return i
		}))
	return l
}

// ask returns why an answer is unusable, for an op with a known object.
func (l *loopOps) ask(op abi.Op, about metav1.Object) (err error) {
	ctx := context.Background() // no wait: the invokers of this file answer at once
	node, _ := about.(*corev1.Node)
	switch op {
	case abi.OpInstanceExists:
		_, err = l.instances.InstanceExists(ctx, node)
	case abi.OpInstanceShutdown:
		_, err = l.instances.InstanceShutdown(ctx, node)
	case abi.OpInstanceMetadata:
		var m *cloudprovider.InstanceMetadata
		if m, err = l.instances.InstanceMetadata(ctx, node); err == nil && saysNothing(m) {
			err = errors.New("it says nothing of the machine: no provider ID, address, type, zone or region")
		}
	case abi.OpListInstances:
		_, err = l.instances.ListInstances(ctx, 0, "", listing.DefaultPageSize)
	case abi.OpRouteList:
		if routes, ok := l.provider.Routes(); ok {
			_, err = routes.ListRoutes(ctx, l.cluster)
		}
	case abi.OpLoadBalancerGet:
		if balancer, ok := l.provider.LoadBalancer(); ok {
			_, _, err = balancer.GetLoadBalancer(ctx, l.cluster, about.(*corev1.Service))
		}
	case abi.OpVolumeLabels:
		_, err = l.provider.Volumes().GetLabelsForVolume(ctx, about.(*corev1.PersistentVolume))
	}
	return err
}

func saysNothing(m *cloudprovider.InstanceMetadata) bool {
	return m.ProviderID == "" && len(m.NodeAddresses) == 0 && m.InstanceType == "" && m.Zone == "" && m.Region == ""
}

// checkAnswer returns why the loops would refuse the response of an op.
func checkAnswer(policy func() *addresses.Policy) func(op abi.Op, response []byte) error {
	return func(op abi.Op, response []byte) error {
		_, answer := op.New()
		if err := wire.Unmarshal(response, answer); err != nil {
			return fmt.Errorf("the answer does not decode: %w", err)
		}
		var about metav1.Object = &corev1.Node{}
		switch op.Group() {
		case abi.GroupLoadBalancers:
			about = &corev1.Service{Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer}}
		case abi.GroupVolumes:
			about = &corev1.PersistentVolume{}
		}
		if page, ok := answer.(*abi.ListInstancesResponse); ok {
			return listing.Check(page, policy())
		}
		return newLoopOps(fixed(response), policy, "").ask(op, about)
	}
}

// captured is an opcontext.Invoker that records requests, without answers.
type captured struct {
	opcontext.Invoker
	wanted    func(abi.Op) bool
	questions []shadow.Question
}

var errCaptured = errors.New("nobody is asked")

// Invoke implements opcontext.Invoker.
func (c *captured) Invoke(ctx context.Context, op abi.Op, request, _ abi.Message) error {
	data, err := wire.Marshal(request)
	if err != nil || len(data) > abi.MaxRequestBytes || !c.wanted(op) {
		return errCaptured // the loop could not make the request either
	}
	about := opcontext.FromContext(ctx)
	c.questions = append(c.questions, shadow.Question{Op: op, Request: data, About: func(ctx context.Context) context.Context {
		return opcontext.NewContext(ctx, about)
	}})
	return errCaptured
}

// Supports implements opcontext.Invoker.
func (*captured) Supports(abi.Op) bool { return true }

// fixed is an opcontext.Invoker with one response.
type fixed []byte

// Invoke implements opcontext.Invoker.
func (a fixed) Invoke(_ context.Context, _ abi.Op, _, response abi.Message) error {
	return wire.Unmarshal(a, response)
}

// InvokeFresh implements opcontext.Invoker.
func (a fixed) InvokeFresh(ctx context.Context, op abi.Op, request, response abi.Message) error {
	return a.Invoke(ctx, op, request, response)
}

// Supports implements opcontext.Invoker.
func (fixed) Supports(abi.Op) bool { return true }

// ProviderName implements opcontext.Invoker.
func (fixed) ProviderName() string { return "" }

// HasClusterID implements opcontext.Invoker.
func (fixed) HasClusterID() bool { return true }
