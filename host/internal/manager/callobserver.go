package manager

import (
	"context"
	"net"
	"net/http"
	"strconv"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
	"k8s.io/klog/v2"

	"github.com/wasm-ccm/wasm-ccm/host/internal/cloud/opcontext"
	"github.com/wasm-ccm/wasm-ccm/host/internal/hostcall/egress"
	"github.com/wasm-ccm/wasm-ccm/host/internal/manager/calls"
	"github.com/wasm-ccm/wasm-ccm/host/internal/manager/metrics"
	"github.com/wasm-ccm/wasm-ccm/host/internal/manager/tracing"
)

// callLevel is the -v from which each request to the cloud is logged.
const callLevel = 4

// opRollout stands for the ops on a module before it serves.
const opRollout = "rollout"

// callObserver records each request to the cloud: in the metrics, in the log,
// as a span and in the list of the latest calls. It is an egress.Observer.
type callObserver struct {
	*metrics.Egress
	calls    *calls.Log
	spans    *tracing.Spans
	provider string
	logger   klog.Logger
}

var _ egress.Observer = callObserver{}

// Requested implements egress.Observer.
func (o callObserver) Requested(ctx context.Context, x egress.Exchange) {
	about := opcontext.FromContext(ctx)
	c := callOf(about, x)
	o.span(ctx, about, c)
	o.Egress.Requested(ctx, metrics.Kind(o.calls.Add(c, x.Host)), x.Took)
	if logger := o.logger.V(callLevel); logger.Enabled() {
		kind, object := "", klog.ObjectRef{}
		if o := about.Object; o != nil {
			kind, object = o.Kind, klog.KRef(o.Namespace, o.Name)
		}
		logger.Info("A request to the cloud", "op", c.Op, "kind", kind, "object", object, "generation", c.Generation, "method", c.Method, "host", c.Host,
			"path", c.Path, "status", c.Status, "result", c.Result, "took", x.Took.String(), "sentBytes", c.SentBytes, "receivedBytes", c.ReceivedBytes)
	}
}

// span makes a span of a finished request.
//
// Invariant M41 (host/SECURITY.md): it is made afterwards, so no header can tell the cloud of it.
func (o callObserver) span(ctx context.Context, about opcontext.Op, c calls.Call) {
	_, span := o.spans.Start(ctx, c.Method+" "+c.PathTemplate, trace.WithTimestamp(c.Time), trace.WithSpanKind(trace.SpanKindClient),
		trace.WithAttributes(attributesOf(o.provider, about)...))
	host, digits, _ := net.SplitHostPort(c.Host)
	port, _ := strconv.Atoi(digits)
	span.SetAttributes(attribute.String("http.request.method", c.Method), attribute.String("server.address", host), attribute.Int("server.port", port),
		attribute.String("url.path", c.Path), attribute.String("url.template", c.PathTemplate), attribute.Int("http.response.status_code", c.Status),
		attribute.Int("http.request.body.size", c.SentBytes), attribute.Int("http.response.body.size", c.ReceivedBytes))
	if c.Status == 0 || c.Status >= http.StatusBadRequest {
		span.SetStatus(codes.Error, c.Result)
	}
	span.End(trace.WithTimestamp(c.Time.Add(c.Duration)))
}

func callOf(about opcontext.Op, x egress.Exchange) calls.Call {
	return calls.Call{
		Time: x.Start, Op: nameOf(about), Object: objectOf(about), Generation: about.Generation,
		Host: x.Server, Method: x.Method, Path: x.Path, PathTemplate: x.Template, Status: x.Status, Result: x.Result,
		Duration: x.Took, SentBytes: x.Sent, ReceivedBytes: x.Received,
	}
}

// nameOf is the name of the running op.
func nameOf(about opcontext.Op) string {
	if about.Name == 0 {
		return opRollout
	}
	return about.Name.String()
}

// objectOf names the object of an op as KIND NAMESPACE/NAME, or is "".
func objectOf(about opcontext.Op) string {
	o := about.Object
	if o == nil {
		return ""
	}
	return o.Kind + " " + klog.KRef(o.Namespace, o.Name).String()
}

// attributesOf are the attributes of an op's span.
func attributesOf(provider string, about opcontext.Op) []attribute.KeyValue {
	attributes := []attribute.KeyValue{
		attribute.String(tracing.AttributeProvider, provider), attribute.String(tracing.AttributeOp, nameOf(about)),
		attribute.Int64(tracing.AttributeGeneration, about.Generation),
	}
	if object := objectOf(about); object != "" {
		attributes = append(attributes, attribute.String(tracing.AttributeObject, object))
	}
	return attributes
}
