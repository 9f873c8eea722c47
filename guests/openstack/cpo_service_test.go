//go:build cpo

package main

import (
	"fmt"
	"strings"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/guests/sdk"
)

const annotation = "loadbalancer.openstack.org/"

// service makes a Service of theirs, which may be nil. What every Service has
// and a case may leave out is filled in.
func service(value any) *abi.Service {
	s := &abi.Service{
		Namespace: Text(value, "ObjectMeta", "Namespace"), Name: Text(value, "ObjectMeta", "Name"),
		Uid: "00000000-0000-4000-8000-00000000000a", Annotations: map[string]string{}, AllocateNodePorts: true, ExternalTrafficPolicy: "Cluster",
		SessionAffinity: "None",
	}
	annotations, _ := At(value, "ObjectMeta", "Annotations").(Map)
	for _, e := range annotations {
		s.Annotations[fmt.Sprint(e.Key)] = fmt.Sprint(e.Value)
	}
	if strings.HasSuffix(Text(value, "Spec", "SessionAffinity"), "ClientIP") {
		s.SessionAffinity = "ClientIP"
	}
	for _, p := range List(value, "Spec", "Ports") {
		s.Ports = append(s.Ports, servicePort(p))
	}
	return s
}

func servicePort(value any) *abi.ServicePort {
	p := &abi.ServicePort{Name: Text(value, "Name"), Protocol: "TCP", Port: 80, NodePort: int32(Int(value, "NodePort"))}
	if protocol := constant(Text(value, "Protocol")); protocol == "UDP" || protocol == "SCTP" {
		p.Protocol = protocol
	}
	if port := Int(value, "Port"); port > 0 {
		p.Port = int32(port)
	}
	return p
}

// constant is what a constant of another package stands for:
// pools.ProtocolPROXYV2 is PROXYV2.
func constant(symbol string) string {
	_, name, found := strings.Cut(symbol, ".")
	if !found {
		return symbol
	}
	name = strings.TrimPrefix(name, "Protocol")
	if name == "TerminatedHTTPS" {
		return "TERMINATED_HTTPS"
	}
	return strings.TrimSuffix(name, "Protocol") // IPv4Protocol
}

// annotate makes annotations and fields of what they work out of them.
func annotate(s *abi.Service, conf any) {
	if conf == nil {
		return
	}
	if ref := Text(conf, "tlsContainerRef"); ref != "" {
		s.Annotations[annotation+"default-tls-container-ref"] = ref
	}
	if Bool(conf, "keepClientIP") {
		s.Annotations[annotation+"x-forwarded-for"] = "true"
	}
	if proxy := constant(Text(conf, "proxyProtocolVersion")); proxy != "" {
		s.Annotations[annotation+"proxy-protocol"] = map[string]string{"PROXY": "v1", "PROXYV2": "v2"}[proxy]
	}
	if Bool(conf, "enableMonitor") {
		s.Annotations[annotation+"enable-health-monitor"] = "true"
	}
	for field, name := range map[string]string{
		"connLimit": "connection-limit", "healthMonitorDelay": "health-monitor-delay", "healthMonitorTimeout": "health-monitor-timeout",
		"healthMonitorMaxRetries": "health-monitor-max-retries", "healthMonitorMaxRetriesDown": "health-monitor-max-retries-down",
	} {
		if number := Int(conf, field); number > 0 {
			s.Annotations[annotation+name] = fmt.Sprint(number)
		}
	}
	if subnet := Text(conf, "lbMemberSubnetID"); subnet != "" {
		s.Annotations[annotation+"member-subnet-id"] = subnet
	}
	if port := Int(conf, "healthCheckNodePort"); port > 0 {
		s.ExternalTrafficPolicy, s.HealthCheckNodePort = "Local", int32(port)
	}
	if family := constant(Text(conf, "preferredIPFamily")); family != "" {
		s.IpFamilies = []string{family}
	}
	for _, cidr := range List(conf, "allowedCIDR") {
		s.LoadBalancerSourceRanges = append(s.LoadBalancerSourceRanges, fmt.Sprint(cidr))
	}
}

// options makes a cloud.conf of their LoadBalancerOpts.
func (r *run) options(opts any) {
	for field, key := range map[string]string{
		"LBProvider": "lb-provider", "LBMethod": "lb-method", "SubnetID": "subnet-id", "NetworkID": "network-id", "MemberSubnetID": "member-subnet-id",
		"IngressHostnameSuffix": "ingress-hostname-suffix",
	} {
		r.set("LoadBalancer", key, Text(opts, field))
	}
	if Bool(opts, "EnableIngressHostname") {
		r.set("LoadBalancer", "enable-ingress-hostname", true)
	}
	r.set("LoadBalancer", "container-store", "external") // their references are no URLs
	classes, _ := At(opts, "LBClasses").(Map)
	for _, e := range classes {
		section := fmt.Sprintf("LoadBalancerClass %q", e.Key)
		r.set(section, "subnet-id", Text(e.Value, "SubnetID"))
		r.set(section, "network-id", Text(e.Value, "NetworkID"))
		r.set(section, "member-subnet-id", Text(e.Value, "MemberSubnetID"))
	}
}

// node is one with that address, and a server with a port.
func (r *run) node(name, address string) *abi.Node {
	id := fmt.Sprintf("00000000-0000-4000-8000-%012d", len(r.cloud.objects["ports"])+1)
	r.cloud.put("ports", object{"device_id": id, "network_id": "net", "status": "ACTIVE", "fixed_ips": []object{{"ip_address": address, "subnet_id": "subnet"}}})
	return &abi.Node{
		Name: name, ProviderId: "openstack:///" + id,
		Addresses: []*abi.NodeAddress{{Type: abi.AddressType_ADDRESS_TYPE_INTERNAL_IP, Address: address}},
	}
}

// ensure asks until there is an answer. A Service without ports gets one.
func (r *run) ensure(s *abi.Service, nodes ...*abi.Node) (*abi.LoadBalancerStatus, error) {
	r.t.Helper()
	if len(s.Ports) == 0 {
		s.Ports = []*abi.ServicePort{{Protocol: "TCP", Port: 80}}
	}
	for _, p := range s.Ports {
		if p.NodePort == 0 && s.AllocateNodePorts {
			p.NodePort = 30000 + p.Port%1000
		}
	}
	if s.Name == "" {
		s.Namespace, s.Name = "default", "service"
	}
	if err := r.configure(); err != nil {
		return nil, err
	}
	request := &abi.LoadBalancerRequest{ClusterName: "kubernetes", Service: s, Nodes: r.host.Nodes(nodes...)}
	for range 100 {
		var resp abi.LoadBalancerEnsureResponse
		err := r.host.Call(abi.OpLoadBalancerEnsure, request, &resp)
		if sdk.CodeOf(err) != abi.CodeRetryAfter {
			return resp.Status, err
		}
	}
	r.t.Fatal("the load balancer is never ready")
	return nil, nil
}

// the is the only object of a kind.
func (r *run) the(kind string) object {
	if all := r.cloud.objects[kind]; len(all) == 1 {
		return all[0]
	}
	return object{"error": fmt.Sprintf("%d %s", len(r.cloud.objects[kind]), kind)}
}

// show is a part of an object, in words.
func show(o object, keys ...string) string {
	parts := make([]string, len(keys))
	for i, key := range keys {
		value := o[key]
		if inner, ok := value.(map[string]any); ok && len(inner) == 0 {
			value = nil
		}
		parts[i] = fmt.Sprint(key, "=", value)
	}
	if o["error"] != nil {
		return fmt.Sprint(o["error"])
	}
	return strings.Join(parts, " ")
}
