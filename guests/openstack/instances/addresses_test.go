package instances

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/guests/sdk"
)

func known(kind, address string) object { return object{"addr": address, "OS-EXT-IPS:type": kind} }

// rich is a server on two networks, with all kinds of addresses.
func rich(f *fakeCloud) object {
	s := f.addServer(1, "a", "10.0.0.32", "10.0.0.31")
	s["accessIPv4"], s["accessIPv6"] = "198.51.100.99", "2001:db8:790e::82a8"
	s["metadata"] = object{"hostname": "a.example.com", "HostName": "other"}
	s["addresses"] = object{
		"private": []object{known("fixed", "10.0.0.32"), known("floating", "198.51.100.36"), {"addr": "10.0.0.31"}},
		"public":  []object{known("fixed", "198.51.100.35"), known("fixed", "2001:DB8:780e:0::84a8")},
	}
	return s
}

func TestAddresses(t *testing.T) {
	const (
		in32, in31 = "internal 10.0.0.32", "internal 10.0.0.31"
		access4    = "external 198.51.100.99"
		access6    = "external 2001:db8:790e::82a8"
		host       = "hostname a.example.com"
		floating   = "external 198.51.100.36"
	)
	tests := map[string]struct {
		config []string
		want   []string
	}{
		"nothing configured": {nil, []string{in32, in31, access4, access6, host, floating, "internal 198.51.100.35", "internal 2001:db8:780e::84a8"}},
		"a public network": {[]string{"public-network-name = public"},
			[]string{in32, in31, access4, access6, host, floating, "external 198.51.100.35", "external 2001:db8:780e::84a8"}},
		"the private network is public": {[]string{"public-network-name = private"},
			[]string{access4, access6, host, "external 10.0.0.32", floating, "external 10.0.0.31", "internal 198.51.100.35", "internal 2001:db8:780e::84a8"}},
		"an internal network": {[]string{"internal-network-name = private"}, []string{in32, in31, access4, access6, host, floating}},
		"another internal network": {[]string{"internal-network-name = public"},
			[]string{access4, access6, host, floating, "internal 198.51.100.35", "internal 2001:db8:780e::84a8"}},
		"both": {[]string{"internal-network-name = private", "public-network-name = public"},
			[]string{in32, in31, access4, access6, host, floating, "external 198.51.100.35", "external 2001:db8:780e::84a8"}},
		"no IPv6": {[]string{"ipv6-support-disabled = true"}, []string{in32, in31, access4, host, floating, "internal 198.51.100.35"}},
		"sorted": {[]string{"public-network-name = public", "address-sort-order = 198.51.100.0/24, 10.0.0.0/8, 2001:db8:780e::/48"},
			[]string{"external 198.51.100.35", floating, access4, in31, in32, "external 2001:db8:780e::84a8", access6, host}},
	}
	for name, test := range tests {
		f := &fakeCloud{t: t}
		rich(f)
		m, err := f.instances(test.config...).Metadata(byID(uuid(1)))
		if err != nil || !slices.Equal(addressesOf(m), test.want) {
			t.Errorf("%s: %v\ngot  %v\nwant %v", name, err, addressesOf(m), test.want)
		}
	}
}

func TestAddressesOfFamilies(t *testing.T) {
	tests := map[string]struct {
		ips    []string
		config string
		want   string
	}{
		"IPv4":                          {[]string{"10.0.0.5"}, "", "internal 10.0.0.5"},
		"IPv6":                          {[]string{"FD00:0::5"}, "", "internal fd00::5"},
		"dual":                          {[]string{"10.0.0.5", "fd00::5"}, "", "internal 10.0.0.5,internal fd00::5"},
		"dual, IPv6 first":              {[]string{"10.0.0.5", "fd00::5"}, "address-sort-order = fd00::/8", "internal fd00::5,internal 10.0.0.5"},
		"dual, IPv6 disabled":           {[]string{"fd00::5", "10.0.0.5"}, "ipv6-support-disabled = yes", "internal 10.0.0.5"},
		"the same twice":                {[]string{"10.0.0.5", "10.0.0.5"}, "", "internal 10.0.0.5"},
		"all families by one sort item": {[]string{"fd00::6", "fd00::5"}, "address-sort-order = ::/0", "internal fd00::5,internal fd00::6"},
	}
	for name, test := range tests {
		f := &fakeCloud{t: t}
		f.addServer(1, "a", test.ips...)
		m, err := f.instances(test.config).Metadata(byID(uuid(1)))
		if got := strings.Join(addressesOf(m), ","); err != nil || got != test.want {
			t.Errorf("%s: %v, %s", name, err, got)
		}
	}
}

// A port that is not ACTIVE has no addresses; Nova's own view may still.
func TestPortsThatAreDown(t *testing.T) {
	f := &fakeCloud{t: t}
	f.addServer(1, "a", "10.0.0.5")["addresses"] = object{}
	f.ports[0]["status"] = "DOWN"
	_, err := f.instances().Metadata(byID(uuid(1)))
	want := "node n: server " + uuid(1) + " (ACTIVE): it has no address that a Node can have; [Networking] in cloud.conf may leave out too much, or its ports are not there yet"
	if err == nil || err.Error() != want || sdk.CodeOf(err) == abi.CodeInstanceNotFound {
		t.Errorf("%v", err)
	}
}

func TestTrunk(t *testing.T) {
	f := &fakeCloud{t: t}
	f.addServer(1, "a", "10.0.0.5")
	f.ports[0]["trunk_details"] = object{"trunk_id": "t", "sub_ports": []object{{"port_id": "sub-2"}, {"port_id": "sub-1"}, {"port_id": "gone"}, {"port_id": "hidden"}}}
	for n, network := range []string{"vlan", "private", "elsewhere"} {
		id := fmt.Sprintf("sub-%d", n+1)
		if network == "elsewhere" {
			id = "hidden"
		}
		f.ports = append(f.ports, object{"id": id, "network_id": network, "status": "DOWN", "fixed_ips": []object{{"ip_address": fmt.Sprintf("10.%d.0.5", n+1)}, {"ip_address": fmt.Sprintf("fd00::%d", n+1)}}})
	}
	f.networks = []object{{"id": "vlan", "name": "vlan-net"}, {"id": "private", "name": "private"}}
	tests := map[string]string{
		"":                                 "internal 10.0.0.5,internal 10.2.0.5,internal fd00::2,internal 10.1.0.5,internal fd00::1",
		"ipv6-support-disabled = true":     "internal 10.0.0.5,internal 10.2.0.5,internal 10.1.0.5",
		"internal-network-name = private":  "internal 10.0.0.5,internal 10.2.0.5,internal fd00::2",
		"public-network-name = vlan-net":   "internal 10.0.0.5,internal 10.2.0.5,internal fd00::2,external 10.1.0.5,external fd00::1",
		"internal-network-name = vlan-net": "internal 10.1.0.5,internal fd00::1",
	}
	for config, want := range tests {
		f.requests = nil
		m, err := f.instances(config).Metadata(byID(uuid(1)))
		if got := strings.Join(addressesOf(m), ","); err != nil || got != want || len(f.requests) != 4 {
			t.Errorf("%s: %v, %s, %v", config, err, got, f.requests)
		}
	}
}

// An address missing from one answer would be taken from the Node.
func TestTrunkThatCannotBeRead(t *testing.T) {
	f := &fakeCloud{t: t}
	f.addServer(1, "a", "10.0.0.5")
	f.ports[0]["trunk_details"] = object{"sub_ports": []object{{"port_id": "sub-1"}}}
	f.instead = func(req *abi.HttpRequest) *abi.HttpResponse {
		if strings.Contains(req.Url, "id=sub-1") {
			return answer(503, "")
		}
		return nil
	}
	if _, err := f.instances().Metadata(byID(uuid(1))); sdk.CodeOf(err) != abi.CodeThrottled {
		t.Errorf("%v", err)
	}
}

func TestAddressesThatAreNone(t *testing.T) {
	for _, bad := range []string{"10.0.0", "::", "fe80::1%eth0", "name"} {
		f := &fakeCloud{t: t}
		f.addServer(1, "a", "10.0.0.5", bad)
		if m, err := f.instances().Metadata(byID(uuid(1))); err == nil || !strings.Contains(err.Error(), bad) {
			t.Errorf("%s: %v, %s", bad, err, text(m))
		}
	}
	for _, name := range []string{"a\nb", "my server", "a.", ".a", "a..b", "bücher", "a:80", strings.Repeat("a", 64)} {
		f := &fakeCloud{t: t}
		f.addServer(1, "a", "10.0.0.5")["metadata"] = object{"hostname": name}
		if m, err := f.instances().Metadata(byID(uuid(1))); err != nil || len(m.Addresses) != 1 {
			t.Errorf("the host name %q: %v, %s", name, err, text(m))
		}
	}
}

func TestTooManyAddresses(t *testing.T) {
	f := &fakeCloud{t: t}
	ips := []string{}
	for n := range 65 {
		ips = append(ips, fmt.Sprintf("10.0.0.%d", n+1))
	}
	f.addServer(1, "a", ips...)
	_, err := f.instances().Metadata(byID(uuid(1)))
	if err == nil || !strings.Contains(err.Error(), "it has 65 addresses, and a Node at most 64: choose by internal-network-name") {
		t.Errorf("%v", err)
	}
}

// Neutron may have its own page limit.
func TestPagesOfPorts(t *testing.T) {
	f := &fakeCloud{t: t, limit: 2}
	f.addServer(1, "a", "10.0.0.1")
	for n := range 5 {
		f.ports = append(f.ports, object{"id": fmt.Sprintf("q%d", n), "device_id": uuid(1), "status": "ACTIVE", "fixed_ips": []object{{"ip_address": fmt.Sprintf("10.0.1.%d", n+1)}}})
	}
	m, err := f.instances().Metadata(byID(uuid(1)))
	if err != nil || len(m.Addresses) != 6 {
		t.Errorf("%v, %s", err, text(m))
	}
}
