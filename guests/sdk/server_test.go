package sdk_test

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/abi/wire"
	"github.com/wasm-ccm/wasm-ccm/guests/sdk"
	"github.com/wasm-ccm/wasm-ccm/guests/sdk/sdktest"
)

// base is a provider without ops.
type base struct {
	configure func(op *sdk.Op, config sdk.Config) (sdk.Configured, error)
}

func (base) Info() sdk.Info {
	return sdk.Info{Name: "test", Version: "1.2.3", ProviderName: "cloud"}
}

func (b base) Configure(op *sdk.Op, config sdk.Config) (sdk.Configured, error) {
	if b.configure == nil {
		return sdk.Configured{}, nil
	}
	return b.configure(op, config)
}

func (base) Probe(*sdk.Op) (string, error) { return "all is well", nil }

// whole has every op. The functions give its answers; a nil function gives the
// zero value, as a faulty provider does.
type whole struct {
	base
	exists   func(op *sdk.Op, node *abi.Node) (sdk.Existence, error)
	shutdown func(node *abi.Node) (sdk.PowerState, error)
	metadata func(node *abi.Node) (*abi.InstanceMetadata, error)
	get      func() (sdk.Existence, *abi.LoadBalancerStatus, error)
	name     func() (string, error)
	ensure   func(op *sdk.Op, req *abi.LoadBalancerRequest) (*abi.LoadBalancerStatus, error)
	err      error // of the other ops
}

func (w *whole) InstanceExists(op *sdk.Op, node *abi.Node) (sdk.Existence, error) {
	if w.exists == nil {
		return 0, nil
	}
	return w.exists(op, node)
}

func (w *whole) InstanceShutdown(_ *sdk.Op, node *abi.Node) (sdk.PowerState, error) {
	if w.shutdown == nil {
		return 0, nil
	}
	return w.shutdown(node)
}

func (w *whole) InstanceMetadata(_ *sdk.Op, node *abi.Node) (*abi.InstanceMetadata, error) {
	if w.metadata == nil {
		return nil, nil
	}
	return w.metadata(node)
}

func (w *whole) ListInstances(_ *sdk.Op, token string, size int) ([]*abi.Instance, string, error) {
	return []*abi.Instance{{NodeName: fmt.Sprint(token, size)}}, "next", w.err
}

func (w *whole) GetLoadBalancer(*sdk.Op, *abi.LoadBalancerRequest) (sdk.Existence, *abi.LoadBalancerStatus, error) {
	if w.get == nil {
		return 0, nil, nil
	}
	return w.get()
}

func (w *whole) LoadBalancerName(*sdk.Op, *abi.LoadBalancerRequest) (string, error) {
	if w.name == nil {
		return "", nil
	}
	return w.name()
}

func (w *whole) EnsureLoadBalancer(op *sdk.Op, req *abi.LoadBalancerRequest) (*abi.LoadBalancerStatus, error) {
	if w.ensure == nil {
		return nil, nil
	}
	return w.ensure(op, req)
}

func (w *whole) UpdateLoadBalancer(*sdk.Op, *abi.LoadBalancerRequest) error { return w.err }
func (w *whole) DeleteLoadBalancer(*sdk.Op, *abi.LoadBalancerRequest) error { return w.err }

func (w *whole) ListRoutes(_ *sdk.Op, cluster string) ([]*abi.Route, error) {
	return []*abi.Route{{Name: cluster}}, w.err
}
func (w *whole) CreateRoute(*sdk.Op, *abi.RouteCreateRequest) error { return w.err }
func (w *whole) DeleteRoute(*sdk.Op, *abi.RouteDeleteRequest) error { return w.err }

func (w *whole) VolumeLabels(_ *sdk.Op, v *abi.Volume) (map[string]string, error) {
	return map[string]string{"zone": v.Name}, w.err
}

func serve(t *testing.T, p sdk.Provider) *sdktest.Host {
	h := sdktest.New(t)
	h.Serve(p)
	return h
}

func TestDescribeConfigureProbe(t *testing.T) {
	var got sdk.Config
	h := serve(t, base{configure: func(op *sdk.Op, config sdk.Config) (sdk.Configured, error) {
		got = config
		op.Info("configured", "bytes", "3")
		return sdk.Configured{DisabledOps: []abi.Op{abi.OpRouteList}, Warnings: []string{"w"}}, nil
	}})
	var describe abi.DescribeResponse
	var configure abi.ConfigureResponse
	var probe abi.ProbeResponse
	for _, err := range []error{
		h.Call(abi.OpDescribe, &abi.DescribeRequest{AbiVersion: 1}, &describe),
		h.Call(abi.OpConfigure, &abi.ConfigureRequest{Config: []byte("abc"), ClusterName: "c"}, &configure),
		h.Call(abi.OpProbe, &abi.ProbeRequest{}, &probe),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if describe.Name != "test" || describe.Version != "1.2.3" || describe.ProviderName != "cloud" {
		t.Errorf("describe: %v", &describe)
	}
	if diff := cmp.Diff(sdk.Config{Bytes: []byte("abc"), ClusterName: "c"}, got); diff != "" {
		t.Error(diff)
	}
	want := abi.ConfigureResponse{Accepted: true, HasClusterId: true, DisabledOps: []uint32{uint32(abi.OpRouteList)}, Warnings: []string{"w"}}
	if !reflect.DeepEqual(&configure, &want) {
		t.Errorf("configure: %v", &configure)
	}
	if !probe.Ready || probe.Summary != "all is well" {
		t.Errorf("probe: %v", &probe)
	}
	if diff := cmp.Diff([]string{"INFO configured bytes=3"}, h.Logs()); diff != "" {
		t.Error(diff)
	}
}

// requests has a valid request and a response for every op.
func requests() map[abi.Op]func() (req, resp abi.Message) {
	instance := &abi.InstanceRequest{Node: &abi.Node{Name: "n", ProviderId: "cloud://n"}}
	balancer := &abi.LoadBalancerRequest{Service: &abi.Service{Name: "s"}}
	return map[abi.Op]func() (req, resp abi.Message){
		abi.OpDescribe:           func() (req, resp abi.Message) { return &abi.DescribeRequest{}, &abi.DescribeResponse{} },
		abi.OpConfigure:          func() (req, resp abi.Message) { return &abi.ConfigureRequest{}, &abi.ConfigureResponse{} },
		abi.OpProbe:              func() (req, resp abi.Message) { return &abi.ProbeRequest{}, &abi.ProbeResponse{} },
		abi.OpInstanceExists:     func() (req, resp abi.Message) { return instance, &abi.InstanceExistsResponse{} },
		abi.OpInstanceShutdown:   func() (req, resp abi.Message) { return instance, &abi.InstanceShutdownResponse{} },
		abi.OpInstanceMetadata:   func() (req, resp abi.Message) { return instance, &abi.InstanceMetadataResponse{} },
		abi.OpListInstances:      func() (req, resp abi.Message) { return &abi.ListInstancesRequest{}, &abi.ListInstancesResponse{} },
		abi.OpLoadBalancerGet:    func() (req, resp abi.Message) { return balancer, &abi.LoadBalancerGetResponse{} },
		abi.OpLoadBalancerName:   func() (req, resp abi.Message) { return balancer, &abi.LoadBalancerNameResponse{} },
		abi.OpLoadBalancerEnsure: func() (req, resp abi.Message) { return balancer, &abi.LoadBalancerEnsureResponse{} },
		abi.OpLoadBalancerUpdate: func() (req, resp abi.Message) { return balancer, &abi.Done{} },
		abi.OpLoadBalancerDelete: func() (req, resp abi.Message) { return balancer, &abi.Done{} },
		abi.OpRouteList: func() (req, resp abi.Message) {
			return &abi.RouteListRequest{ClusterName: "c"}, &abi.RouteListResponse{}
		},
		abi.OpRouteCreate: func() (req, resp abi.Message) { return &abi.RouteCreateRequest{Route: &abi.Route{}}, &abi.Done{} },
		abi.OpRouteDelete: func() (req, resp abi.Message) { return &abi.RouteDeleteRequest{Route: &abi.Route{}}, &abi.Done{} },
		abi.OpVolumeLabels: func() (req, resp abi.Message) {
			return &abi.VolumeLabelsRequest{Volume: &abi.Volume{Name: "v"}}, &abi.VolumeLabelsResponse{}
		},
	}
}

// A provider without ops answers not_implemented, also to unknown ops.
func TestNotImplemented(t *testing.T) {
	h := serve(t, base{})
	for _, op := range append(abi.Ops(), 99) {
		if op <= abi.OpProbe {
			continue
		}
		if err := h.Call(op, &abi.ProbeRequest{}, &abi.Done{}); sdk.CodeOf(err) != abi.CodeNotImplemented {
			t.Errorf("%s: %v, want not_implemented", op, err)
		}
	}
}

// A malformed request is an error of every op, never an empty success.
func TestUndecodableRequest(t *testing.T) {
	server := sdk.NewServer(&whole{})
	for op := range requests() {
		for _, request := range []string{"\x0a", "\x0a\x05ab", "\xff"} {
			code, answer := server.Call(sdk.NewOp(nil), op, []byte(request))
			if code != abi.CodeInvalid || !strings.Contains(string(answer), "does not decode") {
				t.Errorf("%s of %q: %s %q, want invalid", op, request, code, answer)
			}
		}
	}
}

// A zero answer is a mistake of the provider, and never passes for an answer.
func TestNoAnswer(t *testing.T) {
	h := serve(t, &whole{})
	for _, op := range []abi.Op{
		abi.OpInstanceExists, abi.OpInstanceShutdown, abi.OpInstanceMetadata,
		abi.OpLoadBalancerGet, abi.OpLoadBalancerName, abi.OpLoadBalancerEnsure,
	} {
		req, resp := requests()[op]()
		if err := h.Call(op, req, resp); sdk.CodeOf(err) != abi.CodeInternal || !strings.Contains(err.Error(), op.String()) {
			t.Errorf("%s: %v, want internal", op, err)
		}
	}
	h = serve(t, &whole{get: func() (sdk.Existence, *abi.LoadBalancerStatus, error) { return sdk.Exists, nil, nil }})
	req, resp := requests()[abi.OpLoadBalancerGet]()
	if err := h.Call(abi.OpLoadBalancerGet, req, resp); sdk.CodeOf(err) != abi.CodeInternal {
		t.Errorf("a load balancer without a status: %v, want internal", err)
	}
}

func TestRequestWithoutItsObject(t *testing.T) {
	h := serve(t, &whole{})
	for _, op := range abi.Ops() {
		if op <= abi.OpProbe || op == abi.OpListInstances || op == abi.OpRouteList || op == abi.OpSign || op == abi.OpTick {
			continue
		}
		if err := h.Call(op, &abi.ProbeRequest{}, &abi.Done{}); sdk.CodeOf(err) != abi.CodeInvalid {
			t.Errorf("%s: %v, want invalid", op, err)
		}
	}
}

// A host may leave out each part of a request, or send it empty.
func TestRequestsWithEmptyParts(t *testing.T) {
	server, signer := sdk.NewServer(&whole{}), sdk.NewSignerServer(&sealer{sign: func(req *abi.SignRequest) (*abi.SignResponse, error) {
		return &abi.SignResponse{State: []byte(req.Scope)}, nil
	}})
	for op := range requests() {
		for _, request := range []string{"", "\x0a\x00", "\x12\x00", "\x1a\x00", "\x0a\x00\x12\x00\x1a\x00"} {
			if code, answer := server.Call(sdk.NewOp(nil), op, []byte(request)); !code.Known() {
				t.Errorf("%s of %q: %s %q", op, request, code, answer)
			}
		}
	}
	for request, want := range map[string]abi.Code{"": abi.CodeInvalid, "\x2a\x00": abi.CodeInvalid, "\x12\x00": abi.CodeOK, "\x12\x00\x2a\x00": abi.CodeOK} {
		if code, answer := signer.Call(abi.OpSign, []byte(request)); code != want {
			t.Errorf("sign of %q: %s %q, want %s", request, code, answer, want)
		}
	}
}

func TestAnswers(t *testing.T) {
	status := &abi.LoadBalancerStatus{Ingress: []*abi.LoadBalancerIngress{{Ip: "192.0.2.1"}}}
	h := serve(t, &whole{
		exists:   func(*sdk.Op, *abi.Node) (sdk.Existence, error) { return sdk.DoesNotExist, nil },
		shutdown: func(*abi.Node) (sdk.PowerState, error) { return sdk.Shutdown, nil },
		metadata: func(node *abi.Node) (*abi.InstanceMetadata, error) {
			return &abi.InstanceMetadata{ProviderId: node.ProviderId}, nil
		},
		get:    func() (sdk.Existence, *abi.LoadBalancerStatus, error) { return sdk.Exists, status, nil },
		name:   func() (string, error) { return "lb", nil },
		ensure: func(*sdk.Op, *abi.LoadBalancerRequest) (*abi.LoadBalancerStatus, error) { return status, nil },
	})
	wants := map[abi.Op]abi.Message{
		abi.OpInstanceExists:     &abi.InstanceExistsResponse{Existence: sdk.DoesNotExist},
		abi.OpInstanceShutdown:   &abi.InstanceShutdownResponse{State: sdk.Shutdown},
		abi.OpInstanceMetadata:   &abi.InstanceMetadataResponse{Metadata: &abi.InstanceMetadata{ProviderId: "cloud://n"}},
		abi.OpListInstances:      &abi.ListInstancesResponse{Instances: []*abi.Instance{{NodeName: "0"}}, NextPageToken: "next", Done: true},
		abi.OpLoadBalancerGet:    &abi.LoadBalancerGetResponse{Existence: sdk.Exists, Status: status},
		abi.OpLoadBalancerName:   &abi.LoadBalancerNameResponse{Name: "lb"},
		abi.OpLoadBalancerEnsure: &abi.LoadBalancerEnsureResponse{Status: status},
		abi.OpLoadBalancerUpdate: &abi.Done{Done: true},
		abi.OpLoadBalancerDelete: &abi.Done{Done: true},
		abi.OpRouteList:          &abi.RouteListResponse{Routes: []*abi.Route{{Name: "c"}}, Done: true},
		abi.OpRouteCreate:        &abi.Done{Done: true},
		abi.OpRouteDelete:        &abi.Done{Done: true},
		abi.OpVolumeLabels:       &abi.VolumeLabelsResponse{Labels: map[string]string{"zone": "v"}, Done: true},
	}
	for op, want := range wants {
		req, resp := requests()[op]()
		if err := h.Call(op, req, resp); err != nil || !reflect.DeepEqual(want, resp) {
			t.Errorf("%s: %v, %v, want %v", op, resp, err, want)
		}
	}
}

func TestErrors(t *testing.T) {
	tests := map[string]struct {
		err     error
		code    abi.Code
		message string
		after   time.Duration
	}{
		"plain":         {errors.New("boom"), abi.CodeInternal, "boom", 0},
		"not found":     {sdk.NotFound("x"), abi.CodeNotFound, "x", 0},
		"instance":      {sdk.InstanceNotFound("x"), abi.CodeInstanceNotFound, "x", 0},
		"elsewhere":     {sdk.ImplementedElsewhere("x"), abi.CodeImplementedElsewhere, "x", 0},
		"credentials":   {sdk.Unauthenticated("x"), abi.CodeUnauthenticated, "x", 0},
		"invalid":       {sdk.Invalidf("%s in line %d", "x", 3), abi.CodeInvalid, "x in line 3", 0},
		"retry":         {sdk.RetryAfter(1500*time.Microsecond, "x"), abi.CodeRetryAfter, "x", 2 * time.Millisecond},
		"throttled":     {sdk.Throttled(time.Minute, "x"), abi.CodeThrottled, "x", time.Minute},
		"wrapped":       {fmt.Errorf("service s: %w", sdk.RetryAfter(time.Second, "x")), abi.CodeRetryAfter, "service s: x", time.Second},
		"joined":        {errors.Join(errors.New("a"), sdk.NotFound("b")), abi.CodeNotFound, "a\nb", 0},
		"code ok":       {sdk.Error(abi.CodeOK, "x"), abi.CodeInternal, "x", 0},
		"without words": {sdk.Error(abi.CodeDenied, ""), abi.CodeDenied, "denied", 0},
		"long":          {errors.New(strings.Repeat("ä", 3000)), abi.CodeInternal, strings.Repeat("ä", 2048), 0},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			h := serve(t, &whole{err: test.err})
			err := h.Call(abi.OpLoadBalancerUpdate, &abi.LoadBalancerRequest{Service: &abi.Service{}}, &abi.Done{})
			want := &abi.Error{Code: test.code, Message: test.message, RetryAfter: test.after}
			if diff := cmp.Diff(want, err); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// selective reads only the name and the addresses of a Node.
type selective struct{ whole }

func (*selective) InstanceNodeFields() []sdk.NodeField {
	return []sdk.NodeField{sdk.NodeName, sdk.NodeAddresses}
}

func TestInstanceNodeFields(t *testing.T) {
	node := &abi.Node{
		Name: "n", ProviderId: "cloud://n", Labels: map[string]string{"a": "b"}, Uid: "u",
		Addresses: []*abi.NodeAddress{{Address: "192.0.2.1"}, {Address: "192.0.2.2"}},
	}
	var got *abi.Node
	p := &selective{}
	p.exists = func(_ *sdk.Op, node *abi.Node) (sdk.Existence, error) { got = node; return sdk.Exists, nil }
	h := serve(t, p)
	if err := h.Call(abi.OpInstanceExists, &abi.InstanceRequest{Node: node}, &abi.InstanceExistsResponse{}); err != nil {
		t.Fatal(err)
	}
	if want := (&abi.Node{Name: "n", Addresses: node.Addresses}); !reflect.DeepEqual(want, got) {
		t.Errorf("the node is %v, want %v", got, want)
	}
	server := sdk.NewServer(p)
	for _, request := range []string{"\x0a", "\x0a\x05ab", "\x0a\x02\x0a\x05", "\xff", "\x0a\x02\x1a\x05", "\x03", "\x09\x00", "\x0d\x00", "\x08", "\x0a\x01\x00"} {
		if code, _ := server.Call(sdk.NewOp(nil), abi.OpInstanceExists, []byte(request)); code != abi.CodeInvalid {
			t.Errorf("%q: %s, want invalid", request, code)
		}
	}
}

// A guest's collector has to find the memory of each op: only the strings of
// selected fields survive it.
func TestInstanceNodeFieldsLeaveTheirTexts(t *testing.T) {
	request, err := wire.Marshal(&abi.InstanceRequest{Node: &abi.Node{Name: "n1", Uid: "u", Labels: map[string]string{"a": "b"}}})
	if err != nil {
		t.Fatal(err)
	}
	p, metadata := &selective{}, &abi.InstanceMetadata{ProviderId: "cloud://n1"}
	p.metadata = func(*abi.Node) (*abi.InstanceMetadata, error) { return metadata, nil }
	server, op := sdk.NewServer(p), sdk.NewOp(nil)
	got := testing.AllocsPerRun(100, func() {
		if code, answer := server.Call(op, abi.OpInstanceMetadata, request); code != abi.CodeOK {
			t.Fatal(code, string(answer))
		}
	})
	if got > 1 {
		t.Errorf("%v allocations for one text", got)
	}
}

// FuzzInstanceNodeFields: decoding a selection accepts the same messages as
// decoding all fields, with the same result.
func FuzzInstanceNodeFields(f *testing.F) {
	f.Add([]byte("\x0a\x11\x0a\x02m1\x12\x0bstatic://m1"))
	f.Fuzz(func(t *testing.T, request []byte) {
		var all abi.InstanceRequest
		if all.UnmarshalVT(request) != nil || all.Node == nil {
			return
		}
		var got *abi.Node
		p := &selective{}
		p.exists = func(_ *sdk.Op, node *abi.Node) (sdk.Existence, error) { got = node; return sdk.Exists, nil }
		code, answer := sdk.NewServer(p).Call(sdk.NewOp(nil), abi.OpInstanceExists, request)
		if code != abi.CodeOK {
			if strings.Contains(string(answer), "EOF") { // groups are not part of proto3
				return
			}
			t.Fatalf("%q: %s %q", request, code, answer)
		}
		if got.Name != all.Node.Name || len(got.Addresses) != len(all.Node.Addresses) {
			t.Fatalf("%q: %v, want the name and the addresses of %v", request, got, all.Node)
		}
	})
}

func TestNotMine(t *testing.T) {
	h := serve(t, &whole{metadata: func(*abi.Node) (*abi.InstanceMetadata, error) {
		return &abi.InstanceMetadata{ProviderId: "x"}, fmt.Errorf("of another pool: %w", sdk.ErrNotMine)
	}})
	var got abi.InstanceMetadataResponse
	if err := h.Call(abi.OpInstanceMetadata, &abi.InstanceRequest{Node: &abi.Node{Name: "n"}}, &got); err != nil || !got.NotMine || got.Metadata != nil {
		t.Errorf("%v, %v", &got, err)
	}
	mine := serve(t, &whole{metadata: func(*abi.Node) (*abi.InstanceMetadata, error) { return &abi.InstanceMetadata{ProviderId: "x"}, nil }})
	if err := mine.Call(abi.OpInstanceMetadata, &abi.InstanceRequest{Node: &abi.Node{Name: "n"}}, &got); err != nil || got.NotMine || got.Metadata == nil {
		t.Errorf("%v, %v", &got, err)
	}
}

// TestElsewhereIsNoAnswerToGetAndDelete: upstream would wait for ever, or
// forget a load balancer.
func TestElsewhereIsNoAnswerToGetAndDelete(t *testing.T) {
	elsewhere := sdk.ImplementedElsewhere("of the class internal")
	h := serve(t, &whole{
		get:    func() (sdk.Existence, *abi.LoadBalancerStatus, error) { return 0, nil, elsewhere },
		ensure: func(*sdk.Op, *abi.LoadBalancerRequest) (*abi.LoadBalancerStatus, error) { return nil, elsewhere },
		err:    elsewhere,
	})
	request := &abi.LoadBalancerRequest{Service: &abi.Service{Uid: "u"}}
	for op, resp := range map[abi.Op]abi.Message{
		abi.OpLoadBalancerGet: &abi.LoadBalancerGetResponse{}, abi.OpLoadBalancerDelete: &abi.Done{},
		abi.OpLoadBalancerEnsure: &abi.LoadBalancerEnsureResponse{}, abi.OpLoadBalancerUpdate: &abi.Done{},
	} {
		want := abi.CodeImplementedElsewhere
		if op == abi.OpLoadBalancerGet || op == abi.OpLoadBalancerDelete {
			want = abi.CodeInternal
		}
		err := h.Call(op, request, resp)
		if sdk.CodeOf(err) != want || !strings.Contains(err.Error(), "of the class internal") {
			t.Errorf("%s: %v (%s), want %s", op, err, sdk.CodeOf(err), want)
		}
	}
}

// clock is a provider with only a Ticker.
type clock struct {
	base
	ticked string
}

func (c *clock) Configure(*sdk.Op, sdk.Config) (sdk.Configured, error) {
	return sdk.Configured{TickPeriod: time.Minute}, nil
}

func (c *clock) Tick(_ *sdk.Op, clusterName string) error {
	c.ticked = clusterName
	return nil
}

func TestTick(t *testing.T) {
	c := &clock{}
	h := sdktest.New(t)
	if got := h.Configure(c, ""); got.TickPeriodMs != 60_000 {
		t.Errorf("the period is %d", got.TickPeriodMs)
	}
	var done abi.Done
	if err := h.Call(abi.OpTick, &abi.TickRequest{ClusterName: "kubernetes"}, &done); err != nil || !done.Done || c.ticked != "kubernetes" {
		t.Errorf("%v, %v, %q", err, done.Done, c.ticked)
	}
}
