package main

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	restclient "k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"
	ccmconfig "k8s.io/cloud-provider/app/config"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/component-base/version"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/host/config"
	"github.com/wasm-ccm/wasm-ccm/host/engine/wazero"
	"github.com/wasm-ccm/wasm-ccm/host/metrics"
	"github.com/wasm-ccm/wasm-ccm/host/module"
	"github.com/wasm-ccm/wasm-ccm/host/plugin"
	"github.com/wasm-ccm/wasm-ccm/host/provider"
	"github.com/wasm-ccm/wasm-ccm/host/rollout"
	"github.com/wasm-ccm/wasm-ccm/host/source"
)

const (
	// component is the name in Events and in the User-Agent.
	component = "wasm-cloud-controller-manager"
	// loadTimeout bounds each of describe, configure and probe.
	loadTimeout = 30 * time.Second
	// maxTableElements bounds the tables of a guest: stock Go needs one
	// element for each function.
	maxTableElements = 1 << 20
)

// manager holds what lives as long as the process.
type manager struct {
	options  *config.Options
	metrics  *metrics.Metrics
	slot     *plugin.Slot
	provider *provider.Provider
}

// newManager makes the stable objects that controllers hold, before the flags
// are parsed.
func newManager(options *config.Options) *manager {
	m := &manager{options: options, metrics: metrics.New(), slot: plugin.NewSlot()}
	m.provider = provider.New(m.metrics.Measure(m.slot))
	return m
}

// start begins to watch the source and to serve probes. It runs before leader
// election, so that a standby manager has its provider ready.
func (m *manager) start(ctx context.Context, c *ccmconfig.CompletedConfig) error {
	logger := klog.Background().WithName("provider")
	ctx = klog.NewContext(ctx, logger)
	m.metrics.Register(legacyregistry.MustRegister)

	client, err := kubernetes.NewForConfig(restclient.AddUserAgent(c.Kubeconfig, component))
	if err != nil {
		return fmt.Errorf("client of the API server: %w", err)
	}
	events := newRecorder(ctx, client)
	hosts, err := newHosts(ctx, m.options, client, events, m.metrics)
	if err != nil {
		return err
	}
	src, err := m.newSource(c, client)
	if err != nil {
		return err
	}
	if address := m.options.ProbeBindAddress; address != "0" {
		if err := serveProbes(ctx, address, func() bool { return m.slot.Serving() != nil }); err != nil {
			return err
		}
	}
	r := rollout.New(m.newLoader(c, hosts), m.slot, &reporter{
		logger: logger, events: events, metrics: m.metrics, slot: m.slot,
	}, clock.RealClock{})
	go r.Run(ctx)
	go src.Run(ctx, r.Offer)
	return nil
}

// newRecorder has a broadcaster of its own: upstream's starts only after the
// first offer may already have been rejected.
func newRecorder(ctx context.Context, client kubernetes.Interface) record.EventRecorder {
	broadcaster := record.NewBroadcaster(record.WithContext(ctx))
	broadcaster.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: client.CoreV1().Events("")})
	return broadcaster.NewRecorder(scheme.Scheme, corev1.EventSource{Component: component})
}

func (m *manager) newLoader(c *ccmconfig.CompletedConfig, hosts *hosts) *plugin.Loader {
	shared := c.ComponentConfig.KubeCloudShared
	return &plugin.Loader{
		Engine:           wazero.New(wazero.Options{CacheDir: m.options.CompilationCacheDir}),
		Limits:           m.limits(),
		Policy:           module.Policy{Capabilities: m.capabilities()},
		ClusterName:      shared.ClusterName,
		HostVersion:      version.Get().GitVersion,
		RequireClusterID: !shared.AllowUntaggedCloud,
		NewHost:          hosts.host,
		Observer:         m.metrics,
	}
}

func (m *manager) limits() plugin.Limits {
	return plugin.Limits{
		MaxInstances:        m.options.MaxInstances,
		MaxCallsPerInstance: m.options.MaxCallsPerInstance,
		MaxMemoryBytes:      uint64(m.options.MaxMemoryBytes),
		MaxTableElements:    maxTableElements,
		OpTimeout:           m.options.OpTimeout,
		LoadTimeout:         min(loadTimeout, m.options.OpTimeout),
	}
}

// capabilities are granted but for the network, which needs a list of URLs.
func (m *manager) capabilities() []string {
	granted := []string{abi.CapabilityStore, abi.CapabilityCache, abi.CapabilityNodes, abi.CapabilityEvent}
	if len(m.options.AllowedURLs) > 0 {
		granted = append(granted, abi.CapabilityHTTP)
	}
	return granted
}

func (m *manager) newSource(c *ccmconfig.CompletedConfig, client kubernetes.Interface) (source.Source, error) {
	limits := source.Limits{MaxModule: m.options.MaxModuleBytes}
	var src source.Source
	if m.options.ProviderDir != "" {
		src = source.NewDir(m.options.ProviderDir, limits, source.Watching{})
	} else {
		name, err := m.options.ConfigMap()
		if err != nil {
			return nil, err
		}
		src = source.NewConfigMap(client, name, limits)
	}
	if file := c.ComponentConfig.KubeCloudShared.CloudProvider.CloudConfigFile; file != "" {
		src = source.WithConfigFile(src, file, limits, source.Watching{})
	}
	return src, nil
}
