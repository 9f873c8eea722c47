package sdk_test

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"flag"
	"net/http"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/guests/sdk"
	"github.com/wasm-ccm/wasm-ccm/guests/sdk/sdktest"
)

var update = flag.Bool("update", false, "write testdata/abi/conversations.json instead of comparing with it")

const conversationsFile = "../../testdata/abi/conversations.json"

// conversation is all that host and guest say to each other in one instance,
// after _initialize; testdata/abi/README.md explains it.
type conversation struct {
	Name string `json:"name"`
	Ops  []said `json:"ops"`
}

// said is an op, or a host call of it.
type said struct {
	Op        uint32  `json:"op,omitempty"`
	Name      string  `json:"name"`
	Why       string  `json:"why,omitempty"`
	Request   encoded `json:"request"`
	HostCalls []said  `json:"hostCalls,omitempty"`
	Code      uint32  `json:"code"`
	Answer    encoded `json:"answer,omitzero"`
}

type encoded struct {
	Message string `json:"message"`
	Hex     string `json:"hex"`
}

func encodedAs(message string, data []byte) encoded {
	return encoded{message, hex.EncodeToString(data)}
}

// recorder is a host that keeps the bytes of the conversation.
type recorder struct {
	*sdktest.Host
	server *sdk.Server
	calls  []said
}

// HostCall implements sdk.Host.
func (r *recorder) HostCall(name string, request []byte) (abi.Code, []byte) {
	code, result := r.Host.HostCall(name, request)
	message := ""
	for word := range strings.SplitSeq(name, "_") {
		message += strings.ToUpper(word[:1]) + word[1:]
	}
	call := said{Name: name, Request: encodedAs(message+"Request", request), Code: uint32(code)}
	switch {
	case code != abi.CodeOK:
		call.Answer = encodedAs("ErrorDetail", result)
	case name != abi.ImportLog:
		call.Answer = encodedAs(message+"Response", result)
	}
	r.calls = append(r.calls, call)
	return code, result
}

func (r *recorder) ask(t *testing.T, why string, op abi.Op, request abi.Message) said {
	t.Helper()
	data := make([]byte, request.SizeVT())
	if _, err := request.MarshalToSizedBufferVT(data); err != nil {
		t.Fatal(err)
	}
	r.calls = nil
	code, answer := r.server.Call(sdk.NewOp(r), op, data)
	nameOf := func(m abi.Message) string { return reflect.TypeOf(m).Elem().Name() }
	_, response := op.New()
	one := said{Op: uint32(op), Name: op.String(), Why: why, Request: encodedAs(nameOf(request), data), HostCalls: r.calls, Code: uint32(code), Answer: encodedAs(nameOf(response), answer)}
	if code != abi.CodeOK {
		one.Answer.Message = "ErrorDetail"
	}
	return one
}

// api is a cloud with one server, m1, that is busy at the second question for it.
func api() func(*abi.HttpRequest) (*abi.HttpResponse, error) {
	asked := 0
	return func(req *abi.HttpRequest) (*abi.HttpResponse, error) {
		switch {
		case req.Method == http.MethodPut:
			return &abi.HttpResponse{Status: 201, Body: []byte("created")}, nil
		case !strings.HasSuffix(req.Url, "/servers/m1"):
			return &abi.HttpResponse{Status: 404, Body: []byte("no such server")}, nil
		}
		if asked++; asked == 2 {
			return &abi.HttpResponse{Status: 503, Body: []byte("busy")}, nil
		}
		return &abi.HttpResponse{Status: 200, Body: []byte("m1")}, nil
	}
}

// talker is a provider whose ops make host calls.
func talker() sdk.Provider {
	url := ""
	send := func(op *sdk.Op, method, path, body string) (int32, error) {
		resp, err := op.HTTP().Do(&abi.HttpRequest{Method: method, Url: url + path, Credential: "api-token", Body: []byte(body)})
		if err != nil {
			return 0, err
		}
		if resp.Status >= 500 {
			err = sdk.Error(abi.CodeUnavailable, method+" "+path+": the cloud answered 503: "+string(resp.Body))
		}
		return resp.Status, err
	}
	return &whole{
		base: base{configure: func(op *sdk.Op, config sdk.Config) (sdk.Configured, error) {
			if url = string(config.Bytes); !strings.HasPrefix(url, "https://") {
				return sdk.Configured{}, sdk.Invalidf("line 1: %q is not the URL of an API", url)
			}
			op.Info("configured", "url", url)
			return sdk.Configured{}, nil
		}},
		exists: func(op *sdk.Op, node *abi.Node) (sdk.Existence, error) {
			status, err := send(op, http.MethodGet, "/servers/"+node.Name, "")
			switch {
			case err != nil:
				return 0, err
			case status == 404:
				return sdk.DoesNotExist, nil
			}
			return sdk.Exists, nil
		},
		ensure: func(op *sdk.Op, req *abi.LoadBalancerRequest) (*abi.LoadBalancerStatus, error) {
			var servers []string
			for node, err := range op.Nodes(req.Nodes, sdk.NodeName) {
				if err != nil {
					return nil, err
				}
				servers = append(servers, node.Name)
			}
			err := op.Store().Update("address.", func([]*abi.StoreEntry) (sdk.Change, error) {
				return sdk.Change{Put: []*abi.StoreEntry{{Key: "address." + req.Service.Uid, Value: []byte("192.0.2.1")}}}, nil
			})
			if err == nil {
				_, err = send(op, http.MethodPut, "/balancers/"+req.Service.Uid, strings.Join(servers, ","))
			}
			return &abi.LoadBalancerStatus{Ingress: []*abi.LoadBalancerIngress{{Ip: "192.0.2.1"}}}, err
		},
	}
}

func converse(t *testing.T) []conversation {
	begin := func() *recorder {
		r := &recorder{Host: sdktest.New(t), server: sdk.NewServer(talker())}
		r.HTTP = api()
		return r
	}
	configure := func(config string) *abi.ConfigureRequest {
		return &abi.ConfigureRequest{Config: []byte(config), ClusterName: "kubernetes"}
	}
	node := func(name string) *abi.InstanceRequest { return &abi.InstanceRequest{Node: &abi.Node{Name: name}} }
	r, refused := begin(), begin()
	service := &abi.LoadBalancerRequest{
		ClusterName: "kubernetes", Nodes: r.Nodes(&abi.Node{Name: "m1"}, &abi.Node{Name: "m2"}, &abi.Node{Name: "m3"}),
		Service: &abi.Service{Namespace: "default", Name: "web", Uid: "u1", Ports: []*abi.ServicePort{{Name: "http", Protocol: "TCP", Port: 80, NodePort: 30080}}},
	}
	return []conversation{
		{"a Node and a Service", []said{
			r.ask(t, "no configuration is needed", abi.OpDescribe, &abi.DescribeRequest{AbiVersion: abi.Version, HostVersion: "v0.1.0"}),
			r.ask(t, "the only host call here may be log, which has no result", abi.OpConfigure, configure("https://api.example.com")),
			r.ask(t, "", abi.OpProbe, &abi.ProbeRequest{}),
			r.ask(t, "the cloud answers 200", abi.OpInstanceExists, node("m1")),
			r.ask(t, "the cloud says 404: the host may delete the Node", abi.OpInstanceExists, node("m9")),
			r.ask(t, "the cloud answers 503: an error, not an answer", abi.OpInstanceExists, node("m1")),
			r.ask(t, "two pages of nodes, a read and a write of the store, a request", abi.OpLoadBalancerEnsure, service),
			r.ask(t, "not in the manifest", abi.OpTick, &abi.TickRequest{ClusterName: "kubernetes"}),
		}},
		{"a refused configuration", []said{
			refused.ask(t, "", abi.OpDescribe, &abi.DescribeRequest{AbiVersion: abi.Version, HostVersion: "v0.1.0"}),
			refused.ask(t, "the instance gets no other op", abi.OpConfigure, configure("api.example.com")),
		}},
	}
}

// TestConversations: the file is what host and SDK say to each other.
func TestConversations(t *testing.T) {
	var made bytes.Buffer
	encoder := json.NewEncoder(&made)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(converse(t)); err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(conversationsFile, made.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	stored, err := os.ReadFile(conversationsFile)
	if err != nil || !bytes.Equal(stored, made.Bytes()) {
		t.Errorf("%s is not what is said (%v): if that is meant, go test ./sdk -run TestConversations -update", conversationsFile, err)
	}
}
