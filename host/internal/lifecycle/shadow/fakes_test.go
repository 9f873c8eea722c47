package shadow

import (
	"context"
	"strconv"
	"testing"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/host/test/requests"
)

// hostFunc is the real host calls.
type hostFunc func(ctx context.Context, name string, request []byte) (abi.Code, []byte)

func (f hostFunc) HostCall(ctx context.Context, name string, request []byte) (abi.Code, []byte) {
	return f(ctx, name, request)
}

// guest is a generation: its host calls go through host.
type guest struct {
	host HostCaller
	run  func(call func(name string, request abi.Message) (abi.Code, []byte), op abi.Op, request []byte) (abi.Code, []byte, error)
}

func (g guest) Ask(ctx context.Context, op abi.Op, request []byte) (abi.Code, []byte, error) {
	return g.run(func(name string, request abi.Message) (abi.Code, []byte) {
		return g.host.HostCall(ctx, name, encoded(request))
	}, op, request)
}

type hostCall = func(name string, request abi.Message) (abi.Code, []byte)

func encoded(m abi.Message) []byte {
	data := make([]byte, m.SizeVT())
	if _, err := m.MarshalToSizedBufferVT(data); err != nil {
		panic(err)
	}
	return data
}

func decoded[T abi.Message](t testing.TB, data []byte, m T) T {
	t.Helper()
	if err := m.UnmarshalVT(data); err != nil {
		t.Fatal(err)
	}
	return m
}

func aboutNode(name string) []byte {
	return encoded(requests.Instance(name))
}

func metadata(zone string) []byte {
	return encoded(&abi.InstanceMetadataResponse{Metadata: &abi.InstanceMetadata{ProviderId: "x://1", Zone: zone}})
}

func get(url string) *abi.HttpSendRequest {
	return &abi.HttpSendRequest{Requests: []*abi.HttpRequest{{Method: "GET", Url: url}}}
}

func bodies(texts ...string) []byte {
	r := &abi.HttpSendResponse{}
	for _, text := range texts {
		r.Results = append(r.Results, &abi.HttpResult{Response: &abi.HttpResponse{Status: 200, Body: []byte(text)}})
	}
	return encoded(r)
}

// cloud answers each HTTP request with its URL's answer, and counts calls.
func cloud(t testing.TB, answers map[string]string, calls *[]string) HostCaller {
	return hostFunc(func(_ context.Context, name string, request []byte) (abi.Code, []byte) {
		*calls = append(*calls, name)
		if name != abi.CapabilityHTTP {
			return abi.CodeOK, nil
		}
		var texts []string
		for _, r := range decoded(t, request, &abi.HttpSendRequest{}).GetRequests() {
			texts = append(texts, answers[r.GetUrl()])
		}
		return abi.CodeOK, bodies(texts...)
	})
}

// record lets a generation answer one op and returns its samples.
func record(t testing.TB, real HostCaller, op abi.Op, request []byte, run func(call hostCall, op abi.Op, request []byte) (abi.Code, []byte, error)) []*Sample {
	t.Helper()
	r := NewRecorder(Options{})
	ctx, end := r.Begin(t.Context(), op, request)
	end(guest{Host(real, positionOf), run}.Ask(ctx, op, request))
	if len(r.Samples()) != 1 {
		t.Fatalf("%d samples, want 1", len(r.Samples()))
	}
	return r.Samples()
}

// positionOf takes a cursor for a decimal number.
func positionOf(cursor []byte) uint64 {
	n, _ := strconv.ParseUint(string(cursor), 10, 64) // 0 if it is none
	return n
}

// forbidden are real host calls that a replay must never reach.
func forbidden(t testing.TB) HostCaller {
	return hostFunc(func(_ context.Context, name string, _ []byte) (abi.Code, []byte) {
		t.Errorf("a replayed op reached the real host call %s", name)
		return abi.CodeOK, nil
	})
}

func replay(t testing.TB, samples []*Sample, run func(call hostCall, op abi.Op, request []byte) (abi.Code, []byte, error)) Report {
	t.Helper()
	return Replay(t.Context(), samples, guest{Host(forbidden(t), positionOf), run}, ReplayOptions{})
}
