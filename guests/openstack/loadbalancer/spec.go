package loadbalancer

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/guests/openstack/cloudconf"
	"github.com/wasm-ccm/wasm-ccm/guests/sdk"
)

// spec is the wish of a Service and the cloud.conf. It is made without a call.
type spec struct {
	id       string // of a load balancer to share, else empty
	internal bool
	// family is IPv4, IPv6, or empty for either.
	family    string
	ports     []port
	networks  networks
	selector  map[string]string
	ranges    []string // normalised and sorted
	explicit  bool     // the Service or the cloud.conf asked for these ranges
	monitor   monitorSpec
	affinity  bool
	keepFIP   bool
	proxy     string // PROXY, PROXYV2, or empty
	forwarded bool
	tls       string
	limit     int64
	timeouts  [4]int64
	flavor    string
	zone      string
	address   string // spec.loadBalancerIP
	warnings  []string
}

// port is one port of the Service.
type port struct {
	protocol, listener, pool string
	number, node             int64
}

type monitorSpec struct {
	enabled                           bool
	delay, timeout, retries, downward int64
	// check is the port of the nodes' /healthz, 0 if there is none.
	check int64
}

// networks are the sources of the addresses.
type networks struct {
	port, network, subnet, member             string
	floatingNetwork                           string
	floatingSubnet, floatingName, floatingTag string
}

// timeoutKeys are Octavia's, in the order of spec.timeouts.
var timeoutKeys = [4]string{"timeout_client_data", "timeout_member_connect", "timeout_member_data", "timeout_tcp_inspect"} //nolint:gochecknoglobals // a constant

func newSpec(service *abi.Service, config *cloudconf.Config) (*spec, error) {
	lb := &config.LoadBalancer
	v := &values{of: service.Annotations}
	s := &spec{
		id: v.text(annID, ""), internal: v.flag(annInternal, false) || lb.Internal,
		selector: labels(v.text(annNodeSelector, lb.NodeSelector)),
		affinity: service.SessionAffinity == "ClientIP", keepFIP: v.flag(annKeepFloatingIP, false),
		forwarded: v.flag(annXForwardedFor, false), tls: v.text(annTLSContainer, lb.TLSContainerRef),
		limit: v.number(annConnectionLimit, -1), flavor: v.text(annFlavorID, lb.FlavorID),
		zone: v.text(annAvailabilityZone, lb.AvailabilityZone), address: service.LoadBalancerIp,
		timeouts: [4]int64{v.number(annTimeoutClient, 50000), v.number(annTimeoutConnect, 5000), v.number(annTimeoutMember, 50000), v.number(annTimeoutInspect, 0)},
	}
	if len(service.IpFamilies) > 0 {
		s.family = service.IpFamilies[0]
	}
	s.proxy = proxyProtocol(v.text(annProxyProtocol, "false"))
	s.monitor = monitorOf(v, service, lb)
	var err error
	if s.networks, err = networksOf(v, config, s.internal); err != nil {
		return nil, err
	}
	if s.ports, err = portsOf(service, s); err != nil {
		return nil, err
	}
	if err := s.setRanges(v, service); err != nil {
		return nil, err
	}
	if s.monitor.enabled && s.monitor.timeout > s.monitor.delay {
		v.warnings = append(v.warnings, fmt.Sprintf("a check of the health monitor may take %d s, and there is one every %d s: the timeout should be less than the delay", s.monitor.timeout, s.monitor.delay))
	}
	if hostname := v.text(annHostname, ""); hostname != "" && !isHostname(hostname) {
		return nil, sdk.Invalidf("the annotation %s: %q is not a DNS name in lower case", annHostname, hostname)
	}
	s.warnings = v.warnings
	return s, cmp.Or(v.err, s.check(lb))
}

func (s *spec) check(lb *cloudconf.LoadBalancer) error {
	switch {
	case s.proxy != "" && s.forwarded:
		return sdk.Invalidf("the annotations %s and %s cannot be used together", annProxyProtocol, annXForwardedFor)
	case s.tls != "" && lb.ContainerStore == "barbican" && !isContainer(s.tls):
		return sdk.Invalidf("the annotation %s is not a URL of a container or a secret of Barbican: .../v1/containers/ID", annTLSContainer)
	case s.address != "":
		if _, err := netip.ParseAddr(s.address); err != nil {
			return sdk.Invalidf("spec.loadBalancerIP: %q is not an address", s.address)
		}
	}
	return nil
}

func isContainer(ref string) bool {
	parts := strings.Split(ref, "/")
	if len(parts) < 2 || parts[len(parts)-1] == "" {
		return false
	}
	kind := parts[len(parts)-2]
	return kind == "containers" || kind == "secrets"
}

func proxyProtocol(value string) string {
	switch value {
	case "true", "v1":
		return "PROXY"
	case "v2":
		return "PROXYV2"
	}
	return ""
}

func monitorOf(v *values, service *abi.Service, lb *cloudconf.LoadBalancer) monitorSpec {
	m := monitorSpec{
		enabled:  v.flag(annMonitor, lb.CreateMonitor),
		delay:    v.number(annMonitorDelay, int64(lb.MonitorDelay.Seconds())),
		timeout:  v.number(annMonitorTimeout, int64(lb.MonitorTimeout.Seconds())),
		retries:  v.number(annMonitorRetries, int64(lb.MonitorMaxRetries)),
		downward: v.number(annMonitorRetriesDown, int64(lb.MonitorMaxRetriesDown)),
	}
	if m.enabled && service.ExternalTrafficPolicy == "Local" && service.HealthCheckNodePort > 0 {
		m.check = int64(service.HealthCheckNodePort)
	}
	return m
}

// networksOf chooses between the annotations, the class and the cloud.conf as
// cloud-provider-openstack does: the class wins for the VIP of an external load
// balancer and for floating networks, otherwise the annotation.
func networksOf(v *values, config *cloudconf.Config, internal bool) (networks, error) {
	all := &config.LoadBalancer.Class
	class := &cloudconf.Class{}
	if name := v.text(annClass, ""); name != "" {
		if class = config.Classes[name]; class == nil {
			return networks{}, sdk.Invalidf("the annotation %s: cloud.conf has no [LoadBalancerClass %q]", annClass, name)
		}
	}
	n := networks{
		port:    v.text(annPortID, ""),
		network: cmp.Or(v.text(annNetworkID, ""), class.NetworkID, all.NetworkID),
		subnet:  cmp.Or(v.text(annSubnetID, ""), class.SubnetID, all.SubnetID),
		member:  cmp.Or(v.text(annMemberSubnetID, ""), class.MemberSubnetID, all.MemberSubnetID, all.SubnetID, v.text(annSubnetID, ""), class.SubnetID),
	}
	if !internal {
		n.network, n.subnet = cmp.Or(class.NetworkID, n.network), cmp.Or(class.SubnetID, n.subnet)
	}
	n.floatingNetwork = cmp.Or(class.FloatingNetworkID, v.text(annFloatingNetworkID, all.FloatingNetworkID))
	n.setFloatingSubnet(class, &cloudconf.Class{
		FloatingSubnetID: v.text(annFloatingSubnetID, ""), FloatingSubnet: v.text(annFloatingSubnet, ""), FloatingSubnetTags: v.text(annFloatingSubnetTags, ""),
	}, all)
	return n, nil
}

// setFloatingSubnet takes the first source that sets anything.
func (n *networks) setFloatingSubnet(sources ...*cloudconf.Class) {
	for _, s := range sources {
		switch {
		case s.FloatingSubnetID != "":
			n.floatingSubnet = s.FloatingSubnetID
			return
		case s.FloatingSubnet != "" || s.FloatingSubnetTags != "":
			n.floatingName, n.floatingTag = s.FloatingSubnet, s.FloatingSubnetTags
			return
		}
	}
}

func portsOf(service *abi.Service, s *spec) ([]port, error) {
	if len(service.Ports) == 0 {
		return nil, sdk.Invalidf("the Service has no ports")
	}
	ports := make([]port, len(service.Ports))
	for i, p := range service.Ports {
		protocol := cmp.Or(p.Protocol, "TCP")
		if (s.tls != "" || s.forwarded) && protocol != "TCP" {
			return nil, sdk.Invalidf("port %d is %s: the annotations %s and %s are for Services with TCP ports only", p.Port, protocol, annTLSContainer, annXForwardedFor)
		}
		ports[i] = port{protocol: protocol, number: int64(p.Port), node: int64(p.NodePort)}
		ports[i].listener, ports[i].pool = s.protocols(protocol)
	}
	return ports, nil
}

// protocols are the protocols of a port's listener and pool.
func (s *spec) protocols(protocol string) (listener, pool string) {
	listener, pool = protocol, protocol
	switch {
	case protocol != "TCP":
		return listener, pool
	case s.tls != "":
		listener, pool = "TERMINATED_HTTPS", "HTTP"
	case s.forwarded:
		listener, pool = "HTTP", "HTTP"
	}
	return listener, cmp.Or(s.proxy, pool)
}

// setRanges keeps the source ranges of the VIP's family. An empty rest must
// never come to mean everybody.
func (s *spec) setRanges(v *values, service *abi.Service) error {
	list, where := service.LoadBalancerSourceRanges, "spec.loadBalancerSourceRanges"
	if len(list) == 0 {
		where = "the annotation " + annSourceRanges
		if value := strings.TrimSpace(v.of[annSourceRanges]); value != "" {
			list = strings.Split(value, ",")
		}
	}
	if s.explicit = len(list) > 0; !s.explicit {
		s.ranges = []string{everybody(s.family)}
		return nil
	}
	for _, item := range list {
		prefix, err := netip.ParsePrefix(strings.TrimSpace(item))
		if err != nil {
			return sdk.Invalidf("%s: %q is not a CIDR like 10.0.0.0/24", where, strings.TrimSpace(item))
		}
		if s.family == "" || prefix.Addr().Is6() == (s.family == "IPv6") {
			s.ranges = append(s.ranges, prefix.Masked().String())
		}
	}
	if len(s.ranges) == 0 {
		return sdk.Invalidf("%s has no CIDR of the family of the load balancer, %s", where, s.family)
	}
	slices.Sort(s.ranges)
	s.ranges = slices.Compact(s.ranges)
	return nil
}

func everybody(family string) string {
	if family == "IPv6" {
		return "::/0"
	}
	return "0.0.0.0/0"
}

// wants is for messages.
func (p port) String() string { return fmt.Sprintf("%d/%s", p.number, p.protocol) }
