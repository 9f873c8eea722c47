package convert

import (
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/host/internal/cloud/addresses"
	"github.com/wasm-ccm/wasm-ccm/host/internal/text"
)

// LoadBalancerStatus returns the message of a status, nil for nil.
func LoadBalancerStatus(s *corev1.LoadBalancerStatus) *abi.LoadBalancerStatus {
	if s == nil {
		return nil
	}
	out := &abi.LoadBalancerStatus{}
	for _, in := range s.Ingress {
		ingress := &abi.LoadBalancerIngress{Ip: in.IP, Hostname: in.Hostname, IpMode: string(value(in.IPMode))}
		for _, p := range in.Ports {
			ingress.Ports = append(ingress.Ports, &abi.PortStatus{Port: p.Port, Protocol: string(p.Protocol), Error: value(p.Error)})
		}
		out.Ingress = append(out.Ingress, ingress)
	}
	return out
}

// CloudLoadBalancerStatus checks and converts a guest's status. A nil message is an error.
// An ingress with an IP address always gets an ipMode: the API server fills in VIP, and a
// status without it would differ and be patched at every Ensure.
func CloudLoadBalancerStatus(s *abi.LoadBalancerStatus, policy *addresses.Policy) (*corev1.LoadBalancerStatus, error) {
	if s == nil {
		return nil, errors.New("the answer has no load balancer status")
	}
	if len(s.Ingress) > MaxIngress {
		return nil, fmt.Errorf("%d ingress points, at most %d are allowed", len(s.Ingress), MaxIngress)
	}
	out := &corev1.LoadBalancerStatus{}
	for i, in := range s.Ingress {
		ingress, err := cloudIngress(value(in), policy)
		if err != nil {
			return nil, fmt.Errorf("ingress[%d]: %w", i, err)
		}
		out.Ingress = append(out.Ingress, ingress)
	}
	return out, nil
}

func cloudIngress(in abi.LoadBalancerIngress, policy *addresses.Policy) (out corev1.LoadBalancerIngress, err error) {
	if in.Ip == "" && in.Hostname == "" {
		return out, errors.New("neither ip nor hostname is set")
	}
	if in.Ip != "" {
		if out.IP, err = checkIP(in.Ip, policy); err != nil {
			return out, fmt.Errorf("ip: %w", err)
		}
	}
	if out.IPMode, err = ipMode(in); err != nil {
		return out, err
	}
	if out.Hostname = in.Hostname; out.Hostname != "" {
		// Invariant A1 (host/SECURITY.md): every name of an answer passes this check on its way into
		// a Service.
		if err := policy.Hostname(out.Hostname); err != nil {
			return out, fmt.Errorf("hostname: %w", err)
		}
	}
	out.Ports, err = portStatuses(in.Ports)
	return out, err
}

func ipMode(in abi.LoadBalancerIngress) (*corev1.LoadBalancerIPMode, error) {
	mode := corev1.LoadBalancerIPMode(in.IpMode)
	switch {
	case in.Ip == "" && mode == "":
		return nil, nil
	case in.Ip == "":
		return nil, fmt.Errorf("ip_mode %s stands without an ip, leave it out", text.Quote(in.IpMode))
	case mode == "":
		mode = corev1.LoadBalancerIPModeVIP
	case mode != corev1.LoadBalancerIPModeVIP && mode != corev1.LoadBalancerIPModeProxy:
		return nil, fmt.Errorf("unknown ip_mode %s, use VIP or Proxy", text.Quote(in.IpMode))
	}
	return &mode, nil
}

func portStatuses(in []*abi.PortStatus) ([]corev1.PortStatus, error) {
	if len(in) > MaxPortStatuses {
		return nil, fmt.Errorf("%d ports, at most %d are allowed", len(in), MaxPortStatuses)
	}
	var out []corev1.PortStatus
	for i, p := range in {
		port, err := portStatus(value(p))
		if err != nil {
			return nil, fmt.Errorf("ports[%d]: %w", i, err)
		}
		out = append(out, port)
	}
	return out, nil
}

func portStatus(p abi.PortStatus) (corev1.PortStatus, error) {
	out := corev1.PortStatus{Port: p.Port, Protocol: corev1.Protocol(p.Protocol)}
	if out.Port < 1 || out.Port > 65535 {
		return out, fmt.Errorf("port %d is not from 1 to 65535", out.Port)
	}
	switch out.Protocol {
	case corev1.ProtocolTCP, corev1.ProtocolUDP, corev1.ProtocolSCTP:
	default:
		return out, fmt.Errorf("unknown protocol %s, use TCP, UDP or SCTP", text.Quote(p.Protocol))
	}
	if reason := p.Error; reason != "" {
		if err := checkText("error", reason, maxPortErrorBytes); err != nil {
			return out, err
		}
		out.Error = &reason
	}
	return out, nil
}
