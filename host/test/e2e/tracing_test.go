package e2e

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	trace "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// traces is a collector of OTLP, by gRPC on loopback.
type traces struct {
	collector.UnimplementedTraceServiceServer
	address string

	mu    sync.Mutex
	spans []*trace.Span
	from  map[string]bool // service.name
}

func newTraces(t *testing.T) *traces {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &traces{address: l.Addr().String(), from: map[string]bool{}}
	server := grpc.NewServer()
	collector.RegisterTraceServiceServer(server, c)
	go func() { _ = server.Serve(l) }() // ends with Stop
	t.Cleanup(server.Stop)
	return c
}

// Export is the collector's.
func (c *traces) Export(_ context.Context, r *collector.ExportTraceServiceRequest) (*collector.ExportTraceServiceResponse, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, of := range r.GetResourceSpans() {
		c.from[attribute(of.GetResource().GetAttributes(), "service.name")] = true
		for _, s := range of.GetScopeSpans() {
			c.spans = append(c.spans, s.GetSpans()...)
		}
	}
	return &collector.ExportTraceServiceResponse{}, nil
}

func attribute(all []*common.KeyValue, key string) string {
	for _, kv := range all {
		if kv.GetKey() != key {
			continue
		}
		switch v := kv.GetValue().GetValue().(type) {
		case *common.AnyValue_StringValue:
			return v.StringValue
		case *common.AnyValue_IntValue:
			return fmt.Sprint(v.IntValue)
		}
	}
	return ""
}

// way returns a span about a Service with the spans above it, the outermost first, by the beginning of its name.
func (c *traces) way(name, object string) (way []*trace.Span) {
	c.mu.Lock()
	defer c.mu.Unlock()
	i := slices.IndexFunc(c.spans, func(s *trace.Span) bool {
		return strings.HasPrefix(s.GetName(), name) && attribute(s.GetAttributes(), "wasm_ccm.object") == object
	})
	for i >= 0 {
		s := c.spans[i]
		way = slices.Insert(way, 0, s)
		i = slices.IndexFunc(c.spans, func(x *trace.Span) bool { return slices.Equal(x.GetSpanId(), s.GetParentSpanId()) })
	}
	return way
}

// A Service is one trace from the call of the loop through the op to each request
// to the cloud, as a collector gets it. The cloud gets nothing of it.
func TestTraceOfAService(t *testing.T) {
	t.Parallel() // it has a control plane of its own
	r, ctx, c := newRig(t, "traces"), t.Context(), newTraces(t)
	var headers http.Header
	var seen sync.Mutex
	before := r.cloud.server.Handler
	r.cloud.server.Handler = http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		seen.Lock()
		headers = q.Header.Clone()
		seen.Unlock()
		before.ServeHTTP(w, q)
	})
	module := r.wasm(t, "faulty.wasm")
	r.put(ctx, t, configMap, module, "count="+r.url("a"))
	m := r.startManager(t, "a", r.hostConfiguration(t, strings.TrimRight(oneProvider, "\n")+"\ntracing: {endpoint: "+c.address+", samplingRatePerMillion: 1000000}\n"))
	r.awaitServing(ctx, t, m, module)
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, Ports: []corev1.ServicePort{{Port: 80}}}}
	if _, err := r.client.CoreV1().Services(r.namespace).Create(ctx, service, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	object := "Service " + r.namespace + "/web"
	var way []*trace.Span
	r.until(ctx, t, m, "a trace down to a request that changes the cloud", func() (bool, string) {
		for _, method := range []string{"PUT ", "POST "} {
			if way = c.way(method, object); len(way) == 3 {
				return true, ""
			}
		}
		return false, fmt.Sprint(len(way))
	})
	loop, op, request := way[0], way[1], way[2]
	if loop.GetName() != "EnsureLoadBalancer" || op.GetName() != "lb_ensure" || !c.from["wasm-cloud-controller-manager"] {
		t.Errorf("%s, %s, %s, from %v", loop.GetName(), op.GetName(), request.GetName(), c.from)
	}
	for key, want := range map[string]string{
		"wasm_ccm.provider": "a", "wasm_ccm.op": "lb_ensure", "wasm_ccm.generation": "1", "wasm_ccm.object": object,
		"server.address": "127.0.0.1", "server.port": r.cloud.port, "http.response.status_code": "200",
	} {
		if got := attribute(request.GetAttributes(), key); got != want {
			t.Errorf("%s of the request is %q, want %q", key, got, want)
		}
	}
	seen.Lock()
	defer seen.Unlock()
	if len(headers) == 0 || headers.Get("Traceparent") != "" || headers.Get("Baggage") != "" {
		t.Errorf("the cloud got %v", headers)
	}
	t.Run("exemplar", func(t *testing.T) { r.exemplar(t, m) })
	if file := os.Getenv("TRACE_REPORT"); file != "" {
		c.report(t, file, way)
	}
}

// report writes a trace down as the collector got it.
func (c *traces) report(t *testing.T, file string, way []*trace.Span) {
	t.Helper()
	var out strings.Builder
	for depth, s := range way {
		fmt.Fprintf(&out, "%s%s  %.1f ms  trace %x span %x parent %x\n", strings.Repeat("  ", depth), s.GetName(),
			float64(s.GetEndTimeUnixNano()-s.GetStartTimeUnixNano())/1e6, s.GetTraceId(), s.GetSpanId(), s.GetParentSpanId())
		for _, kv := range s.GetAttributes() {
			fmt.Fprintf(&out, "%s    %s: %s\n", strings.Repeat("  ", depth), kv.GetKey(), attribute(s.GetAttributes(), kv.GetKey()))
		}
	}
	if err := os.WriteFile(file, []byte(out.String()), 0o600); err != nil {
		t.Fatal(err)
	}
}

// exemplar finds a trace in the histogram of ops, which Prometheus gets when it
// scrapes protocol buffers.
func (r *rig) exemplar(t *testing.T, m *manager) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+m.secure+"/metrics", nil)
	if err != nil {
		t.Fatal(err)
	}
	format := expfmt.NewFormat(expfmt.TypeProtoDelim)
	request.Header.Set("Accept", string(format))
	response, err := r.scrape.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	decoder, found := expfmt.NewDecoder(response.Body, expfmt.ResponseFormat(response.Header)), map[string]bool{}
	for {
		var family dto.MetricFamily
		if decoder.Decode(&family) != nil {
			break
		}
		for _, metric := range family.GetMetric() {
			for _, bucket := range metric.GetHistogram().GetBucket() {
				for _, label := range bucket.GetExemplar().GetLabel() {
					found[family.GetName()+" "+label.GetName()] = true
				}
			}
		}
	}
	for _, want := range []string{"wasm_ccm_provider_op_duration_seconds trace_id", "wasm_ccm_cloud_request_duration_seconds trace_id"} {
		if !found[want] {
			t.Errorf("there is no exemplar %s in %v", want, found)
		}
	}
}
