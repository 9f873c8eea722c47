package upstream

import (
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/wasm-ccm/wasm-ccm/abi"
)

var addressTypes = map[v1.NodeAddressType]abi.AddressType{
	v1.NodeHostName: abi.AddressType_ADDRESS_TYPE_HOSTNAME, v1.NodeInternalIP: abi.AddressType_ADDRESS_TYPE_INTERNAL_IP,
	v1.NodeExternalIP: abi.AddressType_ADDRESS_TYPE_EXTERNAL_IP, v1.NodeInternalDNS: abi.AddressType_ADDRESS_TYPE_INTERNAL_DNS,
	v1.NodeExternalDNS: abi.AddressType_ADDRESS_TYPE_EXTERNAL_DNS,
}

func addressesTo(in []v1.NodeAddress) (out []*abi.NodeAddress) {
	for _, a := range in {
		out = append(out, &abi.NodeAddress{Type: addressTypes[a.Type], Address: a.Address})
	}
	return out
}

func addressesFrom(in []*abi.NodeAddress) (out []v1.NodeAddress) {
	for _, a := range in {
		for kind, number := range addressTypes {
			if number == a.Type {
				out = append(out, v1.NodeAddress{Type: kind, Address: a.Address})
			}
		}
	}
	return out
}

func nodeFrom(n *abi.Node) *v1.Node {
	out := &v1.Node{
		TypeMeta:   metav1.TypeMeta{Kind: "Node", APIVersion: "v1"},
		ObjectMeta: metav1.ObjectMeta{Name: n.Name, UID: types.UID(n.Uid), Labels: n.Labels, Annotations: n.Annotations},
		Spec:       v1.NodeSpec{ProviderID: n.ProviderId, PodCIDRs: n.PodCidrs},
		Status: v1.NodeStatus{Addresses: addressesFrom(n.Addresses), NodeInfo: v1.NodeSystemInfo{
			SystemUUID: n.SystemUuid, MachineID: n.MachineId,
		}},
	}
	if len(n.PodCidrs) > 0 {
		out.Spec.PodCIDR = n.PodCidrs[0]
	}
	return out
}

func metadataTo(m *cloudprovider.InstanceMetadata) *abi.InstanceMetadata {
	return &abi.InstanceMetadata{
		ProviderId: m.ProviderID, InstanceType: m.InstanceType, Addresses: addressesTo(m.NodeAddresses),
		Zone: m.Zone, Region: m.Region, AdditionalLabels: m.AdditionalLabels,
	}
}

func serviceFrom(s *abi.Service) *v1.Service {
	out := &v1.Service{
		TypeMeta:   metav1.TypeMeta{Kind: "Service", APIVersion: "v1"},
		ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: s.Name, UID: types.UID(s.Uid), Labels: s.Labels, Annotations: s.Annotations},
		Spec:       serviceSpec(s),
	}
	if out.Annotations == nil { // providers write to it
		out.Annotations = map[string]string{}
	}
	if s.Deleting {
		now := metav1.Now()
		out.DeletionTimestamp = &now
	}
	if s.Status != nil {
		out.Status.LoadBalancer = statusFrom(s.Status)
	}
	return out
}

func serviceSpec(s *abi.Service) v1.ServiceSpec {
	out := v1.ServiceSpec{
		Type: v1.ServiceTypeLoadBalancer, Ports: portsFrom(s.Ports), ClusterIPs: s.ClusterIps, ExternalIPs: s.ExternalIps,
		LoadBalancerIP: s.LoadBalancerIp, LoadBalancerSourceRanges: s.LoadBalancerSourceRanges, LoadBalancerClass: text(s.LoadBalancerClass),
		SessionAffinity: v1.ServiceAffinity(s.SessionAffinity), ExternalTrafficPolicy: v1.ServiceExternalTrafficPolicy(s.ExternalTrafficPolicy),
		HealthCheckNodePort: s.HealthCheckNodePort, AllocateLoadBalancerNodePorts: &s.AllocateNodePorts,
	}
	if len(s.ClusterIps) > 0 {
		out.ClusterIP = s.ClusterIps[0]
	}
	if s.SessionAffinityTimeoutSeconds != 0 {
		out.SessionAffinityConfig = &v1.SessionAffinityConfig{ClientIP: &v1.ClientIPConfig{TimeoutSeconds: &s.SessionAffinityTimeoutSeconds}}
	}
	for _, family := range s.IpFamilies {
		out.IPFamilies = append(out.IPFamilies, v1.IPFamily(family))
	}
	if s.IpFamilyPolicy != "" {
		policy := v1.IPFamilyPolicy(s.IpFamilyPolicy)
		out.IPFamilyPolicy = &policy
	}
	return out
}

func portsFrom(in []*abi.ServicePort) (out []v1.ServicePort) {
	for _, p := range in {
		out = append(out, v1.ServicePort{
			Name: p.Name, Protocol: v1.Protocol(p.Protocol), AppProtocol: text(p.AppProtocol), Port: p.Port, NodePort: p.NodePort, TargetPort: intstr.Parse(p.TargetPort),
		})
	}
	return out
}

// text is nil for an empty text: Kubernetes has none in these fields.
func text(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

func statusFrom(s *abi.LoadBalancerStatus) (out v1.LoadBalancerStatus) {
	for _, in := range s.Ingress {
		ingress := v1.LoadBalancerIngress{IP: in.Ip, Hostname: in.Hostname}
		if in.IpMode != "" {
			mode := v1.LoadBalancerIPMode(in.IpMode)
			ingress.IPMode = &mode
		}
		for _, p := range in.Ports {
			ingress.Ports = append(ingress.Ports, v1.PortStatus{Port: p.Port, Protocol: v1.Protocol(p.Protocol), Error: text(p.Error)})
		}
		out.Ingress = append(out.Ingress, ingress)
	}
	return out
}

func statusTo(s *v1.LoadBalancerStatus) *abi.LoadBalancerStatus {
	if s == nil {
		return nil
	}
	out := &abi.LoadBalancerStatus{}
	for _, i := range s.Ingress {
		in := &abi.LoadBalancerIngress{Ip: i.IP, Hostname: i.Hostname}
		if i.IPMode != nil {
			in.IpMode = string(*i.IPMode)
		}
		for _, p := range i.Ports {
			ps := &abi.PortStatus{Port: p.Port, Protocol: string(p.Protocol)}
			if p.Error != nil {
				ps.Error = *p.Error
			}
			in.Ports = append(in.Ports, ps)
		}
		out.Ingress = append(out.Ingress, in)
	}
	return out
}

func routeTo(r *cloudprovider.Route) *abi.Route {
	return &abi.Route{
		Name: r.Name, TargetNode: string(r.TargetNode), DestinationCidr: r.DestinationCIDR, Blackhole: r.Blackhole,
		TargetNodeAddresses: addressesTo(r.TargetNodeAddresses), HasTargetNodeAddresses: r.EnableNodeAddresses,
	}
}

func routeFrom(r *abi.Route) *cloudprovider.Route {
	return &cloudprovider.Route{
		Name: r.Name, TargetNode: types.NodeName(r.TargetNode), DestinationCIDR: r.DestinationCidr, Blackhole: r.Blackhole,
		TargetNodeAddresses: addressesFrom(r.TargetNodeAddresses), EnableNodeAddresses: r.HasTargetNodeAddresses,
	}
}
