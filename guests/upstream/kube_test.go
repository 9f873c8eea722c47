package upstream

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	corev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	listers "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/record"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/guests/sdk"
)

// In each op, a provider's informer has the cluster as it was at the op's
// begin, for one request.
func TestInformers(t *testing.T) {
	var lister listers.NodeLister
	r := newRig(t, "", func(*Environment) (cloudprovider.Interface, error) {
		return &informed{&cloud{routes: &routes{}}, func(f informers.SharedInformerFactory) { lister = f.Core().V1().Nodes().Lister() }}, nil
	})
	c := newCluster(t, r)
	m1, m3 := machine("m1", "1", nil), machine("m3", "5", nil)
	again := machine("m3", "9", nil)
	again.UID = "another"
	steps := []struct {
		name  string
		do    func()
		have  []string
		asked string
	}{
		{"everything", func() { c.has(m1, machine("m2", "1", nil), machine("m4", "1", nil)) }, []string{"m1 1", "m2 1", "m4 1"}, "nodes / anew, nodes / since"},
		{"nothing", func() {}, []string{"m1 1", "m2 1", "m4 1"}, "nodes / since"},
		{"changed and new", func() { c.has(machine("m2", "2", nil), m3) }, []string{"m1 1", "m2 2", "m3 5", "m4 1"}, "nodes / since"},
		{"gone", func() { c.gone(m1); c.gone(machine("m2", "", nil)); c.gone(machine("m4", "", nil)) }, []string{"m3 5"}, "nodes / since, nodes / since"},
		{"made again", func() { c.gone(m3); c.has(again) }, []string{"m3 9"}, "nodes / since"},
		{"begun anew", func() { c.has(m1); c.gone(again); c.restart = 1 }, []string{"m1 1"}, "nodes / since, nodes / since"},
		{"none", func() { c.gone(m1); c.restart = 1 }, nil, "nodes / since, nodes / since"},
	}
	for _, step := range steps {
		step.do()
		c.asked = nil
		if err := r.Call(abi.OpRouteList, &abi.RouteListRequest{}, &abi.RouteListResponse{}); err != nil {
			t.Fatalf("%s: %v", step.name, err)
		}
		var got []string
		for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); time.Sleep(time.Millisecond) { // natively, threads run at any time
			if got = names(t, lister); slices.Equal(got, step.have) {
				break
			}
		}
		if !slices.Equal(got, step.have) || strings.Join(c.asked, ", ") != step.asked {
			t.Errorf("%s: the informer has %q, want %q; asked were %q", step.name, got, step.have, c.asked)
		}
	}
}

func names(t *testing.T, lister listers.NodeLister) (out []string) {
	t.Helper()
	all, err := lister.List(labels.Everything())
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range all {
		if n.Spec.ProviderID != "fake:///"+n.Name+" "+n.ResourceVersion {
			t.Errorf("node %v", n)
		}
		out = append(out, n.Name+" "+n.ResourceVersion)
	}
	slices.Sort(out)
	return out
}

// A provider without a grant for its informers serves ops that need none.
func TestInformersWithoutGrant(t *testing.T) {
	r := newRig(t, "", func(*Environment) (cloudprovider.Interface, error) {
		return &informed{&cloud{routes: &routes{}}, func(f informers.SharedInformerFactory) {
			f.Core().V1().Nodes().Informer()
			f.Core().V1().Pods().Informer()
			f.Networking().V1().Ingresses().Informer()
		}}, nil
	})
	if err := r.Call(abi.OpRouteList, &abi.RouteListRequest{}, &abi.RouteListResponse{}); err != nil {
		t.Fatal(err)
	}
}

// The host makes an Event of the op's object; others are only logged.
func TestEvents(t *testing.T) {
	var client kubernetes.Interface
	r := newRig(t, "", func(*Environment) (cloudprovider.Interface, error) {
		c := &cloud{begun: func(b cloudprovider.ControllerClientBuilder) { client = b.ClientOrDie("events") }}
		c.balancers = &balancers{ensure: func(ctx context.Context, s *v1.Service, _ []*v1.Node) (*v1.LoadBalancerStatus, error) {
			for _, namespace := range []string{s.Namespace, "other"} {
				event := &v1.Event{
					ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "e"}, Type: v1.EventTypeWarning, Reason: "Slow", Message: "it takes time",
					InvolvedObject: v1.ObjectReference{Kind: "Service", Namespace: namespace, Name: s.Name},
				}
				if _, err := client.CoreV1().Events(namespace).Create(ctx, event, metav1.CreateOptions{}); err != nil {
					return nil, err
				}
			}
			return &v1.LoadBalancerStatus{}, nil
		}}
		return c, nil
	})
	request := &abi.LoadBalancerRequest{Service: &abi.Service{Namespace: "default", Name: "web"}, Nodes: r.Nodes()}
	if err := r.Call(abi.OpLoadBalancerEnsure, request, &abi.LoadBalancerEnsureResponse{}); err != nil {
		t.Fatal(err)
	}
	if events := r.Events(); len(events) != 1 || !events[0].Warning || events[0].Reason != "Slow" || events[0].Message != "it takes time" {
		t.Errorf("events %v", events)
	}
}

// A recorder's Events reach the event call, too.
func TestRecorder(t *testing.T) {
	broadcaster := record.NewBroadcaster()
	t.Cleanup(broadcaster.Shutdown)
	var recorder record.EventRecorder
	var r *rig
	r = newRig(t, "", func(*Environment) (cloudprovider.Interface, error) {
		c := &cloud{begun: func(b cloudprovider.ControllerClientBuilder) {
			broadcaster.StartRecordingToSink(&corev1.EventSinkImpl{Interface: b.ClientOrDie("events").CoreV1().Events("")})
			recorder = broadcaster.NewRecorder(scheme.Scheme, v1.EventSource{Component: "fake"})
		}}
		c.balancers = &balancers{ensure: func(ctx context.Context, s *v1.Service, _ []*v1.Node) (*v1.LoadBalancerStatus, error) {
			recorder.Event(s, v1.EventTypeNormal, "Made", "it is there")
			for sent := 0; sent == 0 && ctx.Err() == nil; time.Sleep(time.Millisecond) { // natively, another thread sends it
				if err := r.p.bridge.use(func(*sdk.Op) error { sent = len(r.Events()); return nil }); err != nil {
					return nil, err
				}
			}
			return &v1.LoadBalancerStatus{}, nil
		}}
		return c, nil
	})
	request := &abi.LoadBalancerRequest{Service: &abi.Service{Namespace: "default", Name: "web"}, Nodes: r.Nodes()}
	if err := r.Call(abi.OpLoadBalancerEnsure, request, &abi.LoadBalancerEnsureResponse{}); err != nil {
		t.Fatal(err)
	}
	if events := r.Events(); len(events) != 1 || events[0].Reason != "Made" {
		t.Errorf("events %v", events)
	}
}
