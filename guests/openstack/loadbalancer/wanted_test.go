package loadbalancer_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/wasm-ccm/wasm-ccm/guests/sdk"
)

const internal = "service.beta.kubernetes.io/openstack-internal-load-balancer"

// shows are these fields of a row of the cloud, as JSON.
func (b *bench) shows(table string, fields ...string) string {
	var all []string
	for _, r := range b.cloud.tables[table] {
		shown := object{}
		for _, field := range fields {
			shown[field] = r.values[field]
		}
		data, err := json.Marshal(shown)
		if err != nil {
			b.t.Fatal(err)
		}
		all = append(all, string(data))
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

type wanted struct {
	name        string
	lines       []string
	annotations map[string]string // without the prefix
	set         func(b *bench)
	table       string
	fields      string
	want        string
	// address is a part of the Service's, if it matters.
	address string
}

func wants() []wanted {
	ipv6 := func(b *bench) { b.service.IpFamilies = []string{"IPv6", "IPv4"} }
	isInternal := func(b *bench) { b.service.Annotations[internal] = "true" }
	local := func(b *bench) { b.service.ExternalTrafficPolicy, b.service.HealthCheckNodePort = "Local", 32000 }
	return []wanted{
		{name: "affinity", set: func(b *bench) { b.service.SessionAffinity = "ClientIP" }, table: "pools", fields: "session_persistence", want: `{"session_persistence":{"type":"SOURCE_IP"}}`},
		{name: "algorithm", lines: []string{"lb-method=LEAST_CONNECTIONS"}, table: "pools", fields: "lb_algorithm", want: `{"lb_algorithm":"LEAST_CONNECTIONS"}`},
		{name: "algorithm of ovn", lines: []string{"lb-provider=ovn"}, table: "pools", fields: "lb_algorithm", want: `{"lb_algorithm":"SOURCE_IP_PORT"}`},
		{name: "connection limit", annotations: map[string]string{"connection-limit": "100"}, table: "listeners", fields: "connection_limit", want: `{"connection_limit":100}`},
		{name: "no number", annotations: map[string]string{"connection-limit": "many"}, table: "listeners", fields: "connection_limit", want: `{"connection_limit":-1}`},
		{
			name: "timeouts", annotations: map[string]string{"timeout-client-data": "1", "timeout-member-connect": "2", "timeout-member-data": "3", "timeout-tcp-inspect": "4"}, table: "listeners",
			fields: "timeout_client_data timeout_member_connect timeout_member_data timeout_tcp_inspect", want: `{"timeout_client_data":1,"timeout_member_connect":2,"timeout_member_data":3,"timeout_tcp_inspect":4}`,
		},
		{name: "X-Forwarded-For", annotations: map[string]string{"x-forwarded-for": "true"}, table: "listeners", fields: "protocol insert_headers", want: `{"insert_headers":{"X-Forwarded-For":"true"},"protocol":"HTTP"}`},
		{name: "PROXY protocol", annotations: map[string]string{"proxy-protocol": "true"}, table: "pools", fields: "protocol", want: `{"protocol":"PROXY"}`},
		{name: "TLS", annotations: map[string]string{"default-tls-container-ref": "https://b/v1/secrets/x"}, table: "listeners", fields: "protocol default_tls_container_ref", want: `{"default_tls_container_ref":"https://b/v1/secrets/x","protocol":"TERMINATED_HTTPS"}`},
		{name: "source ranges", set: func(b *bench) { b.service.LoadBalancerSourceRanges = []string{"192.0.2.7/24", "fd00::/8"} }, table: "listeners", fields: "allowed_cidrs", want: `{"allowed_cidrs":["192.0.2.0/24"]}`},
		{name: "source ranges annotated", set: func(b *bench) { b.service.Annotations[annRanges] = " 10.0.0.0/8 ,192.0.2.0/24" }, table: "listeners", fields: "allowed_cidrs", want: `{"allowed_cidrs":["10.0.0.0/8","192.0.2.0/24"]}`},
		{name: "monitor", annotations: map[string]string{"enable-health-monitor": "true", "health-monitor-delay": "9"}, set: local, table: "healthmonitors", fields: "type url_path delay", want: `{"delay":9,"type":"HTTP","url_path":"/healthz"}`},
		{name: "monitored port", annotations: map[string]string{"enable-health-monitor": "true"}, set: local, table: "members", fields: "monitor_port", want: `{"monitor_port":32000} {"monitor_port":32000} {"monitor_port":32000}`},
		{name: "monitor of ovn", lines: []string{"lb-provider=ovn", "create-monitor=true"}, set: local, table: "healthmonitors", fields: "type url_path", want: `{"type":"TCP","url_path":null}`},
		{name: "members of ovn", lines: []string{"lb-provider=ovn", "create-monitor=true"}, set: local, table: "members", fields: "monitor_port", want: `{"monitor_port":null} {"monitor_port":null} {"monitor_port":null}`},
		{name: "monitor of UDP", lines: []string{"create-monitor=true"}, set: func(b *bench) { b.service.Ports[0].Protocol = "UDP" }, table: "healthmonitors", fields: "type", want: `{"type":"UDP-CONNECT"}`},
		{name: "node selector", annotations: map[string]string{"node-selector": "n=1"}, table: "members", fields: "address", want: `{"address":"10.0.0.11"}`},
		{name: "no node ports", set: func(b *bench) { b.service.Ports[0].NodePort = 0 }, table: "members", fields: "address", want: ""},
		{name: "member subnet", annotations: map[string]string{"member-subnet-id": "m"}, set: func(b *bench) { b.nodes = nodes(1) }, table: "members", fields: "subnet_id", want: `{"subnet_id":"m"}`},
		{name: "subnet of the nodes", table: "loadbalancers", fields: "vip_subnet_id", want: `{"vip_subnet_id":"nodes4"}`},
		{name: "subnet of a class", lines: []string{"subnet-id=nodes4", `[LoadBalancerClass "gold"]`, "subnet-id=ext4", "network-id=ext"}, annotations: map[string]string{"class": "gold", "subnet-id": "nodes6"}, table: "loadbalancers", fields: "vip_subnet_id vip_network_id", want: `{"vip_network_id":"ext","vip_subnet_id":"ext4"}`},
		{name: "subnet annotated", lines: []string{"subnet-id=nodes6"}, annotations: map[string]string{"subnet-id": "nodes4"}, table: "loadbalancers", fields: "vip_subnet_id", want: `{"vip_subnet_id":"nodes4"}`},
		{name: "network only", lines: []string{"network-id=nodes"}, table: "loadbalancers", fields: "vip_network_id", want: `{"vip_network_id":"nodes"}`},
		{name: "network only, IPv6", lines: []string{"network-id=nodes"}, set: ipv6, table: "loadbalancers", fields: "vip_subnet_id", want: `{"vip_subnet_id":"nodes6"}`, address: "fd00::9:"},
		{name: "IPv6", set: ipv6, table: "loadbalancers", fields: "vip_subnet_id", want: `{"vip_subnet_id":"nodes6"}`, address: "fd00::9:"},
		{name: "IPv6 members", set: ipv6, table: "members", fields: "address", want: `{"address":"fd00::10"} {"address":"fd00::11"} {"address":"fd00::12"}`},
		{name: "everybody of IPv6", set: ipv6, table: "listeners", fields: "allowed_cidrs", want: `{"allowed_cidrs":["::/0"]}`},
		{name: "port", annotations: map[string]string{"port-id": "port-1"}, table: "loadbalancers", fields: "vip_port_id vip_subnet_id", want: `{"vip_port_id":"port-1","vip_subnet_id":"nodes4"}`},
		{name: "flavor and zone", lines: []string{"flavor-id=f", "availability-zone=z"}, table: "loadbalancers", fields: "flavor_id availability_zone", want: `{"availability_zone":"z","flavor_id":"f"}`},
		{name: "flavor annotated", lines: []string{"flavor-id=f"}, annotations: map[string]string{"flavor-id": "g"}, table: "loadbalancers", fields: "flavor_id", want: `{"flavor_id":"g"}`},
		{name: "internal", set: isInternal, table: "floatingips", want: "", address: "10.0.9."},
		{name: "internal by cloud.conf", lines: []string{"internal-lb=true"}, table: "floatingips", want: "", address: "10.0.9."},
		{name: "internal, chosen address", set: func(b *bench) { isInternal(b); b.service.LoadBalancerIp = "10.0.0.99" }, table: "loadbalancers", fields: "vip_address", want: `{"vip_address":"10.0.0.99"}`, address: "10.0.0.99"},
		{name: "chosen address", set: func(b *bench) { b.service.LoadBalancerIp = "203.0.113.200" }, table: "floatingips", fields: "floating_ip_address", want: `{"floating_ip_address":"203.0.113.200"}`, address: "203.0.113.200"},
		{name: "floating subnet", annotations: map[string]string{"floating-subnet-id": "ext4b"}, table: "floatingips", fields: "subnet_id floating_network_id", want: `{"floating_network_id":"ext","subnet_id":"ext4b"}`},
		{name: "floating subnet by name", annotations: map[string]string{"floating-subnet": "public-*b"}, table: "floatingips", fields: "subnet_id", want: `{"subnet_id":"ext4b"}`},
		{name: "floating subnet by expression", annotations: map[string]string{"floating-subnet": "!~.*b"}, table: "floatingips", fields: "subnet_id", want: `{"subnet_id":"ext4"}`},
		{name: "floating subnet by tags", annotations: map[string]string{"floating-subnet-tags": "&gold,fast"}, table: "floatingips", fields: "subnet_id", want: `{"subnet_id":"ext4"}`},
		{name: "floating subnet by tags, not", annotations: map[string]string{"floating-subnet-tags": "!fast"}, table: "floatingips", fields: "subnet_id", want: `{"subnet_id":"ext4b"}`},
		{name: "floating network found", lines: []string{"floating-network-id="}, table: "floatingips", fields: "floating_network_id", want: `{"floating_network_id":"ext"}`},
		{name: "old Octavia", set: func(b *bench) { b.cloud.version = 0 }, table: "listeners", fields: "tags allowed_cidrs", want: `{"allowed_cidrs":null,"tags":null}`},
		{name: "ovn", lines: []string{"lb-provider=ovn"}, table: "listeners", fields: "tags allowed_cidrs", want: `{"allowed_cidrs":null,"tags":["kube_service_c_default_web"]}`},
		{name: "hostname", annotations: map[string]string{"hostname": "web.example.com"}, table: "loadbalancers", fields: "name", want: `{"name":"kube_service_c_default_web"}`, address: "web.example.com"},
		{name: "name of an address", lines: []string{"enable-ingress-hostname=true"}, annotations: map[string]string{"proxy-protocol": "v1"}, table: "pools", fields: "protocol", want: `{"protocol":"PROXY"}`, address: ".nip.io"},
	}
}

const annRanges = "service.beta.kubernetes.io/load-balancer-source-ranges"

// TestWanted: the cloud has what a Service asks for, at first or later, at once
// or part by part.
func TestWanted(t *testing.T) {
	for _, test := range wants() {
		for _, serial := range []bool{false, true} {
			name := test.name
			if serial {
				name += ", piece by piece"
			}
			t.Run(name, func(t *testing.T) {
				lines := slices.Clone(test.lines)
				if serial {
					lines = append([]string{"provider-requires-serial-api-calls=true"}, lines...)
				}
				b := newBench(t, lines...)
				for key, value := range test.annotations {
					b.service.Annotations[ann+key] = value
				}
				if test.set != nil {
					test.set(b)
				}
				if address := b.ensure(); !strings.Contains(address, test.address) {
					t.Errorf("the address is %s", address)
				}
				if got := b.shows(test.table, strings.Fields(test.fields)...); got != test.want {
					t.Errorf("%s has %s, not %s", test.table, got, test.want)
				}
				b.quiet()
				b.delete()
				b.empty()
			})
		}
	}
}

// TestChanged: the changeable parts follow a change.
func TestChanged(t *testing.T) {
	for _, test := range wants() {
		if slices.Contains([]string{"loadbalancers", "floatingips"}, test.table) || len(test.lines) > 0 || strings.HasPrefix(test.name, "old") || strings.Contains(test.name, "IPv6") || strings.Contains(test.name, "subnet") {
			continue
		}
		t.Run(test.name, func(t *testing.T) {
			b := newBench(t)
			before := b.ensure()
			for key, value := range test.annotations {
				b.service.Annotations[ann+key] = value
			}
			if test.set != nil {
				test.set(b)
			}
			if after := b.ensure(); test.address == "" && after != before {
				t.Errorf("the address changes from %s to %s", before, after)
			}
			if got := b.shows(test.table, strings.Fields(test.fields)...); got != test.want {
				t.Errorf("%s has %s, not %s", test.table, got, test.want)
			}
			b.quiet()
		})
	}
}

func TestStatusOfProxyProtocol(t *testing.T) {
	b := newBench(t)
	for protocol, mode := range map[string]string{"false": "VIP", "v2": "Proxy"} {
		b.service.Annotations[ann+"proxy-protocol"] = protocol
		b.ensure()
		if got := b.service.Status.Ingress[0].IpMode; got != mode {
			t.Errorf("with PROXY protocol %s the mode is %s", protocol, got)
		}
	}
}

// TestAddressesThatAreNoPartOfAName: for an IPv6 address the mode has the
// effect of the name.
func TestAddressesThatAreNoPartOfAName(t *testing.T) {
	for suffix, family := range map[string]string{"nip.io": "IPv6", "Not_A.Name": "IPv4"} {
		b := newBench(t, "enable-ingress-hostname=true", "ingress-hostname-suffix="+suffix)
		b.service.IpFamilies = []string{family}
		b.service.Annotations[ann+"proxy-protocol"] = "v2"
		b.ensure()
		if in := b.service.Status.Ingress[0]; in.Ip == "" || in.Hostname != "" || in.IpMode != "Proxy" {
			t.Errorf("%s: the status is %v", family, in)
		}
	}
}

// TestHalfALoadBalancerExists: it has no address yet, and can be deleted.
func TestHalfALoadBalancerExists(t *testing.T) {
	for _, hostname := range []string{"", "web.example.com", "Not_A.Name"} {
		b := newBench(t)
		b.ensure()
		b.service.Annotations[ann+"hostname"] = hostname
		b.service.Annotations[ann+"keep-floatingip"] = "true"
		b.cloud.tables["floatingips"] = nil
		b.cloud.tables["loadbalancers"][0].values["vip_address"] = nil
		if existence, status := b.get(); existence != sdk.Exists || len(status.Ingress) != 0 {
			t.Errorf("%v with the status %v", existence, status)
		}
		b.delete()
		b.empty()
	}
}

// TestRefused: the impossible gives an error with a remedy, before anything is
// made.
func TestRefused(t *testing.T) {
	for _, test := range []struct {
		name, value, want string
		set               func(b *bench)
	}{
		{"class", "none", "[LoadBalancerClass \"none\"]", nil},
		{"connection-limit", "-7", "connection-limit is -7", nil},
		{"health-monitor-max-retries", "11", "1 to 10", nil},
		{"default-tls-container-ref", "x", "Barbican", nil},
		{"hostname", "Web.example.com", "not a DNS name", nil},
		{"hostname", "203.0.113.7", "not a DNS name", nil},
		{"hostname", "-a.example.com", "not a DNS name", nil},
		{"load-balancer-id", "../x", "there is no load balancer ../x", nil},
		{"subnet-id", strings.Repeat("x", 2000), "longer", nil},
		{"proxy-protocol", "v1", "together", func(b *bench) { b.service.Annotations[ann+"x-forwarded-for"] = "true" }},
		{"x-forwarded-for", "true", "80 is UDP", func(b *bench) { b.service.Ports[0].Protocol = "UDP" }},
		{"hostname", "x", "no ports", func(b *bench) { b.service.Ports = nil }},
		{"hostname", "x", "not a CIDR", func(b *bench) { b.service.LoadBalancerSourceRanges = []string{"10.0.0.0"} }},
		{"hostname", "x", "family", func(b *bench) { b.service.LoadBalancerSourceRanges = []string{"fd00::/8"} }},
		{"hostname", "x", "not an address", func(b *bench) { b.service.LoadBalancerIp = "x" }},
		{"floating-subnet", "~(", "regular expression", nil},
		{"floating-subnet", "none", "no subnet that matches", nil},
	} {
		t.Run(test.name+" "+test.want, func(t *testing.T) {
			b := newBench(t)
			b.service.Annotations[ann+test.name] = test.value
			if test.set != nil {
				test.set(b)
			}
			_, err := b.tryEnsure()
			if err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "\n") {
				t.Fatalf("the error is %v", err)
			}
			if test.name != "floating-subnet" {
				b.empty()
			}
			b.delete()
			b.empty()
		})
	}
}

func TestIgnoredIsSaidOnce(t *testing.T) {
	b := newBench(t, "lb-provider=ovn")
	b.service.LoadBalancerSourceRanges = []string{"192.0.2.0/24"}
	b.service.Annotations[ann+"connection-limit"] = "many"
	b.ensure()
	b.ensure()
	reasons := []string{}
	for _, e := range b.host.Events() {
		reasons = append(reasons, e.Reason)
	}
	slices.Sort(reasons)
	if want := []string{"AnnotationIgnored", "LoadBalancerSourceRangesIgnored"}; !slices.Equal(reasons, want) {
		t.Fatalf("the events are %v, not %v", reasons, want)
	}
}
