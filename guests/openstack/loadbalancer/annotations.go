package loadbalancer

// Status says how an annotation is treated.
type Status string

// The statuses.
const (
	Supported Status = "supported"
	// Ignored: the annotation has no effect here.
	Ignored Status = "no effect"
)

// Annotation is an annotation of a Service, for the reader and the reference.
type Annotation struct {
	Name string
	// Type is string, bool, number or list.
	Type string
	// Default is for people; the key of cloud.conf if there is one.
	Default string
	Status  Status
	// Note is for people: the effect, or the reason why there is none.
	Note string
	// Low and High bound a number.
	Low, High int64
}

const annotationPrefix = "loadbalancer.openstack.org/"

// The annotations, by the names that users of cloud-provider-openstack know.
const (
	annInternal           = "service.beta.kubernetes.io/openstack-internal-load-balancer"
	annSourceRanges       = "service.beta.kubernetes.io/load-balancer-source-ranges"
	annClass              = annotationPrefix + "class"
	annID                 = annotationPrefix + "load-balancer-id"
	annPortID             = annotationPrefix + "port-id"
	annNetworkID          = annotationPrefix + "network-id"
	annSubnetID           = annotationPrefix + "subnet-id"
	annMemberSubnetID     = annotationPrefix + "member-subnet-id"
	annFloatingNetworkID  = annotationPrefix + "floating-network-id"
	annFloatingSubnetID   = annotationPrefix + "floating-subnet-id"
	annFloatingSubnet     = annotationPrefix + "floating-subnet"
	annFloatingSubnetTags = annotationPrefix + "floating-subnet-tags"
	annKeepFloatingIP     = annotationPrefix + "keep-floatingip"
	annNodeSelector       = annotationPrefix + "node-selector"
	annConnectionLimit    = annotationPrefix + "connection-limit"
	annProxyProtocol      = annotationPrefix + "proxy-protocol"
	annXForwardedFor      = annotationPrefix + "x-forwarded-for"
	annTLSContainer       = annotationPrefix + "default-tls-container-ref"
	annTimeoutClient      = annotationPrefix + "timeout-client-data"
	annTimeoutConnect     = annotationPrefix + "timeout-member-connect"
	annTimeoutMember      = annotationPrefix + "timeout-member-data"
	annTimeoutInspect     = annotationPrefix + "timeout-tcp-inspect"
	annMonitor            = annotationPrefix + "enable-health-monitor"
	annMonitorDelay       = annotationPrefix + "health-monitor-delay"
	annMonitorTimeout     = annotationPrefix + "health-monitor-timeout"
	annMonitorRetries     = annotationPrefix + "health-monitor-max-retries"
	annMonitorRetriesDown = annotationPrefix + "health-monitor-max-retries-down"
	annFlavorID           = annotationPrefix + "flavor-id"
	annAvailabilityZone   = annotationPrefix + "availability-zone"
	annHostname           = annotationPrefix + "hostname"
	annAddress            = annotationPrefix + "load-balancer-address"
)

// maxTimeout is 24 days in milliseconds.
const maxTimeout = 1<<31 - 1

// Annotations are all annotations, in the order of the reference.
func Annotations() []Annotation {
	return append(networkAnnotations(), trafficAnnotations()...)
}

func networkAnnotations() []Annotation {
	return []Annotation{
		flag(annInternal, "[LoadBalancer] internal-lb", "no floating IP; with internal-lb=true in cloud.conf it is always so"),
		text(annClass, "", "a [LoadBalancerClass] of cloud.conf"),
		text(annID, "", "share this load balancer instead of having one; it is not written back into Services"),
		text(annPortID, "", "port of Neutron to be the VIP"),
		text(annNetworkID, "[LoadBalancer] network-id", "network of the VIP"),
		text(annSubnetID, "[LoadBalancer] subnet-id", "subnet of the VIP"),
		text(annMemberSubnetID, "[LoadBalancer] member-subnet-id", "subnet of the members"),
		text(annFloatingNetworkID, "[LoadBalancer] floating-network-id", "external network of the floating IPs"),
		text(annFloatingSubnetID, "[LoadBalancer] floating-subnet-id", "its subnet"),
		text(annFloatingSubnet, "[LoadBalancer] floating-subnet", "its subnets by name: a glob, or a regular expression behind ~; ! negates"),
		text(annFloatingSubnetTags, "[LoadBalancer] floating-subnet-tags", "its subnets by tags; & wants all of them, ! negates"),
		flag(annKeepFloatingIP, "false", "the floating IP stays when the Service goes or becomes internal"),
		text(annHostname, "", "this name is the status, instead of the address"),
		{Name: annAddress, Type: "string", Status: Ignored, Note: "nothing is written into Services: status.loadBalancer has the address"},
	}
}

func trafficAnnotations() []Annotation {
	return []Annotation{
		{Name: annSourceRanges, Type: "list", Status: Supported, Note: "CIDRs, where spec.loadBalancerSourceRanges is empty; not with the provider ovn"},
		text(annNodeSelector, "[LoadBalancer] node-selector", "labels that members must have: key=value, key"),
		number(annConnectionLimit, "-1", "connections per listener; -1 is no limit", -1, 1<<31-1),
		text(annProxyProtocol, "false", "true or v1, v2: PROXY protocol to the members of TCP ports"),
		flag(annXForwardedFor, "false", "TCP ports become HTTP and get that header; not together with proxy-protocol"),
		text(annTLSContainer, "[LoadBalancer] default-tls-container-ref", "TCP ports become TERMINATED_HTTPS with that container of Barbican"),
		number(annTimeoutClient, "50000", "milliseconds; not with the provider ovn", 0, maxTimeout),
		number(annTimeoutConnect, "5000", "milliseconds; not with the provider ovn", 0, maxTimeout),
		number(annTimeoutMember, "50000", "milliseconds; not with the provider ovn", 0, maxTimeout),
		number(annTimeoutInspect, "0", "milliseconds; not with the provider ovn", 0, maxTimeout),
		flag(annMonitor, "[LoadBalancer] create-monitor", "health monitors; with externalTrafficPolicy Local they ask /healthz at healthCheckNodePort"),
		number(annMonitorDelay, "[LoadBalancer] monitor-delay", "seconds", 1, 3600),
		number(annMonitorTimeout, "[LoadBalancer] monitor-timeout", "seconds, less than the delay", 1, 3600),
		number(annMonitorRetries, "[LoadBalancer] monitor-max-retries", "checks that succeed before a member is up", 1, 10),
		number(annMonitorRetriesDown, "[LoadBalancer] monitor-max-retries-down", "checks that fail before a member is down", 1, 10),
		text(annFlavorID, "[LoadBalancer] flavor-id", "flavor of Octavia, when the load balancer is made; not with the provider ovn"),
		text(annAvailabilityZone, "[LoadBalancer] availability-zone", "availability zone of Octavia, when the load balancer is made; not with the provider ovn"),
	}
}

func text(name, def, note string) Annotation {
	return Annotation{Name: name, Type: "string", Default: def, Status: Supported, Note: note}
}

func flag(name, def, note string) Annotation {
	return Annotation{Name: name, Type: "bool", Default: def, Status: Supported, Note: note}
}

func number(name, def, note string, low, high int64) Annotation {
	return Annotation{Name: name, Type: "number", Default: def, Status: Supported, Note: note, Low: low, High: high}
}
