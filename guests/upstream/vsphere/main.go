// Command vsphere is the vSphere cloud provider of Kubernetes, unmodified, as a
// guest. It imports the provider and guests/upstream, and sets the proxy of the
// standard library.
package main

import (
	"net/http"
	"net/url"

	_ "k8s.io/cloud-provider-vsphere/pkg/cloudprovider/vsphere"

	"github.com/wasm-ccm/wasm-ccm/guests/upstream"
	"github.com/wasm-ccm/wasm-ccm/guests/upstream/early"
)

var version = "1.31.0"

func init() {
	// govmomi's clones of the default transport dial TLS themselves, unless
	// there is a proxy.
	if transport, ok := http.DefaultTransport.(*http.Transport); ok {
		transport.Proxy = http.ProxyURL(&url.URL{Scheme: "http", Host: early.Proxy})
	}
	upstream.Serve("vsphere", version, upstream.Registered("vsphere"),
		upstream.ProbeInstance("vsphere://00000000-0000-4000-8000-000000000000"),
		upstream.Empty("FindByUuidResponse"))
}

func main() {}
