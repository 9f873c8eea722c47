// Package sdktest is a host in memory, for testing a provider with plain `go
// test`:
//
// h := sdktest.New(t) h.Configure(&provider{}, "url: https://api.example.com")
// h.HTTP = func(req *abi.HttpRequest) (*abi.HttpResponse, error) { ... } var
// resp abi.InstanceExistsResponse err := h.Call(abi.OpInstanceExists,
// &abi.InstanceRequest{Node: node}, &resp)
//
// Call runs an op as the manager does, without WebAssembly: the messages are
// encoded and decoded on both sides, and the SDK's checks apply. The methods of
// a provider can be called directly, too, with h.Op().
package sdktest

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/guests/sdk"
)

// Host is a host in memory. Its fields may be set between ops. Several hosts
// can share one Store, as the instances of a guest and several managers do. A
// Host runs one op at a time; hosts are independent of each other.
type Host struct {
	// HTTP answers each request of http_send. Nil answers CodeDenied.
	HTTP func(req *abi.HttpRequest) (*abi.HttpResponse, error)
	// Kube answers each request of kube. Nil answers CodeDenied.
	Kube func(req *abi.KubeRequest) (*abi.KubeResponse, error)
	// Store is the content of the capability store.
	Store *Store
	// Clock and Time are the results of Now and Left.
	Clock time.Time
	Time  time.Duration
	// NodesPage is the most nodes in one page, 2 by default, so that tests of
	// providers have a second page.
	NodesPage int

	t      testing.TB
	op     *sdk.Op
	server *sdk.Server
	nodes  []*abi.Node
	cache  map[string]cached
	logs   []Line
	events []*abi.EventRequest
}

type cached struct {
	value   []byte
	expires time.Time
}

// Line is a line of the log: "SEVERITY message key=value ...".
type Line = string

// New returns a host with an empty store and cache and without nodes.
func New(t testing.TB) *Host {
	h := &Host{
		t: t, Store: NewStore(), Clock: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Time: 30 * time.Second,
		NodesPage: 2, cache: map[string]cached{},
	}
	h.op = sdk.NewOp(h)
	return h
}

// Op returns the op for calling a provider's methods.
func (h *Host) Op() *sdk.Op { return h.op }

// Serve sets the provider of Call, without configuring it.
func (h *Host) Serve(p sdk.Provider) { h.server = sdk.NewServer(p) }

// Configure sets the provider and configures it. An error of the provider ends
// the test.
func (h *Host) Configure(p sdk.Provider, config string) *abi.ConfigureResponse {
	h.t.Helper()
	h.Serve(p)
	var resp abi.ConfigureResponse
	if err := h.Call(abi.OpConfigure, &abi.ConfigureRequest{Config: []byte(config), ClusterName: "kubernetes"}, &resp); err != nil {
		h.t.Fatalf("configure: %v", err)
	}
	return &resp
}

// Call runs one op on the provider. The error is an *abi.Error as the manager
// gets it.
func (h *Host) Call(op abi.Op, req, resp abi.Message) error {
	h.t.Helper()
	if h.server == nil {
		h.t.Fatal("no provider: call Serve or Configure first")
	}
	code, answer := h.server.Call(h.op, op, h.encode(req))
	if code == abi.CodeOK {
		h.record(op, answer)
		h.decode(answer, resp)
		return nil
	}
	var detail abi.ErrorDetail
	h.decode(answer, &detail)
	return &abi.Error{Code: code, Message: detail.Message, RetryAfter: time.Duration(detail.RetryAfterMs) * time.Millisecond}
}

// Nodes sets the nodes of the following ops and returns their snapshot, for the
// requests.
func (h *Host) Nodes(nodes ...*abi.Node) *abi.NodeSnapshot {
	h.nodes = nodes
	return &abi.NodeSnapshot{Id: 1, Count: uint32(len(nodes))}
}

// Logs returns all lines so far.
func (h *Host) Logs() []Line { return slices.Clone(h.logs) }

// Events returns all events so far.
func (h *Host) Events() []*abi.EventRequest { return slices.Clone(h.events) }

// Now implements sdk.Host.
func (h *Host) Now() time.Time { return h.Clock }

// Left implements sdk.Host.
func (h *Host) Left() time.Duration { return h.Time }

// HostCall implements sdk.Host.
func (h *Host) HostCall(name string, request []byte) (abi.Code, []byte) {
	resp, err := h.answer(name, request)
	if err != nil {
		code := sdk.CodeOf(err)
		return code, h.encode(&abi.ErrorDetail{Message: err.Error()})
	}
	if resp == nil {
		return abi.CodeOK, nil
	}
	return abi.CodeOK, h.encode(resp)
}

func (h *Host) answer(name string, request []byte) (abi.Message, error) {
	switch name {
	case abi.ImportLog:
		var req abi.LogRequest
		h.decode(request, &req)
		h.logs = append(h.logs, lineOf(&req))
		return nil, nil
	case abi.CapabilityEvent:
		req := &abi.EventRequest{}
		h.decode(request, req)
		h.events = append(h.events, req)
		return nil, nil
	case abi.CapabilityHTTP:
		return h.sendHTTP(request)
	case abi.CapabilityKube:
		return h.askKube(request)
	case abi.CapabilityStore:
		var req abi.StoreRequest
		h.decode(request, &req)
		return h.Store.answer(&req)
	case abi.CapabilityCache:
		return h.useCache(request)
	case abi.CapabilityNodes:
		return h.pageOfNodes(request)
	}
	return nil, fmt.Errorf("sdktest: there is no host call %q", name)
}

func lineOf(req *abi.LogRequest) Line {
	severity := strings.TrimPrefix(req.Severity.String(), "SEVERITY_")
	var b strings.Builder
	b.WriteString(severity + " " + req.Message)
	for _, kv := range req.Values {
		b.WriteString(" " + kv.Key + "=" + kv.Value)
	}
	return b.String()
}

func (h *Host) sendHTTP(request []byte) (abi.Message, error) {
	var req abi.HttpSendRequest
	h.decode(request, &req)
	if n := len(req.Requests); n == 0 || n > abi.MaxHTTPBatch {
		return nil, &abi.Error{Code: abi.CodeInvalid, Message: fmt.Sprintf("%d requests in a batch", n)}
	}
	resp := &abi.HttpSendResponse{}
	for _, r := range req.Requests {
		resp.Results = append(resp.Results, h.result(r))
	}
	return resp, nil
}

func (h *Host) result(req *abi.HttpRequest) *abi.HttpResult {
	err := error(&abi.Error{Code: abi.CodeDenied, Message: "sdktest: Host.HTTP is not set"})
	var resp *abi.HttpResponse
	if h.HTTP != nil {
		resp, err = h.HTTP(req)
	}
	return httpResult(resp, err)
}

func httpResult(resp *abi.HttpResponse, err error) *abi.HttpResult {
	if err != nil {
		return &abi.HttpResult{Code: uint32(sdk.CodeOf(err)), Error: &abi.ErrorDetail{Message: err.Error()}}
	}
	return &abi.HttpResult{Response: resp}
}

func (h *Host) askKube(request []byte) (abi.Message, error) {
	req := &abi.KubeRequest{}
	h.decode(request, req)
	if h.Kube == nil {
		return nil, &abi.Error{Code: abi.CodeDenied, Message: "sdktest: Host.Kube is not set"}
	}
	resp, err := h.Kube(req)
	if err != nil || resp == nil {
		return nil, err
	}
	return resp, nil
}

func (h *Host) useCache(request []byte) (abi.Message, error) {
	var req abi.CacheRequest
	h.decode(request, &req)
	if req.Put != nil {
		ttl := time.Duration(req.Put.TtlMs) * time.Millisecond
		h.cache[req.Key] = cached{slices.Clone(req.Put.Value), h.Clock.Add(ttl)}
		return &abi.CacheResponse{}, nil
	}
	c, found := h.cache[req.Key]
	if !found || !h.Clock.Before(c.expires) {
		return &abi.CacheResponse{}, nil
	}
	return &abi.CacheResponse{Found: true, Value: c.value}, nil
}

func (h *Host) pageOfNodes(request []byte) (abi.Message, error) {
	var req abi.NodesRequest
	h.decode(request, &req)
	if req.SnapshotId != 1 {
		return nil, &abi.Error{Code: abi.CodeNotFound, Message: "the op has no such snapshot"}
	}
	start := min(int(req.Offset), len(h.nodes))
	end := min(start+max(h.NodesPage, 1), len(h.nodes))
	resp := &abi.NodesResponse{Total: uint32(len(h.nodes))}
	for _, node := range h.nodes[start:end] {
		resp.Nodes = append(resp.Nodes, withFields(node, req.Fields))
	}
	return resp, nil
}

// withFields copies only the selected fields, as the manager does.
func withFields(node *abi.Node, fields []uint32) *abi.Node {
	if len(fields) == 0 {
		return node
	}
	out := &abi.Node{}
	for _, field := range fields {
		switch sdk.NodeField(field) {
		case sdk.NodeName:
			out.Name = node.Name
		case sdk.NodeProviderID:
			out.ProviderId = node.ProviderId
		case sdk.NodeLabels:
			out.Labels = node.Labels
		case sdk.NodeAnnotations:
			out.Annotations = node.Annotations
		case sdk.NodeAddresses:
			out.Addresses = node.Addresses
		case sdk.NodePodCIDRs:
			out.PodCidrs = node.PodCidrs
		case sdk.NodeUID:
			out.Uid = node.Uid
		case sdk.NodeSystemUUID:
			out.SystemUuid = node.SystemUuid
		case sdk.NodeMachineID:
			out.MachineId = node.MachineId
		}
	}
	return out
}

func (h *Host) encode(m abi.Message) []byte {
	h.t.Helper()
	return encode(h.t, m)
}

func (h *Host) decode(data []byte, m abi.Message) {
	h.t.Helper()
	decode(h.t, data, m)
}

func encode(t testing.TB, m abi.Message) []byte {
	t.Helper()
	data := make([]byte, m.SizeVT())
	if _, err := m.MarshalToSizedBufferVT(data); err != nil {
		t.Fatalf("sdktest: encode %T: %v", m, err)
	}
	return data
}

func decode(t testing.TB, data []byte, m abi.Message) {
	t.Helper()
	reflect.ValueOf(m).Elem().SetZero()
	if err := m.UnmarshalVT(data); err != nil {
		t.Fatalf("sdktest: decode %T: %v", m, err)
	}
}
