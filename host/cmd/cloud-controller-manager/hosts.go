package main

import (
	"context"
	"fmt"
	"io"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/wasm-ccm/wasm-ccm/abi/manifest"
	"github.com/wasm-ccm/wasm-ccm/host/config"
	"github.com/wasm-ccm/wasm-ccm/host/egress"
	"github.com/wasm-ccm/wasm-ccm/host/engine"
	"github.com/wasm-ccm/wasm-ccm/host/hostfunc"
	"github.com/wasm-ccm/wasm-ccm/host/metrics"
	"github.com/wasm-ccm/wasm-ccm/host/store"
)

// hosts makes what answers the host calls of each generation. The network
// outlives generations, so that its connections and its rate do, too.
type hosts struct {
	logger    klog.Logger
	events    record.EventRecorder
	client    kubernetes.Interface
	http      hostfunc.HTTP
	namespace string
	metrics   *metrics.Metrics
}

func newHosts(ctx context.Context, options *config.Options, client kubernetes.Interface, events record.EventRecorder, m *metrics.Metrics) (*hosts, error) {
	h := &hosts{
		logger: klog.FromContext(ctx), events: events, client: client,
		namespace: options.StoreNamespace, metrics: m,
	}
	if len(options.AllowedURLs) == 0 {
		return h, nil
	}
	grants, err := grants(options)
	if err != nil {
		return nil, err
	}
	if h.http, err = egress.New(grants, egress.Options{}); err != nil {
		return nil, fmt.Errorf("--provider-allow-url: %w", err)
	}
	return h, nil
}

func grants(options *config.Options) ([]egress.Grant, error) {
	cidrs, err := options.CIDRs()
	if err != nil {
		return nil, err
	}
	var all []egress.Grant
	for _, prefix := range options.AllowedURLs {
		grant, err := egress.ParseGrant(prefix)
		if err != nil {
			return nil, fmt.Errorf("--provider-allow-url: %w", err)
		}
		grant.CIDRs = cidrs
		all = append(all, grant)
	}
	return all, nil
}

// host is plugin.Loader.NewHost.
func (h *hosts) host(m *manifest.Manifest) (host engine.Host, stdout, stderr io.Writer) {
	options := hostfunc.Options{
		Provider: m.Name,
		Logger:   h.logger,
		Events:   h.events,
		Nodes:    true,
		Cache:    hostfunc.NewCache(clock.RealClock{}),
		Store:    store.New(h.client.CoreV1(), h.namespace, store.Name(m.Name), m.Name),
		HTTP:     h.http,
		Dropped:  h.metrics.Dropped,
	}
	answering := hostfunc.New(options)
	return answering, answering.Output("stdout"), answering.Output("stderr")
}
