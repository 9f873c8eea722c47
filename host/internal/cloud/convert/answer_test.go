package convert

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/host/internal/cloud/addresses"
)

// check compares the outcome with what is wanted: a value, or a part of an error.
func check[T any](t *testing.T, got T, err error, want T, wantErr string) {
	t.Helper()
	if wantErr != "" {
		if err == nil || !strings.Contains(err.Error(), wantErr) {
			t.Fatalf("error %v, want one with %q", err, wantErr)
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got, messages); diff != "" {
		t.Error(diff)
	}
}

func TestInstanceMetadata(t *testing.T) {
	address := func(kind abi.AddressType, text string) *abi.InstanceMetadata {
		return &abi.InstanceMetadata{Addresses: []*abi.NodeAddress{{Type: kind, Address: text}}}
	}
	tooMany := map[string]string{}
	for i := range MaxLabels + 1 {
		tooMany[fmt.Sprintf("l%d", i)] = ""
	}
	tests := map[string]struct {
		in      *abi.InstanceMetadata
		want    *cloudprovider.InstanceMetadata
		wantErr string
	}{
		"nil":   {wantErr: "no metadata"},
		"empty": {in: &abi.InstanceMetadata{}, want: &cloudprovider.InstanceMetadata{}},
		"all": {
			in: &abi.InstanceMetadata{
				ProviderId: "static://1", InstanceType: "m1.large", Zone: "z", Region: "r",
				AdditionalLabels: map[string]string{"example.org/rack": "7"},
				Addresses: []*abi.NodeAddress{
					{Type: abi.AddressType_ADDRESS_TYPE_HOSTNAME, Address: "n1"},
					{Type: abi.AddressType_ADDRESS_TYPE_INTERNAL_IP, Address: "2001:DB8:0::1"},
					{Type: abi.AddressType_ADDRESS_TYPE_INTERNAL_IP, Address: "2001:db8::1"},
					{Type: abi.AddressType_ADDRESS_TYPE_EXTERNAL_IP, Address: "192.0.2.1"},
					{Type: abi.AddressType_ADDRESS_TYPE_INTERNAL_DNS, Address: "n1.internal"},
					{Type: abi.AddressType_ADDRESS_TYPE_EXTERNAL_DNS, Address: "n1.example.org"},
				},
			},
			want: &cloudprovider.InstanceMetadata{
				ProviderID: "static://1", InstanceType: "m1.large", Zone: "z", Region: "r",
				AdditionalLabels: map[string]string{"example.org/rack": "7"},
				NodeAddresses: []corev1.NodeAddress{
					{Type: corev1.NodeHostName, Address: "n1"},
					{Type: corev1.NodeInternalIP, Address: "2001:db8::1"},
					{Type: corev1.NodeExternalIP, Address: "192.0.2.1"},
					{Type: corev1.NodeInternalDNS, Address: "n1.internal"},
					{Type: corev1.NodeExternalDNS, Address: "n1.example.org"},
				},
			},
		},
		"unspecified type":      {in: address(0, "192.0.2.1"), wantErr: "addresses[0]: unknown address type 0"},
		"unknown type":          {in: address(99, "192.0.2.1"), wantErr: "unknown address type 99"},
		"not an IP":             {in: address(abi.AddressType_ADDRESS_TYPE_INTERNAL_IP, "n1"), wantErr: `"n1" is not an IP address`},
		"leading zeros":         {in: address(abi.AddressType_ADDRESS_TYPE_INTERNAL_IP, "192.0.02.1"), wantErr: "not an IP address"},
		"IPv6 zone":             {in: address(abi.AddressType_ADDRESS_TYPE_INTERNAL_IP, "fe80::1%eth0"), wantErr: "has a zone"},
		"0.0.0.0":               {in: address(abi.AddressType_ADDRESS_TYPE_EXTERNAL_IP, "0.0.0.0"), wantErr: "nobody's address"},
		"IPv4-mapped":           {in: address(abi.AddressType_ADDRESS_TYPE_INTERNAL_IP, "::ffff:192.0.2.1"), wantErr: "192.0.2.1 is meant"},
		"loopback":              {in: address(abi.AddressType_ADDRESS_TYPE_INTERNAL_IP, "127.0.0.1"), wantErr: "addresses[0]: 127.0.0.1 is refused: it is a loopback address"},
		"localhost":             {in: address(abi.AddressType_ADDRESS_TYPE_HOSTNAME, "LocalHost"), wantErr: `addresses[0]: Hostname: "localhost" is refused`},
		"hostname with a space": {in: address(abi.AddressType_ADDRESS_TYPE_INTERNAL_DNS, "a b"), wantErr: "no letter, digit"},
		"empty hostname":        {in: address(abi.AddressType_ADDRESS_TYPE_HOSTNAME, ""), wantErr: "without a name"},
		"newline in a hostname": {in: address(abi.AddressType_ADDRESS_TYPE_HOSTNAME, "a\nb"), wantErr: "not printable"},
		"long hostname":         {in: address(abi.AddressType_ADDRESS_TYPE_HOSTNAME, strings.Repeat("a", 254)), wantErr: "254 bytes"},
		"nil address":           {in: &abi.InstanceMetadata{Addresses: []*abi.NodeAddress{nil}}, wantErr: "unknown address type"},
		"too many addresses":    {in: &abi.InstanceMetadata{Addresses: make([]*abi.NodeAddress, MaxAddresses+1)}, wantErr: "65 addresses"},
		"long provider ID":      {in: &abi.InstanceMetadata{ProviderId: strings.Repeat("a", 1025)}, wantErr: "provider_id has 1025 bytes"},
		"provider ID not UTF-8": {in: &abi.InstanceMetadata{ProviderId: "\xff"}, wantErr: "not printable"},
		"zone no label value":   {in: &abi.InstanceMetadata{Zone: "a b"}, wantErr: `zone "a b" cannot be a label`},
		"label key":             {in: &abi.InstanceMetadata{AdditionalLabels: map[string]string{"a/b/c": ""}}, wantErr: `additional_labels: label key "a/b/c"`},
		"label of ours":         {in: &abi.InstanceMetadata{AdditionalLabels: map[string]string{"wasm-ccm.dev/provider": "other"}}, wantErr: "only the manager and the administrator"},
		"control plane":         {in: &abi.InstanceMetadata{AdditionalLabels: map[string]string{"node-role.kubernetes.io/control-plane": ""}}, wantErr: "only the administrator assigns"},
		"old control plane":     {in: &abi.InstanceMetadata{AdditionalLabels: map[string]string{"node-role.kubernetes.io/master": ""}}, wantErr: "only the administrator assigns"},
		"label value":           {in: &abi.InstanceMetadata{AdditionalLabels: map[string]string{"a": "?"}}, wantErr: `label a "?" cannot be`},
		"too many labels":       {in: &abi.InstanceMetadata{AdditionalLabels: tooMany}, wantErr: "129 labels"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := InstanceMetadata(test.in, addresses.Default())
			check(t, got, err, test.want, test.wantErr)
		})
	}
}

func TestCloudLoadBalancerStatus(t *testing.T) {
	vip, proxy, reason := corev1.LoadBalancerIPModeVIP, corev1.LoadBalancerIPModeProxy, "example.org/busy"
	one := func(in *abi.LoadBalancerIngress) *abi.LoadBalancerStatus {
		return &abi.LoadBalancerStatus{Ingress: []*abi.LoadBalancerIngress{in}}
	}
	want := func(in corev1.LoadBalancerIngress) *corev1.LoadBalancerStatus {
		return &corev1.LoadBalancerStatus{Ingress: []corev1.LoadBalancerIngress{in}}
	}
	port := func(port int32, protocol, reason string) *abi.LoadBalancerStatus {
		return one(&abi.LoadBalancerIngress{Ip: "192.0.2.1", Ports: []*abi.PortStatus{{Port: port, Protocol: protocol, Error: reason}}})
	}
	tests := map[string]struct {
		in      *abi.LoadBalancerStatus
		want    *corev1.LoadBalancerStatus
		wantErr string
	}{
		"nil":                 {wantErr: "no load balancer status"},
		"no ingress":          {in: &abi.LoadBalancerStatus{}, want: &corev1.LoadBalancerStatus{}},
		"unset mode with IP":  {in: one(&abi.LoadBalancerIngress{Ip: "192.0.2.1"}), want: want(corev1.LoadBalancerIngress{IP: "192.0.2.1", IPMode: &vip})},
		"VIP":                 {in: one(&abi.LoadBalancerIngress{Ip: "192.0.2.1", IpMode: "VIP"}), want: want(corev1.LoadBalancerIngress{IP: "192.0.2.1", IPMode: &vip})},
		"Proxy":               {in: one(&abi.LoadBalancerIngress{Ip: "2001:DB8::1", IpMode: "Proxy"}), want: want(corev1.LoadBalancerIngress{IP: "2001:db8::1", IPMode: &proxy})},
		"hostname only":       {in: one(&abi.LoadBalancerIngress{Hostname: "lb.example.org"}), want: want(corev1.LoadBalancerIngress{Hostname: "lb.example.org"})},
		"IPv4-mapped":         {in: one(&abi.LoadBalancerIngress{Ip: "::ffff:192.0.2.1"}), wantErr: "ingress[0]: ip: ::ffff:192.0.2.1 is refused"},
		"loopback":            {in: one(&abi.LoadBalancerIngress{Ip: "127.0.0.1"}), wantErr: "ingress[0]: ip: 127.0.0.1 is refused: it is a loopback address; if it is right, add 127.0.0.1/32 to providers[].addresses.allow"},
		"the API server":      {in: one(&abi.LoadBalancerIngress{Ip: "192.0.2.1", Hostname: "kubernetes.default.svc"}), wantErr: `ingress[0]: hostname: "kubernetes.default.svc" is refused`},
		"port":                {in: port(80, "TCP", ""), want: want(corev1.LoadBalancerIngress{IP: "192.0.2.1", IPMode: &vip, Ports: []corev1.PortStatus{{Port: 80, Protocol: "TCP"}}})},
		"port error":          {in: port(80, "UDP", reason), want: want(corev1.LoadBalancerIngress{IP: "192.0.2.1", IPMode: &vip, Ports: []corev1.PortStatus{{Port: 80, Protocol: "UDP", Error: &reason}}})},
		"hostname with mode":  {in: one(&abi.LoadBalancerIngress{Hostname: "lb.example.org", IpMode: "VIP"}), wantErr: "without an ip"},
		"unknown mode":        {in: one(&abi.LoadBalancerIngress{Ip: "192.0.2.1", IpMode: "vip"}), wantErr: `unknown ip_mode "vip"`},
		"bad IP":              {in: one(&abi.LoadBalancerIngress{Ip: "192.0.2"}), wantErr: `ingress[0]: ip: "192.0.2" is not an IP address`},
		"neither":             {in: one(&abi.LoadBalancerIngress{}), wantErr: "neither ip nor hostname"},
		"nil ingress":         {in: one(nil), wantErr: "neither ip nor hostname"},
		"hostname is an IP":   {in: one(&abi.LoadBalancerIngress{Hostname: "192.0.2.1"}), wantErr: "use ip"},
		"bad hostname":        {in: one(&abi.LoadBalancerIngress{Hostname: "LB_1"}), wantErr: `hostname: "LB_1"`},
		"port 0":              {in: port(0, "TCP", ""), wantErr: "ports[0]: port 0"},
		"port 65536":          {in: port(65536, "TCP", ""), wantErr: "port 65536"},
		"unknown protocol":    {in: port(80, "ICMP", ""), wantErr: `unknown protocol "ICMP"`},
		"too many ingress":    {in: &abi.LoadBalancerStatus{Ingress: make([]*abi.LoadBalancerIngress, MaxIngress+1)}, wantErr: "65 ingress"},
		"too many port texts": {in: one(&abi.LoadBalancerIngress{Ip: "192.0.2.1", Ports: make([]*abi.PortStatus, MaxPortStatuses+1)}), wantErr: "257 ports"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := CloudLoadBalancerStatus(test.in, addresses.Default())
			check(t, got, err, test.want, test.wantErr)
		})
	}
}

func TestCloudRoutes(t *testing.T) {
	tests := map[string]struct {
		in      []*abi.Route
		want    []*cloudprovider.Route
		wantErr string
	}{
		"none": {want: []*cloudprovider.Route{}},
		"without addresses": {
			in:   []*abi.Route{{Name: "r", TargetNode: "n1", DestinationCidr: "10.0.0.5/24", TargetNodeAddresses: []*abi.NodeAddress{{}}}},
			want: []*cloudprovider.Route{{Name: "r", TargetNode: "n1", DestinationCIDR: "10.0.0.5/24"}},
		},
		"with addresses": {
			in: []*abi.Route{{TargetNode: "n1", DestinationCidr: "fd00::/64", HasTargetNodeAddresses: true, TargetNodeAddresses: []*abi.NodeAddress{
				{Type: abi.AddressType_ADDRESS_TYPE_INTERNAL_IP, Address: "192.0.2.1"}}}},
			want: []*cloudprovider.Route{{TargetNode: "n1", DestinationCIDR: "fd00::/64", EnableNodeAddresses: true,
				TargetNodeAddresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "192.0.2.1"}}}},
		},
		"blackhole":   {in: []*abi.Route{{DestinationCidr: "10.0.0.0/24", Blackhole: true}}, want: []*cloudprovider.Route{{DestinationCIDR: "10.0.0.0/24", Blackhole: true}}},
		"no CIDR":     {in: []*abi.Route{{DestinationCidr: "10.0.0.0/24"}, {DestinationCidr: "10.0.1.0"}}, wantErr: `routes[1]: destination_cidr "10.0.1.0"`},
		"leading 0":   {in: []*abi.Route{{DestinationCidr: "010.0.0.0/24"}}, wantErr: `routes[0]: destination_cidr "010.0.0.0/24"`},
		"IPv4-mapped": {in: []*abi.Route{{DestinationCidr: "::ffff:10.0.0.0/120"}}, wantErr: "in the notation of IPv6"},
		"default route": {in: []*abi.Route{{DestinationCidr: "0.0.0.0/0", TargetNode: "n1"}, {DestinationCidr: "10.0.0.0/24"}, {DestinationCidr: "::/0"}},
			want: []*cloudprovider.Route{{DestinationCIDR: "10.0.0.0/24"}}},
		"nil route":   {in: []*abi.Route{nil}, wantErr: "is not a CIDR"},
		"bad name":    {in: []*abi.Route{{Name: "\x00", DestinationCidr: "10.0.0.0/24"}}, wantErr: "not printable"},
		"bad address": {in: []*abi.Route{{DestinationCidr: "10.0.0.0/24", HasTargetNodeAddresses: true, TargetNodeAddresses: []*abi.NodeAddress{{}}}}, wantErr: "target_node_addresses[0]: unknown address type"},
		"too many":    {in: make([]*abi.Route, MaxRoutes+1), wantErr: "32769 routes"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, _, err := CloudRoutes(test.in, addresses.Default())
			check(t, got, err, test.want, test.wantErr)
		})
	}
}

func TestCloudVolumeLabels(t *testing.T) {
	got, err := CloudVolumeLabels(nil)
	check(t, got, err, map[string]string{}, "")
	got, err = CloudVolumeLabels(map[string]string{corev1.LabelTopologyZone: "a__b"})
	check(t, got, err, map[string]string{corev1.LabelTopologyZone: "a__b"}, "")
	got, err = CloudVolumeLabels(map[string]string{corev1.LabelTopologyZone: "a,b"})
	check(t, got, err, nil, `"a,b" cannot be a label`)
}
