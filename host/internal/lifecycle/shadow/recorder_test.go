package shadow

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/host/test/requests"
)

func TestOnlyReadOnlyOpsAreRecorded(t *testing.T) {
	want := map[string]bool{
		"instance_exists": true, "instance_shutdown": true, "instance_metadata": true, "list_instances": true,
		"lb_get": true, "lb_name": true, "route_list": true, "volume_labels": true,
	}
	for _, op := range abi.Ops() {
		r := NewRecorder(Options{})
		ctx, end := r.Begin(t.Context(), op, nil)
		end(abi.CodeOK, []byte{}, nil)
		if recorded := len(r.Samples()) == 1; recorded != want[op.String()] {
			t.Errorf("%s: recorded is %v", op, recorded)
		}
		if same := ctx == t.Context(); same == want[op.String()] {
			t.Errorf("%s: the same context is %v", op, same)
		}
	}
}

func TestOnlyProperAnswersAreSamples(t *testing.T) {
	proper := map[abi.Code]bool{
		abi.CodeOK: true, abi.CodeInvalid: true, abi.CodeNotFound: true, abi.CodeInstanceNotFound: true,
		abi.CodeNotImplemented: true, abi.CodeImplementedElsewhere: true,
	}
	kept := func(code abi.Code, response []byte, err error) bool {
		r := NewRecorder(Options{})
		_, end := r.Begin(t.Context(), abi.OpInstanceExists, aboutNode("n"))
		end(code, response, err)
		return len(r.Samples()) == 1
	}
	for code := abi.CodeOK; code <= abi.CodeUnavailable+1; code++ {
		if got := kept(code, []byte{8, 1}, nil); got != proper[code] {
			t.Errorf("%s: kept is %v", code, got)
		}
		if got := kept(0, nil, fmt.Errorf("op: %w", &abi.Error{Code: code})); got != proper[code] {
			t.Errorf("%s as an error: kept is %v", code, got)
		}
	}
	if kept(abi.CodeOK, []byte{8, 1}, errors.New("trap")) {
		t.Error("a trap is kept")
	}
	if kept(abi.CodeOK, nil, nil) {
		t.Error("success without a response is kept")
	}
}

func keep(r *Recorder, op abi.Op, request, response []byte) {
	_, end := r.Begin(context.Background(), op, request)
	end(abi.CodeOK, response, nil)
}

func TestSamplesAreTheNewestOnePerRequest(t *testing.T) {
	r := NewRecorder(Options{})
	keep(r, abi.OpInstanceMetadata, aboutNode("a"), metadata("1"))
	keep(r, abi.OpInstanceMetadata, aboutNode("b"), metadata("1"))
	keep(r, abi.OpInstanceMetadata, aboutNode("a"), metadata("2"))
	samples := r.Samples()
	if len(samples) != 2 || samples[0].Question().object() != "a" || samples[1].Question().object() != "b" {
		t.Fatalf("samples are %v", samples)
	}
	if samples[0].response != string(metadata("2")) {
		t.Error("the older answer was kept")
	}
}

func TestAnOftenAskedOpDoesNotCrowdOutOthers(t *testing.T) {
	r := NewRecorder(Options{MaxSamples: 8})
	keep(r, abi.OpRouteList, nil, []byte{16, 1})
	for i := range 100 {
		keep(r, abi.OpInstanceExists, aboutNode(fmt.Sprint("n", i)), []byte{8, 1})
	}
	samples := r.Samples()
	if len(samples) != 8 || samples[7].Question().Op != abi.OpRouteList || samples[0].Question().object() != "n99" || samples[6].Question().object() != "n93" {
		t.Fatalf("%d samples, the last is %s", len(samples), samples[len(samples)-1].Question())
	}
}

func TestBytesAreBounded(t *testing.T) {
	r := NewRecorder(Options{MaxSamples: 1000, MaxBytes: 64 << 10, MaxSampleBytes: 8 << 10})
	for i := range 100 {
		keep(r, abi.OpInstanceExists, aboutNode(fmt.Sprint("n", i)), make([]byte, 4<<10))
	}
	total := 0
	for _, s := range r.Samples() {
		total += s.bytes
	}
	if total > 64<<10 || total < 48<<10 {
		t.Errorf("%d bytes in samples", total)
	}
}

func TestALargeSampleIsNotKept(t *testing.T) {
	big := make([]byte, 4<<10)
	tests := map[string]func(r *Recorder){
		"request":  func(r *Recorder) { keep(r, abi.OpInstanceExists, big, []byte{8, 1}) },
		"response": func(r *Recorder) { keep(r, abi.OpInstanceExists, nil, big) },
		"host call": func(r *Recorder) {
			ctx, end := r.Begin(t.Context(), abi.OpInstanceExists, nil)
			host := Host(hostFunc(func(context.Context, string, []byte) (abi.Code, []byte) { return abi.CodeOK, big }))
			host.HostCall(ctx, abi.CapabilityHTTP, nil)
			host.HostCall(ctx, abi.CapabilityNodes, nil)
			end(abi.CodeOK, []byte{8, 1}, nil)
		},
	}
	for name, run := range tests {
		r := NewRecorder(Options{MaxSampleBytes: 4 << 10})
		if run(r); len(r.Samples()) != 0 {
			t.Errorf("%s: a sample over the limit is kept", name)
		}
	}
}

func TestResetForgetsOpsUnderWayToo(t *testing.T) {
	r := NewRecorder(Options{})
	keep(r, abi.OpInstanceExists, nil, []byte{8, 1})
	_, end := r.Begin(t.Context(), abi.OpInstanceExists, aboutNode("of the generation before"))
	r.Reset()
	end(abi.CodeOK, []byte{8, 1}, nil)
	if len(r.Samples()) != 0 {
		t.Error("a sample of the generation before is kept")
	}
	if keep(r, abi.OpInstanceExists, nil, []byte{8, 1}); len(r.Samples()) != 1 {
		t.Error("nothing is recorded after a reset")
	}
}

func TestASampleKeepsNothingOfTheCaller(t *testing.T) {
	r := NewRecorder(Options{})
	request, response, result := aboutNode("n"), metadata("a"), []byte("value")
	ctx, end := r.Begin(t.Context(), abi.OpInstanceMetadata, request)
	host := Host(hostFunc(func(context.Context, string, []byte) (abi.Code, []byte) { return abi.CodeOK, result }))
	_, got := host.HostCall(ctx, abi.CapabilityNodes, nil)
	if &got[0] != &result[0] {
		t.Error("the guest did not get what the host answered")
	}
	end(abi.CodeOK, response, nil)
	end(abi.CodeNotFound, nil, nil) // once more does nothing
	host.HostCall(ctx, abi.CapabilityNodes, nil)
	for _, b := range [][]byte{request, response, result} {
		clear(b)
	}
	s := r.Samples()[0]
	if s.Question().object() != "n" || !bytes.Equal([]byte(s.response), metadata("a")) || len(s.calls) != 1 || s.calls[0].result != "value" {
		t.Errorf("the sample has changed: %+v", s)
	}
}

func TestRecorderConcurrently(t *testing.T) {
	r := NewRecorder(Options{MaxSamples: 16})
	host := Host(hostFunc(func(context.Context, string, []byte) (abi.Code, []byte) { return abi.CodeOK, []byte("x") }))
	asker := guest{host, func(call hostCall, _ abi.Op, _ []byte) (abi.Code, []byte, error) {
		call(abi.CapabilityHTTP, get("https://cloud/x"))
		return abi.CodeOK, metadata("a"), nil
	}}
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for j := range 200 {
				request := aboutNode(fmt.Sprint(i, j%20))
				ctx, end := r.Begin(t.Context(), abi.OpInstanceMetadata, request)
				end(asker.Ask(ctx, abi.OpInstanceMetadata, request))
				if j%50 == 0 {
					rehearse(t, hostFunc(func(context.Context, string, []byte) (abi.Code, []byte) { return abi.CodeOK, []byte("x") }), asked(r.Samples()), asker.run, nil)
				}
			}
		})
	}
	wg.Wait()
	if len(r.Samples()) != 16 {
		t.Errorf("%d samples, want 16", len(r.Samples()))
	}
}

func BenchmarkRecord(b *testing.B) {
	request, response, asked, result := aboutNode("node-1"), metadata("a"), encoded(get("https://cloud/servers/1")), bodies(string(make([]byte, 1000)))
	host := Host(hostFunc(func(context.Context, string, []byte) (abi.Code, []byte) { return abi.CodeOK, result }))
	run := func(b *testing.B, begin func(context.Context) (context.Context, func(abi.Code, []byte, error))) {
		b.ReportAllocs()
		for b.Loop() {
			ctx, end := begin(context.Background())
			host.HostCall(ctx, abi.CapabilityHTTP, asked)
			host.HostCall(ctx, abi.CapabilityHTTP, asked)
			end(abi.CodeOK, response, nil)
		}
	}
	b.Run("off", func(b *testing.B) {
		run(b, func(ctx context.Context) (context.Context, func(abi.Code, []byte, error)) {
			return ctx, func(abi.Code, []byte, error) {}
		})
	})
	r := NewRecorder(Options{})
	for i := range 100 {
		keep(r, abi.OpInstanceExists, aboutNode(fmt.Sprint(i)), []byte{8, 1})
	}
	b.Run("on", func(b *testing.B) {
		run(b, func(ctx context.Context) (context.Context, func(abi.Code, []byte, error)) {
			return r.Begin(ctx, abi.OpInstanceMetadata, request)
		})
	})
}

// A Node or Service as kubeadm or a chart makes it has several labels, which
// are encoded in another order each time: it is one question all the same.
func TestOneSampleForEachQuestion(t *testing.T) {
	about := map[string]*abi.InstanceRequest{"node-12": requests.Instance("node-12"), "node-21": requests.Instance("node-21")}
	web := requests.LoadBalancer("shop", "web")
	r := NewRecorder(Options{})
	ask := func(op abi.Op, m abi.Message) {
		request := make([]byte, m.SizeVT())
		if _, err := m.MarshalToSizedBufferVT(request); err != nil {
			t.Fatal(err)
		}
		_, end := r.Begin(t.Context(), op, request)
		end(abi.CodeOK, []byte{}, nil)
	}
	for range 100 {
		for _, name := range []string{"node-12", "node-21"} {
			ask(abi.OpInstanceMetadata, about[name])
			ask(abi.OpInstanceExists, about[name])
		}
		ask(abi.OpLoadBalancerGet, web)
	}
	if n := len(r.Samples()); n != 5 {
		t.Errorf("%d samples of 5 questions", n)
	}
}

// A Service that was changed is the same Service: what was asked of it before
// says nothing any more, and takes no place of others. Pages are questions of
// their own.
func TestTheNewestQuestionAboutAnObject(t *testing.T) {
	r := NewRecorder(Options{})
	for i := range 3 {
		changed := requests.LoadBalancer("shop", "web", func(s *corev1.Service) { s.Annotations["example.com/checksum"] = fmt.Sprint(i) })
		keep(r, abi.OpLoadBalancerGet, encoded(changed), []byte{})
		keep(r, abi.OpListInstances, encoded(&abi.ListInstancesRequest{PageToken: fmt.Sprint(i)}), []byte{})
	}
	services := slices.DeleteFunc(r.Samples(), func(s *Sample) bool { return s.op != abi.OpLoadBalancerGet })
	if len(services) != 1 || !strings.Contains(services[0].request, "checksum\x12\x012") {
		t.Errorf("%d samples of one Service, want the newest", len(services))
	}
	if pages := len(r.Samples()) - len(services); pages != 3 {
		t.Errorf("%d samples of 3 pages", pages)
	}
}

// The name is found where each kind of request has it.
func TestObjectOfARequest(t *testing.T) {
	for _, test := range []struct {
		op      abi.Op
		request abi.Message
		want    string
	}{
		{abi.OpInstanceExists, requests.Instance("node-1"), "node-1"},
		{abi.OpInstanceMetadata, requests.Instance("nöde"), "nöde"},
		{abi.OpInstanceMetadata, &abi.InstanceRequest{}, ""},
		{abi.OpListInstances, &abi.ListInstancesRequest{PageToken: "\x0a\x01x", PageSize: 7}, ""},
		{abi.OpLoadBalancerGet, requests.LoadBalancer("shop", "web"), "shop/web"},
		{abi.OpLoadBalancerGet, &abi.LoadBalancerRequest{ClusterName: "c"}, ""},
		{abi.OpVolumeLabels, requests.VolumeLabels("pv-1"), "pv-1"},
		{abi.OpRouteList, &abi.RouteListRequest{ClusterName: "c"}, ""},
	} {
		if got := objectOf(test.op, encoded(test.request)); got != test.want {
			t.Errorf("%s: %q, want %q", test.op, got, test.want)
		}
	}
}
