package loadbalancer

import (
	"strings"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/guests/openstack/cloudconf"
)

// status is the Service's status for an address. With PROXY protocol kube-proxy
// must not bypass the load balancer: the mode Proxy, or a hostname, says so.
func (w *work) status(address string) *abi.LoadBalancerStatus {
	return statusOf(w.service, w.config, address)
}

// statusOf has no ingress without an address, as of a half-made load balancer.
func statusOf(service *abi.Service, config *cloudconf.Config, address string) *abi.LoadBalancerStatus {
	v := &values{of: service.Annotations}
	ingress := &abi.LoadBalancerIngress{Ip: address, IpMode: "VIP"}
	proxied := proxyProtocol(v.text(annProxyProtocol, "false")) != ""
	switch hostname := v.text(annHostname, ""); {
	case address == "":
		return &abi.LoadBalancerStatus{}
	case isHostname(hostname):
		ingress = &abi.LoadBalancerIngress{Hostname: hostname}
	// The host refuses invalid names, e.g. of an IPv6 address or with an
	// invalid suffix. The mode has the same effect.
	case proxied && config.LoadBalancer.EnableIngressHostname && isHostname(address+"."+config.LoadBalancer.IngressHostnameSuffix):
		ingress = &abi.LoadBalancerIngress{Hostname: address + "." + config.LoadBalancer.IngressHostnameSuffix}
	case proxied:
		ingress.IpMode = "Proxy"
	}
	return &abi.LoadBalancerStatus{Ingress: []*abi.LoadBalancerIngress{ingress}}
}

// isHostname reports whether a Service may have the name: of DNS, in lower
// case, and no address.
func isHostname(name string) bool {
	if name == "" || len(name) > 253 {
		return false
	}
	label := ""
	for label = range strings.SplitSeq(name, ".") {
		if label == "" || len(label) > 63 || strings.Trim(label, "-") != label || strings.Trim(label, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" {
			return false
		}
	}
	return strings.Trim(label, "0123456789") != "" // the last label
}
