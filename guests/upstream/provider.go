package upstream

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"time"

	v1 "k8s.io/api/core/v1"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/klog/v2"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/guests/sdk"
	"github.com/wasm-ccm/wasm-ccm/guests/upstream/early"
)

// provider is an sdk.Provider on top of a cloudprovider.Interface. It runs one
// op at a time.
type provider struct {
	info   sdk.Info
	create New
	gone   []string
	// schemes of provider IDs besides the provider's name
	schemes []string
	empty   []string // elements
	probed  string   // provider ID for the probe; empty: no request
	name    func(clusterName string, service *v1.Service) string
	bridge  *bridge
	listen  string // the proxy's address; empty: early.Proxy

	settings Settings
	cluster  string
	known    known
	cloud    cloudprovider.Interface // nil until an op may use the network
	kube     *kube
}

// Info is part of sdk.Provider.
func (p *provider) Info() sdk.Info { return p.info }

// Configure is part of sdk.Provider. The provider reads its own part of the
// configuration when it is made, at the probe.
func (p *provider) Configure(_ *sdk.Op, config sdk.Config) (sdk.Configured, error) {
	settings, err := readSettings(config.Bytes)
	if err != nil {
		return sdk.Configured{}, sdk.Invalidf("configuration: %v", err)
	}
	for name, value := range settings.Env {
		if err := os.Setenv(name, value); err != nil {
			return sdk.Configured{}, sdk.Invalidf("configuration: env %q: %v", name, err)
		}
	}
	if err := setFlags(settings.Flags); err != nil {
		return sdk.Configured{}, sdk.Invalidf("configuration: %v", err)
	}
	if err := verbosity(settings.Verbosity); err != nil {
		return sdk.Configured{}, sdk.Invalidf("configuration: verbosity: %v", err)
	}
	p.settings, p.cluster, p.bridge.settings = settings, config.ClusterName, &p.settings
	var configured sdk.Configured
	if !settings.strict() {
		configured.Warnings = []string{"strictExistence is off: a Node is deleted when the provider takes an answer of the cloud that it does not understand for \"no such instance\""}
	}
	return configured, nil
}

// verbosity sets klog's, and its output to stderr, which the host logs. klog's
// own flags would set both without its lock.
func verbosity(level int32) error {
	klog.LogToStderr(true)
	return new(klog.Level).Set(strconv.Itoa(int(level)))
}

// Probe is part of sdk.Provider.
func (p *provider) Probe(op *sdk.Op) (string, error) {
	ctx, done, err := p.begin(op, "")
	if err != nil {
		return "", err
	}
	defer done()
	if !p.cloud.HasClusterID() && !p.settings.AllowUntagged {
		return "", sdk.Invalidf("the provider has no cluster ID: it cannot tell what it made for this cluster. Give it one, or set allowUntagged: true")
	}
	if err := p.sameName(); err != nil {
		return "", err
	}
	if err := p.reach(ctx); err != nil {
		return "", err
	}
	return p.cloud.ProviderName() + " " + p.info.Version, nil
}

// sameName compares the pure name of a load balancer with the provider's own.
func (p *provider) sameName() error {
	balancers, ok := p.cloud.LoadBalancer()
	if !ok {
		return nil
	}
	service := nobodysService()
	want, got := balancers.GetLoadBalancerName(context.Background(), p.cluster, service), p.name(p.cluster, service)
	if want == got {
		return nil
	}
	return sdk.Error(abi.CodeInternal, fmt.Sprintf("the provider names load balancers in its own way (%q, not %q): the guest must be built with the option upstream.LoadBalancerName", want, got))
}

// margin is the time kept at an op's end for its answer, in case the provider
// uses up its own.
const margin = 50 * time.Millisecond

// begin makes the provider ready for an op about an object. done ends what it
// began.
func (p *provider) begin(op *sdk.Op, about string) (ctx context.Context, done func(), err error) {
	ctx, cancel := context.WithTimeout(context.Background(), max(op.Left()-margin, op.Left()/2))
	p.bridge.open(op, about)
	done = func() { p.bridge.close(); cancel() }
	if err := p.ready(ctx); err != nil {
		done()
		return nil, nil, p.failure(err)
	}
	return ctx, done, nil
}

// ready makes the provider on first use, and updates its informers.
func (p *provider) ready(ctx context.Context) error {
	if p.cloud == nil {
		if err := p.make(); err != nil {
			return err
		}
	} else {
		p.kube.next()
	}
	return p.kube.refresh(ctx)
}

func (p *provider) make() error {
	address := p.listen
	if address == "" {
		address = early.Proxy
	}
	if err := p.bridge.server.serve(address, p.settings.Loopback); err != nil {
		return fmt.Errorf("listening in the guest: %w", err)
	}
	kube, err := newKube(p.bridge)
	if err != nil {
		return err
	}
	environment := &Environment{Settings: p.settings, ClusterName: p.cluster, Clients: kube, Informers: kube.informers, Transport: p.bridge}
	cloud, err := p.create(environment)
	if err != nil {
		return fmt.Errorf("making the provider: %w", err)
	}
	if cloud == nil {
		return fmt.Errorf("making the provider: there is none of the name %q", p.info.Name)
	}
	cloud.Initialize(kube, kube.stop)
	if user, ok := cloud.(cloudprovider.InformerUser); ok {
		user.SetInformers(kube.informers)
	}
	kube.start()
	p.cloud, p.kube = cloud, kube
	return nil
}
