package v1alpha1

// Tracing is where OpenTelemetry spans go, and how many: TracingConfiguration of
// Kubernetes' components. There is a span for each call of a control loop, for each
// op, and for each request to the cloud, with provider, object, op and generation.
// A span has no query, header or body of a request. Clouds get nothing of a trace.
type Tracing struct {
	// Endpoint of an OTLP collector by gRPC, HOST:PORT or unix:PATH. The connection is not
	// encrypted: use a collector on the same node. Default localhost:4317.
	Endpoint string `json:"endpoint,omitempty"`
	// SamplingRatePerMillion is how many of a million traces are sent, 1 to 1000000. No default.
	SamplingRatePerMillion int32 `json:"samplingRatePerMillion,omitempty"`
}
