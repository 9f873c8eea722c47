package loadbalancer

import (
	"testing"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/guests/openstack/cloudconf"
)

// FuzzSpec: any Service is refused, or gives a load balancer with ports and
// source ranges. No ranges never come to mean everybody.
func FuzzSpec(f *testing.F) {
	all := Annotations()
	f.Add(uint8(0), "true", "10.0.0.0/8", "IPv4", "203.0.113.1")
	f.Add(uint8(5), "~^a.*b$", "fd00::/8,::/0", "IPv6", "")
	f.Add(uint8(20), "-1", "", "", "x")
	f.Add(uint8(9), "!{a,b}*[x-z]?**", " 10.1.2.3/8 , 10.0.0.0/8", "IPv4", "")
	config := &cloudconf.Config{}
	f.Fuzz(func(t *testing.T, which uint8, value, ranges, family, address string) {
		service := &abi.Service{
			Namespace: "ns", Name: "web", IpFamilies: []string{family}, LoadBalancerIp: address, Ports: []*abi.ServicePort{{Protocol: "TCP", Port: 80, NodePort: 30080}},
			Annotations: map[string]string{all[int(which)%len(all)].Name: value, annSourceRanges: ranges},
		}
		if _, err := nameMatcher(value); err != nil && len(err.Error()) > 1000 {
			t.Fatalf("a long error: %v", err)
		}
		labels(value)
		tagFilter(value)
		s, err := newSpec(service, config)
		if err != nil {
			return
		}
		if len(s.ranges) == 0 || len(s.ports) != 1 {
			t.Fatalf("no source ranges or ports: %+v", s)
		}
		if s.explicit && len(s.ranges) == 1 && s.ranges[0] == everybody(family) && !containsEverybody(ranges) {
			t.Fatalf("%q came to mean everybody", ranges)
		}
	})
}

func containsEverybody(ranges string) bool {
	for i := range len(ranges) - 1 {
		if ranges[i] == '/' && ranges[i+1] == '0' {
			return true
		}
	}
	return false
}
