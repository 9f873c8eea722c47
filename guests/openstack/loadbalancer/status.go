package loadbalancer

import (
	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/guests/openstack/cloudconf"
)

// status is what the Service says about an address. With PROXY protocol
// kube-proxy must not take a short cut past the load balancer: the mode Proxy,
// or a name, says so.
func (w *work) status(address string) *abi.LoadBalancerStatus {
	return statusOf(w.service, w.config, address)
}

func statusOf(service *abi.Service, config *cloudconf.Config, address string) *abi.LoadBalancerStatus {
	v := &values{of: service.Annotations}
	ingress := &abi.LoadBalancerIngress{Ip: address, IpMode: "VIP"}
	proxied := proxyProtocol(v.text(annProxyProtocol, "false")) != ""
	if hostname := v.text(annHostname, ""); hostname != "" {
		ingress = &abi.LoadBalancerIngress{Hostname: hostname}
	} else if proxied && config.LoadBalancer.EnableIngressHostname {
		ingress = &abi.LoadBalancerIngress{Hostname: address + "." + config.LoadBalancer.IngressHostnameSuffix}
	} else if proxied {
		ingress.IpMode = "Proxy"
	}
	return &abi.LoadBalancerStatus{Ingress: []*abi.LoadBalancerIngress{ingress}}
}
