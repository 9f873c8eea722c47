package convert

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/wasm-ccm/wasm-ccm/abi"
)

// Service returns the message of a Service.
func Service(s *corev1.Service) *abi.Service {
	out := &abi.Service{
		Namespace:                s.Namespace,
		Name:                     s.Name,
		Uid:                      string(s.UID),
		Labels:                   maps.Clone(s.Labels),
		Annotations:              maps.Clone(s.Annotations),
		Ports:                    servicePorts(s.Spec.Ports),
		ClusterIps:               clusterIPs(s),
		ExternalIps:              slices.Clone(s.Spec.ExternalIPs),
		LoadBalancerIp:           s.Spec.LoadBalancerIP,
		LoadBalancerSourceRanges: slices.Clone(s.Spec.LoadBalancerSourceRanges),
		LoadBalancerClass:        value(s.Spec.LoadBalancerClass),
		SessionAffinity:          string(s.Spec.SessionAffinity),
		ExternalTrafficPolicy:    string(s.Spec.ExternalTrafficPolicy),
		HealthCheckNodePort:      s.Spec.HealthCheckNodePort,
		IpFamilies:               texts(s.Spec.IPFamilies),
		IpFamilyPolicy:           string(value(s.Spec.IPFamilyPolicy)),
		AllocateNodePorts:        s.Spec.AllocateLoadBalancerNodePorts == nil || *s.Spec.AllocateLoadBalancerNodePorts,
		Status:                   LoadBalancerStatus(&s.Status.LoadBalancer),
		Deleting:                 s.DeletionTimestamp != nil,
	}
	if c := s.Spec.SessionAffinityConfig; c != nil && c.ClientIP != nil {
		out.SessionAffinityTimeoutSeconds = value(c.ClientIP.TimeoutSeconds)
	}
	return out
}

func servicePorts(ports []corev1.ServicePort) []*abi.ServicePort {
	var out []*abi.ServicePort
	for _, p := range ports {
		out = append(out, &abi.ServicePort{
			Name:        p.Name,
			Protocol:    string(p.Protocol),
			AppProtocol: value(p.AppProtocol),
			Port:        p.Port,
			TargetPort:  p.TargetPort.String(),
			NodePort:    p.NodePort,
		})
	}
	return out
}

func clusterIPs(s *corev1.Service) []string {
	if len(s.Spec.ClusterIPs) == 0 && s.Spec.ClusterIP != "" {
		return []string{s.Spec.ClusterIP}
	}
	return slices.Clone(s.Spec.ClusterIPs)
}

// value returns what p points to, or the zero value.
func value[T any](p *T) T {
	if p == nil {
		var zero T
		return zero
	}
	return *p
}

func texts[T ~string](in []T) []string {
	var out []string
	for _, s := range in {
		out = append(out, string(s))
	}
	return out
}
