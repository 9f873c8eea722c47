package shadow

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

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
		for _, r := range decoded(t, request, &abi.HttpSendRequest{}).Requests {
			texts = append(texts, answers[r.Url])
		}
		return abi.CodeOK, bodies(texts...)
	})
}

// record lets a generation answer one op and returns its samples.
func record(t testing.TB, real HostCaller, op abi.Op, request []byte, run func(call hostCall, op abi.Op, request []byte) (abi.Code, []byte, error)) []*Sample {
	t.Helper()
	r := NewRecorder(Options{})
	ctx, end := r.Begin(t.Context(), op, request)
	end(guest{Host(real), run}.Ask(ctx, op, request))
	if len(r.Samples()) != 1 {
		t.Fatalf("%d samples, want 1", len(r.Samples()))
	}
	return r.Samples()
}

// forbidden are real host calls that a rehearsal from the record must never reach.
func forbidden(t testing.TB) HostCaller {
	return hostFunc(func(_ context.Context, name string, _ []byte) (abi.Code, []byte) {
		t.Errorf("a rehearsed op reached the real host call %s", name)
		return abi.CodeOK, nil
	})
}

type run = func(call hostCall, op abi.Op, request []byte) (abi.Code, []byte, error)

// rehearse asks a candidate, and where there is one what serves, over the real host calls.
func rehearse(t testing.TB, real HostCaller, questions []Question, candidate, serving run) Report {
	t.Helper()
	r := &Rehearsal{Candidate: guest{Host(real), candidate}, Check: decodes, Concurrency: 2, OwnTime: 10 * time.Second}
	if serving != nil {
		r.Serving = guest{Host(real), serving}
	}
	return r.Run(t.Context(), questions)
}

// decodes takes whatever decodes, but a zone that says that it is none.
func decodes(op abi.Op, response []byte) error {
	_, m := op.New()
	if err := m.UnmarshalVT(response); err != nil {
		return fmt.Errorf("the answer does not decode: %w", err)
	}
	if m, ok := m.(*abi.InstanceMetadataResponse); ok && m.Metadata != nil && m.Metadata.Zone == "invalid" {
		return errors.New("invalid answer")
	}
	return nil
}

// asked are the questions of samples.
func asked(samples []*Sample) (all []Question) {
	for _, s := range samples {
		all = append(all, s.Question())
	}
	return all
}
