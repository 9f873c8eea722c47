package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
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

	"github.com/wasm-ccm/wasm-ccm/host/async"
	"github.com/wasm-ccm/wasm-ccm/host/brake"
	"github.com/wasm-ccm/wasm-ccm/host/config"
	"github.com/wasm-ccm/wasm-ccm/host/config/v1alpha1"
	"github.com/wasm-ccm/wasm-ccm/host/credential"
	"github.com/wasm-ccm/wasm-ccm/host/hostfunc"
	"github.com/wasm-ccm/wasm-ccm/host/metrics"
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
	// maxCallDepth is what both engines have a stack for, so that a guest which runs
	// on one of them runs on the other.
	maxCallDepth = 1 << 14
)

// manager holds what lives as long as the process.
type manager struct {
	options *config.Options
	metrics *metrics.Metrics
	slot    *plugin.Slot
	network *switchedNetwork

	// These are made by start, after the flags are parsed.
	invoker  *async.Invoker
	brake    *brake.Brake
	provider *provider.Provider
}

// newManager makes what is there before the flags are parsed.
func newManager(options *config.Options) *manager {
	return &manager{options: options, metrics: metrics.New(), slot: plugin.NewSlot(), network: &switchedNetwork{}}
}

// start begins to watch the source and to serve probes. It runs before leader
// election, so that a standby manager has its provider ready.
func (m *manager) start(ctx context.Context, c *ccmconfig.CompletedConfig) error {
	logger := klog.Background().WithName("provider")
	ctx = klog.NewContext(ctx, logger)
	m.metrics.Register(legacyregistry.MustRegister)
	host, err := m.options.HostConfiguration()
	if err != nil {
		return err
	}
	p := &host.Providers[0]
	client, err := newClient(c)
	if err != nil {
		return err
	}
	events, err := newRecorder(ctx, c)
	if err != nil {
		return err
	}
	modules, err := m.newModules(ctx)
	if err != nil {
		return err
	}
	networks := m.newNetworks(logger, client, events, modules)
	network, err := networks.build(ctx, p)
	if err != nil {
		return err
	}
	m.network.current.Store(network)
	m.newProvider(ctx, c, host, client, events)
	if address := m.options.ProbeBindAddress; address != "0" {
		if err := serveProbes(ctx, address, func() bool { return m.slot.Serving() != nil }); err != nil {
			return err
		}
	}
	hosts := &hosts{
		logger: logger, events: events, client: client, network: m.network, rates: hostfunc.NewRates(rateLimits(p.Limits)),
		namespace: m.options.StoreNamespace, metrics: m.metrics,
	}
	loader := m.newLoader(c, hosts, modules)
	loader.set(p)
	r := rollout.New(loader, m.slot, &reporter{
		logger: logger, events: events, metrics: m.metrics, slot: m.slot, serving: m.invoker.Reset, scrub: m.network.scrub,
	}, clock.RealClock{})
	go r.Run(ctx)
	go m.newSource(c, client, p).Run(ctx, r.Offer)
	if file := m.options.ConfigFile; file != "" {
		reloader := &reloader{manager: m, networks: networks, loader: loader, rollout: r, hosts: hosts, current: host}
		go reloader.run(ctx, file)
	}
	return nil
}

// newProvider puts the provider of upstream's controllers together: from the
// slot with the guest up to what holds back deletions.
func (m *manager) newProvider(ctx context.Context, c *ccmconfig.CompletedConfig, host *v1alpha1.HostConfiguration, client kubernetes.Interface, events record.EventRecorder) {
	p := &host.Providers[0]
	observer := &observer{metrics: m.metrics, events: events}
	guest := scrubbed{m.metrics.Measure(m.slot), m.network}
	m.invoker = async.New(guest, async.Options{
		Foreground: p.Ops.Foreground.Duration, OpTimeout: longestOp(p), Instances: m.slot.Instances, Observer: observer,
	})
	m.provider = provider.New(m.invoker, provider.WithInstances(m.newBrake(ctx, c, host, client, events)))
}

// newClient returns a client with a rate of its own.
func newClient(c *ccmconfig.CompletedConfig) (kubernetes.Interface, error) {
	client, err := kubernetes.NewForConfig(restclient.AddUserAgent(restclient.CopyConfig(c.Kubeconfig), component))
	if err != nil {
		return nil, fmt.Errorf("client of the API server: %w", err)
	}
	return client, nil
}

// newRecorder has a broadcaster of its own: upstream's starts only after the
// first offer may already have been rejected. Its client has a rate of its
// own, too: Events must not hold up stores and Secrets.
func newRecorder(ctx context.Context, c *ccmconfig.CompletedConfig) (record.EventRecorder, error) {
	client, err := newClient(c)
	if err != nil {
		return nil, err
	}
	broadcaster := record.NewBroadcaster(record.WithContext(ctx))
	broadcaster.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: client.CoreV1().Events("")})
	return broadcaster.NewRecorder(scheme.Scheme, corev1.EventSource{Component: component}), nil
}

func (m *manager) newNetworks(logger klog.Logger, client kubernetes.Interface, events record.EventRecorder, modules modules) *networks {
	scrubber := credential.NewScrubber(clock.RealClock{})
	scrub := func(text string) string { return string(scrubber.Scrub([]byte(text))) }
	return &networks{
		client: client, observer: m.metrics.Egress(), scrubber: scrubber,
		signers: &signerLoader{
			client: client, modules: modules, version: version.Get().GitVersion,
			reporter: func(slot *plugin.Slot) *reporter {
				return &reporter{logger: logger.WithName("signer"), events: events, metrics: m.metrics, slot: slot, signer: true, scrub: scrub}
			},
		},
	}
}

func (m *manager) newLoader(c *ccmconfig.CompletedConfig, hosts *hosts, modules modules) *reloadableLoader {
	shared := c.ComponentConfig.KubeCloudShared
	return &reloadableLoader{loader: plugin.Loader{
		Engine:           modules.engine,
		Compiler:         modules.compiler,
		MaxCallDepth:     maxCallDepth,
		ClusterName:      shared.ClusterName,
		HostVersion:      version.Get().GitVersion,
		RequireClusterID: !shared.AllowUntaggedCloud,
		NewHost:          hosts.host,
		Observer:         m.metrics,
	}}
}

func (m *manager) newSource(c *ccmconfig.CompletedConfig, client kubernetes.Interface, p *v1alpha1.Provider) source.Source {
	limits := source.Limits{MaxModule: p.Limits.Module.Value()}
	src := newSource(client, p.Source, limits)
	if file := c.ComponentConfig.KubeCloudShared.CloudProvider.CloudConfigFile; file != "" {
		src = source.WithConfigFile(src, file, limits, source.Watching{})
	}
	return src
}

func newSource(client kubernetes.Interface, s v1alpha1.Source, limits source.Limits) source.Source {
	if s.ConfigMap != nil {
		return source.NewConfigMap(client, types.NamespacedName(*s.ConfigMap), limits)
	}
	return source.NewDir(s.Directory, limits, source.Watching{})
}

// healthy is what /healthz asks about the control loops.
func (m *manager) healthy() error {
	if m.invoker == nil {
		return errors.New("the manager has not started")
	}
	return m.invoker.Healthy()
}

// volumes is the provider's labeler of volumes, which is there when the
// controller starts.
type volumes struct{ m *manager }

func (v volumes) GetLabelsForVolume(ctx context.Context, pv *corev1.PersistentVolume) (map[string]string, error) {
	return v.m.provider.Volumes().GetLabelsForVolume(ctx, pv)
}

func (v volumes) Supports() bool { return v.m.provider.Volumes().Supports() }
