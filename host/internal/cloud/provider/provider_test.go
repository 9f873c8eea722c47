package provider

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cloudprovider "k8s.io/cloud-provider"
	cloudproviderapi "k8s.io/cloud-provider/api"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/host/internal/cloud/opcontext"
)

type fakeInvoker struct {
	invoke   func(ctx context.Context, op abi.Op, req, resp abi.Message) error
	supports func(op abi.Op) bool
}

func (f *fakeInvoker) Invoke(ctx context.Context, op abi.Op, req, resp abi.Message) error {
	return f.invoke(ctx, op, req, resp)
}
func (f *fakeInvoker) InvokeFresh(ctx context.Context, op abi.Op, req, resp abi.Message) error {
	return f.invoke(ctx, op, req, resp)
}
func (f *fakeInvoker) Supports(op abi.Op) bool { return f.supports == nil || f.supports(op) }
func (f *fakeInvoker) ProviderName() string    { return "fake" }
func (f *fakeInvoker) HasClusterID() bool      { return true }

// answer makes an invoker that answers every op with a copy of the message.
func answer(t *testing.T, message abi.Message) *fakeInvoker {
	t.Helper()
	data := make([]byte, message.SizeVT())
	if _, err := message.MarshalToSizedBufferVT(data); err != nil {
		t.Fatal(err)
	}
	return &fakeInvoker{invoke: func(_ context.Context, _ abi.Op, _, resp abi.Message) error { return resp.UnmarshalVT(data) }}
}

func fails(err error) *fakeInvoker {
	return &fakeInvoker{invoke: func(context.Context, abi.Op, abi.Message, abi.Message) error { return err }}
}

var (
	testNode    = &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", UID: "node-uid"}}
	testService = &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "aaaa-bbbb"}}
	testRoute   = &cloudprovider.Route{TargetNode: "n1", DestinationCIDR: "10.0.0.0/24"}
	testVolume  = &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv", UID: "pv-uid"}}
)

// call runs an op through the public interface and returns its result, if it
// has one, and its error.
func call(ctx context.Context, p *Provider, op abi.Op) (any, error) {
	instances, _ := p.InstancesV2()
	balancer, _ := p.LoadBalancer()
	routes, _ := p.Routes()
	switch op {
	case abi.OpInstanceExists:
		return instances.InstanceExists(ctx, testNode)
	case abi.OpInstanceShutdown:
		return instances.InstanceShutdown(ctx, testNode)
	case abi.OpInstanceMetadata:
		return instances.InstanceMetadata(ctx, testNode)
	case abi.OpLoadBalancerGet:
		_, exists, err := balancer.GetLoadBalancer(ctx, "c", testService)
		return exists, err
	case abi.OpLoadBalancerEnsure:
		return balancer.EnsureLoadBalancer(ctx, "c", testService, []*corev1.Node{testNode})
	case abi.OpLoadBalancerUpdate:
		return nil, balancer.UpdateLoadBalancer(ctx, "c", testService, []*corev1.Node{testNode})
	case abi.OpLoadBalancerDelete:
		return nil, balancer.EnsureLoadBalancerDeleted(ctx, "c", testService)
	case abi.OpRouteList:
		return routes.ListRoutes(ctx, "c")
	case abi.OpRouteCreate:
		return nil, routes.CreateRoute(ctx, "c", "hint", testRoute)
	case abi.OpRouteDelete:
		return nil, routes.DeleteRoute(ctx, "c", testRoute)
	case abi.OpVolumeLabels:
		return p.GetLabelsForVolume(ctx, testVolume)
	}
	panic(op)
}

var subjects = map[abi.Op]string{
	abi.OpInstanceExists: " n1", abi.OpInstanceShutdown: " n1", abi.OpInstanceMetadata: " n1",
	abi.OpLoadBalancerGet: " default/web", abi.OpLoadBalancerEnsure: " default/web",
	abi.OpLoadBalancerUpdate: " default/web", abi.OpLoadBalancerDelete: " default/web",
	abi.OpRouteList: "", abi.OpRouteCreate: " 10.0.0.0/24 of n1", abi.OpRouteDelete: " 10.0.0.0/24 of n1",
	abi.OpVolumeLabels: " pv",
}

func TestEveryCodeOfEveryOp(t *testing.T) {
	bare := map[abi.Code]struct {
		err error
		ops []abi.Op
	}{
		abi.CodeImplementedElsewhere: {cloudprovider.ImplementedElsewhere, []abi.Op{abi.OpLoadBalancerEnsure, abi.OpLoadBalancerUpdate}},
		abi.CodeInstanceNotFound:     {cloudprovider.InstanceNotFound, []abi.Op{abi.OpInstanceMetadata, abi.OpInstanceShutdown, abi.OpRouteCreate, abi.OpRouteDelete}},
	}
	for op, subject := range subjects {
		for code := abi.CodeOK; code <= abi.CodeUnavailable+1; code++ { // OK and the unknown one, too
			t.Run(fmt.Sprintf("%s/%s", op, code), func(t *testing.T) {
				given := &abi.Error{Code: code, Message: "it broke"}
				_, err := call(t.Context(), New(fails(fmt.Errorf("generation 3: %w", given))), op)
				switch {
				case code == abi.CodeNotImplemented:
					if err != cloudprovider.NotImplemented { //nolint:errorlint // upstream compares with ==
						t.Errorf("got %v", err)
					}
				case code == abi.CodeImplementedElsewhere && (op == abi.OpLoadBalancerGet || op == abi.OpLoadBalancerDelete):
					// Upstream would wait for ever, or forget what is there.
					if want := op.String() + subject + ": invalid answer of the guest: implemented_elsewhere, which is an answer of lb_ensure and lb_update only; the provider must describe the load balancer: it broke"; err == nil || err.Error() != want {
						t.Errorf("got %v, want %s", err, want)
					}
				case slices.Contains(bare[code].ops, op):
					if err != bare[code].err { //nolint:errorlint // upstream compares with ==
						t.Errorf("got %v", err)
					}
				default:
					checkPlain(t, err, given, op.String()+subject+": generation 3: it broke")
				}
			})
		}
	}
}

func checkPlain(t *testing.T, err error, given *abi.Error, text string) {
	t.Helper()
	if err == nil || !strings.HasPrefix(err.Error(), text) {
		t.Fatalf("got %v, want %q", err, text)
	}
	var got *abi.Error
	if !errors.As(err, &got) || got != given {
		t.Errorf("the answer of the guest is not in %#v", err)
	}
	for _, sentinel := range []error{cloudprovider.ImplementedElsewhere, cloudprovider.InstanceNotFound, cloudprovider.NotImplemented} {
		if errors.Is(err, sentinel) {
			t.Errorf("%v is %v", err, sentinel)
		}
	}
	var retry *cloudproviderapi.RetryError
	if errors.As(err, &retry) != (given.Code == abi.CodeRetryAfter) {
		t.Errorf("RetryError for %s: %v", given.Code, retry)
	}
}

func TestRetryDelay(t *testing.T) {
	tests := map[string]struct {
		code        abi.Code
		given, want time.Duration
	}{
		"retry_after":             {abi.CodeRetryAfter, 7 * time.Second, 7 * time.Second},
		"throttled":               {abi.CodeThrottled, 90 * time.Second, 90 * time.Second},
		"retry_after, no time":    {abi.CodeRetryAfter, 0, 5 * time.Second},
		"throttled, no time":      {abi.CodeThrottled, 0, 0},
		"negative":                {abi.CodeRetryAfter, -time.Hour, 5 * time.Second},
		"too short":               {abi.CodeRetryAfter, time.Millisecond, time.Second},
		"too long":                {abi.CodeThrottled, 1000 * time.Hour, 15 * time.Minute},
		"a time on another code":  {abi.CodeInternal, 7 * time.Second, 0},
		"a time on invalid input": {abi.CodeInvalid, 7 * time.Second, 0},
	}
	for name, test := range tests {
		for op := range subjects {
			t.Run(name+"/"+op.String(), func(t *testing.T) {
				_, err := call(t.Context(), New(fails(&abi.Error{Code: test.code, RetryAfter: test.given})), op)
				var retry *cloudproviderapi.RetryError
				if !errors.As(err, &retry) {
					if test.want != 0 || err == nil {
						t.Fatalf("no RetryError in %v", err)
					}
					return
				}
				if retry.RetryAfter() != test.want {
					t.Errorf("delay %v, want %v", retry.RetryAfter(), test.want)
				}
				// The cleanup path of upstream formats with %v.
				if !strings.Contains(err.Error(), "retry after "+test.want.String()) {
					t.Errorf("the delay is not in %q", err)
				}
			})
		}
	}
}

func TestOtherFailures(t *testing.T) {
	trap := errors.New("guest trapped: unreachable")
	for op, subject := range subjects {
		for _, given := range []error{trap, context.DeadlineExceeded, context.Canceled} {
			got, err := call(t.Context(), New(fails(given)), op)
			if !errors.Is(err, given) || !strings.HasPrefix(err.Error(), op.String()+subject+": ") {
				t.Errorf("%s: %v became %v", op, given, err)
			}
			if got == true {
				t.Errorf("%s: true with an error", op)
			}
		}
	}
}

// The zero message is what an empty response decodes to.
func TestEmptyAnswersAreErrors(t *testing.T) {
	for op := range subjects {
		got, err := call(t.Context(), New(answer(t, &abi.Done{})), op)
		if err == nil || !strings.Contains(err.Error(), "invalid answer of the guest") {
			t.Errorf("%s: got %v, %v", op, got, err)
		}
	}
}

func TestAnswers(t *testing.T) {
	vip := corev1.LoadBalancerIPModeVIP
	lb := &abi.LoadBalancerStatus{Ingress: []*abi.LoadBalancerIngress{{Ip: "192.0.2.1"}}}
	tests := map[string]struct {
		op      abi.Op
		answer  abi.Message
		want    any
		wantErr string
	}{
		"exists":              {op: abi.OpInstanceExists, answer: &abi.InstanceExistsResponse{Existence: abi.Existence_EXISTENCE_EXISTS}, want: true},
		"does not exist":      {op: abi.OpInstanceExists, answer: &abi.InstanceExistsResponse{Existence: abi.Existence_EXISTENCE_DOES_NOT_EXIST}, want: false},
		"existence 3":         {op: abi.OpInstanceExists, answer: &abi.InstanceExistsResponse{Existence: 3}, wantErr: "unknown existence 3"},
		"on":                  {op: abi.OpInstanceShutdown, answer: &abi.InstanceShutdownResponse{State: abi.PowerState_POWER_STATE_ON}, want: false},
		"shut down":           {op: abi.OpInstanceShutdown, answer: &abi.InstanceShutdownResponse{State: abi.PowerState_POWER_STATE_SHUTDOWN}, want: true},
		"power state 3":       {op: abi.OpInstanceShutdown, answer: &abi.InstanceShutdownResponse{State: 3}, wantErr: "unknown power state 3"},
		"metadata":            {op: abi.OpInstanceMetadata, answer: &abi.InstanceMetadataResponse{Metadata: &abi.InstanceMetadata{ProviderId: "fake://1"}}, want: &cloudprovider.InstanceMetadata{ProviderID: "fake://1"}},
		"no metadata":         {op: abi.OpInstanceMetadata, answer: &abi.InstanceMetadataResponse{}, wantErr: "instance_metadata n1: invalid answer of the guest: the answer has no metadata"},
		"not mine":            {op: abi.OpInstanceMetadata, answer: &abi.InstanceMetadataResponse{NotMine: true}, want: (*cloudprovider.InstanceMetadata)(nil)},
		"mine and not mine":   {op: abi.OpInstanceMetadata, answer: &abi.InstanceMetadataResponse{NotMine: true, Metadata: &abi.InstanceMetadata{ProviderId: "fake://1"}}, wantErr: "instance_metadata n1: invalid answer of the guest: the answer is not_mine, and has metadata as well"},
		"LB half made":        {op: abi.OpLoadBalancerGet, answer: &abi.LoadBalancerGetResponse{Existence: abi.Existence_EXISTENCE_EXISTS, Status: &abi.LoadBalancerStatus{}}, want: true},
		"LB with a bad name":  {op: abi.OpLoadBalancerGet, answer: &abi.LoadBalancerGetResponse{Existence: abi.Existence_EXISTENCE_EXISTS, Status: &abi.LoadBalancerStatus{Ingress: []*abi.LoadBalancerIngress{{Hostname: "fd00::1.nip.io"}}}}, want: true}, // it is to go
		"LB exists":           {op: abi.OpLoadBalancerGet, answer: &abi.LoadBalancerGetResponse{Existence: abi.Existence_EXISTENCE_EXISTS, Status: lb}, want: true},
		"LB without status":   {op: abi.OpLoadBalancerGet, answer: &abi.LoadBalancerGetResponse{Existence: abi.Existence_EXISTENCE_EXISTS}, wantErr: "no load balancer status"},
		"LB does not exist":   {op: abi.OpLoadBalancerGet, answer: &abi.LoadBalancerGetResponse{Existence: abi.Existence_EXISTENCE_DOES_NOT_EXIST}, want: false},
		"LB status":           {op: abi.OpLoadBalancerEnsure, answer: &abi.LoadBalancerEnsureResponse{Status: lb}, want: &corev1.LoadBalancerStatus{Ingress: []corev1.LoadBalancerIngress{{IP: "192.0.2.1", IPMode: &vip}}}},
		"updated":             {op: abi.OpLoadBalancerUpdate, answer: &abi.Done{Done: true}},
		"deleted":             {op: abi.OpLoadBalancerDelete, answer: &abi.Done{Done: true}},
		"no routes":           {op: abi.OpRouteList, answer: &abi.RouteListResponse{Done: true}, want: []*cloudprovider.Route{}},
		"routes without done": {op: abi.OpRouteList, answer: &abi.RouteListResponse{Routes: []*abi.Route{{DestinationCidr: "10.0.0.0/24"}}}, wantErr: "does not say done"},
		"invalid route":       {op: abi.OpRouteList, answer: &abi.RouteListResponse{Routes: []*abi.Route{{}}, Done: true}, wantErr: "routes[0]"},
		"no labels":           {op: abi.OpVolumeLabels, answer: &abi.VolumeLabelsResponse{Done: true}, want: map[string]string{}},
		"labels without done": {op: abi.OpVolumeLabels, answer: &abi.VolumeLabelsResponse{Labels: map[string]string{"a": "b"}}, wantErr: "does not say done"},
		"invalid label":       {op: abi.OpVolumeLabels, answer: &abi.VolumeLabelsResponse{Labels: map[string]string{"a": "?"}, Done: true}, wantErr: `label a "?"`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := call(t.Context(), New(answer(t, test.answer)), test.op)
			if test.wantErr != "" {
				if err == nil || !strings.Contains(err.Error(), test.wantErr) {
					t.Fatalf("error %v, want one with %q", err, test.wantErr)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestLoadBalancerName(t *testing.T) {
	fallback := cloudprovider.DefaultLoadBalancerName(testService)
	unsupported := fails(errors.New("must not be called"))
	// Upstream asked for the load balancer when the guest before this one served.
	served := false
	unsupported.supports = func(abi.Op) bool { return !served }
	tests := map[string]struct {
		invoker *fakeInvoker
		want    string
	}{
		"guest's":     {answer(t, &abi.LoadBalancerNameResponse{Name: "lb-web"}), "lb-web"},
		"empty":       {answer(t, &abi.LoadBalancerNameResponse{}), fallback},
		"error":       {fails(errors.New("trap")), fallback},
		"unsupported": {unsupported, fallback},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			served = false
			balancer, ok := New(test.invoker).LoadBalancer()
			if !ok {
				t.Fatal("no load balancer")
			}
			served = true
			if got := balancer.GetLoadBalancerName(t.Context(), "c", testService); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

func TestCapabilitiesFollowTheGuest(t *testing.T) {
	groups := map[string][]abi.Op{
		"instances":     {abi.OpInstanceExists, abi.OpInstanceShutdown, abi.OpInstanceMetadata},
		"load balancer": {abi.OpLoadBalancerGet, abi.OpLoadBalancerName, abi.OpLoadBalancerEnsure, abi.OpLoadBalancerUpdate, abi.OpLoadBalancerDelete},
		"routes":        {abi.OpRouteList, abi.OpRouteCreate, abi.OpRouteDelete},
		"volumes":       {abi.OpVolumeLabels},
	}
	var without abi.Op
	p := New(&fakeInvoker{supports: func(op abi.Op) bool { return op != without }})
	supported := func() map[string]bool {
		_, instances := p.InstancesV2()
		_, balancer := p.LoadBalancer()
		_, routes := p.Routes()
		return map[string]bool{"instances": instances, "load balancer": balancer, "routes": routes, "volumes": p.Volumes().Supports()}
	}
	before, _ := p.LoadBalancer()
	for group, ops := range groups {
		for _, without = range ops {
			want := map[string]bool{"instances": true, "load balancer": true, "routes": true, "volumes": true}
			want[group] = false
			if diff := cmp.Diff(want, supported()); diff != "" {
				t.Errorf("without %s: %s", without, diff)
			}
		}
	}
	without = 0
	if after, _ := p.LoadBalancer(); after != before {
		t.Error("another object after a change of the guest; upstream keeps the first")
	}
	if p.ProviderName() != "fake" || !p.HasClusterID() {
		t.Error("name and cluster ID are not the guest's")
	}
}

func TestWhatTheOpIsAbout(t *testing.T) {
	service := &corev1.ObjectReference{APIVersion: "v1", Kind: "Service", Namespace: "default", Name: "web", UID: "aaaa-bbbb"}
	node := &corev1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: "n1", UID: "node-uid"}
	nodes := []*corev1.Node{testNode}
	tests := map[abi.Op]opcontext.Op{
		abi.OpInstanceExists:     {Object: node},
		abi.OpInstanceShutdown:   {Object: node},
		abi.OpInstanceMetadata:   {Object: node},
		abi.OpLoadBalancerGet:    {Object: service, Serial: "Service default/web"},
		abi.OpLoadBalancerEnsure: {Object: service, Nodes: nodes, Serial: "Service default/web"},
		abi.OpLoadBalancerUpdate: {Object: service, Nodes: nodes, Serial: "Service default/web"},
		abi.OpLoadBalancerDelete: {Object: service, Serial: "Service default/web"},
		abi.OpRouteList:          {},
		abi.OpRouteCreate:        {Object: &corev1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: "n1"}, Serial: "Route 10.0.0.0/24 of n1"},
		abi.OpRouteDelete:        {Object: &corev1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: "n1"}, Serial: "Route 10.0.0.0/24 of n1"},
		abi.OpVolumeLabels:       {Object: &corev1.ObjectReference{APIVersion: "v1", Kind: "PersistentVolume", Name: "pv", UID: "pv-uid"}},
	}
	for op, want := range tests {
		t.Run(op.String(), func(t *testing.T) {
			var got opcontext.Op
			var snapshot abi.NodeSnapshot
			p := New(&fakeInvoker{invoke: func(ctx context.Context, called abi.Op, req, _ abi.Message) error {
				if called != op {
					t.Errorf("op %s", called)
				}
				got = opcontext.FromContext(ctx)
				if r, ok := req.(*abi.LoadBalancerRequest); ok && r.Nodes != nil {
					snapshot = *r.Nodes
				}
				return nil
			}})
			_, _ = call(t.Context(), p, op)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
			if want.Nodes != nil && (snapshot.Id != opcontext.SnapshotID || snapshot.Count != 1) {
				t.Errorf("snapshot %v", &snapshot)
			}
			if want.Nodes == nil && snapshot.Id != 0 {
				t.Errorf("snapshot %v of an op without nodes", &snapshot)
			}
		})
	}
}

func TestNodesAreInTheOrderOfTheirNames(t *testing.T) {
	var got []string
	p := New(&fakeInvoker{invoke: func(ctx context.Context, _ abi.Op, _, _ abi.Message) error {
		for _, n := range opcontext.FromContext(ctx).Nodes {
			got = append(got, n.Name)
		}
		return nil
	}})
	balancer, _ := p.LoadBalancer()
	var nodes []*corev1.Node // in the order of a lister: none
	for _, name := range []string{"worker-2", "control-plane-0", "worker-10", "worker-1"} {
		nodes = append(nodes, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}})
	}
	_ = balancer.UpdateLoadBalancer(t.Context(), "c", testService, nodes)
	if diff := cmp.Diff([]string{"control-plane-0", "worker-1", "worker-10", "worker-2"}, got); diff != "" {
		t.Error(diff)
	}
	if nodes[0].Name != "worker-2" {
		t.Error("the caller's nodes were moved")
	}
}
