package upstream

import (
	"io"
	"net/http"
	"os"
	"runtime/debug"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/klog/v2"

	"github.com/wasm-ccm/wasm-ccm/guests/sdk"
)

// Environment is for a provider's constructor. It is valid for the life of the
// instance.
type Environment struct {
	// Settings are the configuration; its environment is already set.
	Settings Settings
	// ClusterName is the value of --cluster-name.
	ClusterName string
	// Clients and Informers reach Kubernetes by the host. The informers run
	// once the constructor has returned.
	Clients   cloudprovider.ControllerClientBuilder
	Informers informers.SharedInformerFactory
	// Transport reaches the cloud by the host, for constructors that take a
	// client. For others see the package's documentation.
	Transport http.RoundTripper
}

// Config reads the cloud configuration; nil if there is none, as
// cloudprovider.Factory wants it.
func (e *Environment) Config() io.Reader {
	if e.Settings.CloudConfig == "" {
		return nil
	}
	return strings.NewReader(e.Settings.CloudConfig)
}

// New makes a provider. It may use the network.
type New func(*Environment) (cloudprovider.Interface, error)

// Registered makes the provider that a package has registered under a name with
// cloudprovider.RegisterCloudProvider.
func Registered(name string) New {
	return func(e *Environment) (cloudprovider.Interface, error) {
		return cloudprovider.GetCloudProvider(name, e.Config())
	}
}

// Option sets what a cloudprovider.Interface does not show.
type Option func(*provider)

// Gone names the cloud's own words for something that does not exist: an
// error's code ("InvalidInstanceID.NotFound") or a state ("terminated"). They
// count as the whole of a value in an answer.
func Gone(words ...string) Option {
	return func(p *provider) { p.gone = append(p.gone, words...) }
}

// Empty names XML elements that the cloud answers with, without content, if the
// thing in the request does not exist ("FindByUuidResponse").
func Empty(elements ...string) Option {
	return func(p *provider) { p.empty = append(p.empty, elements...) }
}

// ProbeInstance is for providers whose constructors make no request. The probe
// then asks the provider for the instance of this ID, which must not exist, and
// for the load balancer of a Service that nobody has. So the host learns of
// wrong credentials and missing grants before the provider serves.
func ProbeInstance(providerID string) Option {
	return func(p *provider) { p.probed = providerID }
}

// Schemes are those of the provider's IDs, if they are not its name: a node
// with another scheme belongs to another cloud, and the provider is not asked.
func Schemes(schemes ...string) Option {
	return func(p *provider) { p.schemes = append(p.schemes, schemes...) }
}

// LoadBalancerName is for providers that do not name load balancers by
// cloudprovider.DefaultLoadBalancerName. It must be pure: no network, and
// always the same for a Service. The probe compares it with the provider.
func LoadBalancerName(name func(clusterName string, service *v1.Service) string) Option {
	return func(p *provider) { p.name = name }
}

// Serve makes this module a guest that serves the provider. Call it once, from
// an init function of the main package. name and version are the manifest's.
func Serve(name, version string, create New, options ...Option) {
	p := newProvider(name, version, create, options...)
	p.bridge.install()
	klog.OsExit = exit
	sdk.Serve(p)
}

// exit ends the instance for klog.Fatal. klog writes stacks only to files, and
// there are none.
func exit(code int) {
	_, _ = os.Stderr.Write(debug.Stack()) // the host's log
	os.Exit(code)
}

func newProvider(name, version string, create New, options ...Option) *provider {
	p := &provider{
		info: sdk.Info{Name: name, Version: version, ProviderName: name}, create: create, bridge: newBridge(),
		name: func(_ string, service *v1.Service) string { return cloudprovider.DefaultLoadBalancerName(service) },
	}
	for _, option := range options {
		option(p)
	}
	return p
}
