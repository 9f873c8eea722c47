package v1alpha1

import (
	"k8s.io/apimachinery/pkg/util/validation/field"
	tracingapi "k8s.io/component-base/tracing/api/v1"
)

// Tracing is where OpenTelemetry spans go, and how many: TracingConfiguration of
// Kubernetes' components. There is a span for each call of a control loop, for each
// op, and for each request to the cloud, with provider, object, op and generation.
// A span has no query, header or body of a request. Clouds get nothing of a trace.
type Tracing struct {
	// Endpoint is HOST:PORT of a collector that speaks OTLP by gRPC, or unix:PATH.
	// The connection is not encrypted, so a collector on the same node is
	// recommended. Default localhost:4317.
	Endpoint string `json:"endpoint,omitempty"`
	// SamplingRatePerMillion is how many of a million traces are sent, 1 to 1000000.
	// There is no default.
	SamplingRatePerMillion int32 `json:"samplingRatePerMillion,omitempty"`
}

const maxEndpointBytes = 1024

func validateTracing(t *Tracing, path *field.Path) (errs field.ErrorList) {
	if t == nil {
		return nil
	}
	errs = append(errs, between(path.Child("samplingRatePerMillion"), int(t.SamplingRatePerMillion), 1, 1_000_000)...)
	if len(t.Endpoint) > maxEndpointBytes {
		return append(errs, field.TooLong(path.Child("endpoint"), "", maxEndpointBytes))
	}
	return append(errs, tracingapi.ValidateTracingConfiguration(&tracingapi.TracingConfiguration{Endpoint: &t.Endpoint}, nil, path)...)
}
