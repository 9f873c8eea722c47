// Package tracing makes OpenTelemetry spans of the control loops' calls to
// providers: of a loop's call, of the resulting ops, and of their requests to
// the cloud. They go to a collector, as those of Kubernetes' components do. No
// part of a trace goes to a provider or to a cloud.
package tracing

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/resource"
	"go.opentelemetry.io/otel/trace"
	"golang.org/x/time/rate"
	"k8s.io/component-base/tracing"
	tracingapi "k8s.io/component-base/tracing/api/v1"
	"k8s.io/klog/v2"

	"github.com/wasm-ccm/wasm-ccm/host/config/v1alpha1"
)

// scope names the instrumentation of the spans.
const scope = "github.com/wasm-ccm/wasm-ccm"

// Attributes of spans.
const (
	AttributeProvider   = "wasm_ccm.provider"
	AttributeOp         = "wasm_ccm.op"
	AttributeObject     = "wasm_ccm.object"
	AttributeGeneration = "wasm_ccm.generation"
)

// closeTimeout bounds the export of a configuration's last spans.
const closeTimeout = 2 * time.Second

// Spans makes spans if its present configuration says so. It is safe for concurrent use.
type Spans struct {
	attributes []attribute.KeyValue // of this process
	current    atomic.Pointer[Exporter]
	mu         sync.Mutex // for Use and Close
}

// Exporter is one configuration of the spans.
type Exporter struct {
	provider tracing.TracerProvider
	tracer   trace.Tracer
}

// New returns disabled spans. Each later span has the service and its version.
func New(service, version string) *Spans {
	s := &Spans{attributes: []attribute.KeyValue{attribute.String("service.name", service), attribute.String("service.version", version)}}
	s.current.Store(newExporter(tracing.NewNoopTracerProvider()))
	return s
}

func newExporter(p tracing.TracerProvider) *Exporter { return &Exporter{p, p.Tracer(scope)} }

// Prepare returns the exporter of a configuration; nil: none. It waits for no
// collector. The result goes to Use or Discard.
func (s *Spans) Prepare(ctx context.Context, c *v1alpha1.Tracing) (*Exporter, error) {
	if c == nil {
		return newExporter(tracing.NewNoopTracerProvider()), nil
	}
	config := &tracingapi.TracingConfiguration{SamplingRatePerMillion: &c.SamplingRatePerMillion}
	if c.Endpoint != "" {
		config.Endpoint = &c.Endpoint
	}
	p, err := tracing.NewProvider(ctx, config, nil, []resource.Option{resource.WithAttributes(s.attributes...), resource.WithHost()})
	if err != nil {
		return nil, fmt.Errorf("tracing: %w", err)
	}
	return newExporter(p), nil
}

// Use replaces the exporter. The previous one's spans are sent, within two seconds.
func (s *Spans) Use(ctx context.Context, next *Exporter) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.current.Swap(next).Discard(ctx)
}

// LogErrors returns the logger of an unreachable collector: one line a minute.
func LogErrors(logger klog.Logger) otel.ErrorHandler {
	lines := rate.NewLimiter(rate.Every(time.Minute), 1)
	return otel.ErrorHandlerFunc(func(err error) {
		if lines.Allow() {
			logger.Error(err, "Spans did not reach their collector (tracing.endpoint of the HostConfiguration)")
		}
	})
}

// Discard ends a result of Prepare.
func (e *Exporter) Discard(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
	defer cancel()
	return e.provider.Shutdown(ctx)
}

// Close sends the remaining spans, within two seconds, and makes no more.
func (s *Spans) Close(ctx context.Context) error {
	return s.Use(ctx, newExporter(tracing.NewNoopTracerProvider()))
}

// Start begins a span, which the caller ends by End.
func (s *Spans) Start(ctx context.Context, name string, options ...trace.SpanStartOption) (context.Context, trace.Span) {
	return s.current.Load().tracer.Start(ctx, name, options...)
}

// End ends a span, with the error of its call. Errors must not contain a secret.
func End(span trace.Span, err error) {
	switch {
	case err == nil, errors.Is(err, context.Canceled):
	default:
		span.SetStatus(codes.Error, err.Error())
	}
	span.End()
}
