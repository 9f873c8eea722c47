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

// Environment is what a provider's constructor may want. It is valid for the
// life of the instance.
type Environment struct {
	// Settings are the configuration; its environment is set.
	Settings Settings
	// ClusterName is the value of --cluster-name.
	ClusterName string
	// Clients and Informers reach Kubernetes by the host. The informers run
	// from when the constructor has returned.
	Clients   cloudprovider.ControllerClientBuilder
	Informers informers.SharedInformerFactory
	// Transport reaches the cloud by the host, for constructors that take a
	// client. Others find their way, see the package.
	Transport http.RoundTripper
}

// Config reads the cloud configuration; nil where there is none, as
// cloudprovider.Factory wants it.
func (e *Environment) Config() io.Reader {
	if e.Settings.CloudConfig == "" {
		return nil
	}
	return strings.NewReader(e.Settings.CloudConfig)
}

// New makes a provider. It may use the network.
type New func(*Environment) (cloudprovider.Interface, error)

// Registered makes the provider that a package has registered under a name
// with cloudprovider.RegisterCloudProvider.
func Registered(name string) New {
	return func(e *Environment) (cloudprovider.Interface, error) {
		return cloudprovider.GetCloudProvider(name, e.Config())
	}
}

// Option says what cannot be seen in a cloudprovider.Interface.
type Option func(*provider)

// Gone names the cloud's own words for something that is not there: an error's
// code ("InvalidInstanceID.NotFound") or a state ("terminated"). They count
// where they are the whole of a value in an answer.
func Gone(words ...string) Option {
	return func(p *provider) { p.gone = append(p.gone, words...) }
}

// Empty names elements of XML that the cloud answers with, and nothing in them,
// when what the request names is not there ("FindByUuidResponse").
func Empty(elements ...string) Option {
	return func(p *provider) { p.empty = append(p.empty, elements...) }
}

// ProbeInstance is for providers whose constructors ask the cloud for nothing.
// The probe then asks the provider for the instance of this ID, which cannot
// exist, and for the load balancer of a Service that nobody has. So the host
// learns of wrong credentials and of missing grants before the provider serves.
func ProbeInstance(providerID string) Option {
	return func(p *provider) { p.probed = providerID }
}

// Schemes are those of the provider's IDs where they are not its name: a node
// with another one is of another cloud, and the provider is not asked.
func Schemes(schemes ...string) Option {
	return func(p *provider) { p.schemes = append(p.schemes, schemes...) }
}

// LoadBalancerName is for providers that do not name load balancers by
// cloudprovider.DefaultLoadBalancerName. It must be pure: no network, and the
// same for ever for one Service. The probe compares it with the provider.
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

// exit ends the instance as klog.Fatal wants it. klog writes stacks to files
// only, and there are none.
func exit(code int) {
	_, _ = os.Stderr.Write(debug.Stack()) // the host's log: there is no other place
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
