package loadbalancer_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/guests/openstack/loadbalancer"
)

// The bodies were made by the code of cloud-provider-openstack v1.31.2, for the
// Service default/web of the cluster c.
const (
	madeHead    = `{"loadbalancer":{"name":"kube_service_c_default_web","description":"Kubernetes external service default/web from cluster c",`
	madeAmphora = madeHead + `"provider":"amphora","tags":["kube_service_c_default_web"],"vip_subnet_id":"nodes4","listeners":[` + madeListener + `]}}`
	// LISTENER, POOL, MEMBER and PORT are replaced by each case.
	madeListener = `{"name":"listener_0_kube_service_c_default_web","protocol":"PROTOCOL","protocol_port":80,"connection_limit":-1,"tags":["kube_service_c_default_web"],
		"timeout_client_data":50000,"timeout_member_connect":5000,"timeout_member_data":50000,"timeout_tcp_inspect":0,"allowed_cidrs":["0.0.0.0/0"]LISTENER,
		"default_pool":{"name":"pool_0_kube_service_c_default_web","protocol":"PROTOCOL"POOL,"members":[
			{"address":"10.0.0.11","protocol_port":30080,"name":"node-1","subnet_id":"nodes4"MEMBER},
			{"address":"10.0.0.10","protocol_port":30080,"name":"node-0","subnet_id":"nodes4"MEMBER},
			{"address":"10.0.0.12","protocol_port":30080,"name":"node-2","subnet_id":"nodes4"MEMBER}]}}`
	madeOVN = madeHead + `"provider":"ovn","tags":["kube_service_c_default_web"],"vip_subnet_id":"nodes4","listeners":[
		{"name":"listener_0_kube_service_c_default_web","protocol":"TCP","protocol_port":80,"connection_limit":-1,"tags":["kube_service_c_default_web"],
		"default_pool":{"name":"pool_0_kube_service_c_default_web","protocol":"TCP","lb_algorithm":"SOURCE_IP_PORT","members":[
			{"address":"10.0.0.10","protocol_port":30080,"name":"node-0","subnet_id":"nodes4"},
			{"address":"10.0.0.11","protocol_port":30080,"name":"node-1","subnet_id":"nodes4"},
			{"address":"10.0.0.12","protocol_port":30080,"name":"node-2","subnet_id":"nodes4"}]}}]}}`
	madeSerial = madeHead + `"provider":"amphora","tags":["kube_service_c_default_web"],"vip_subnet_id":"nodes4","listeners":[
		{"name":"listener_0_kube_service_c_default_web","protocol":"TCP","protocol_port":80,"connection_limit":-1,"tags":["kube_service_c_default_web"],
		"timeout_client_data":50000,"timeout_member_connect":5000,"timeout_member_data":50000,"timeout_tcp_inspect":0,"allowed_cidrs":["0.0.0.0/0"],
		"default_pool":{"name":"pool_0_kube_service_c_default_web","protocol":"TCP","members":[
			{"address":"10.0.0.10","protocol_port":30080,"name":"member_node-0_10.0.0.10_30080"},
			{"address":"10.0.0.11","protocol_port":30080,"name":"member_node-1_10.0.0.11_30080"},
			{"address":"10.0.0.12","protocol_port":30080,"name":"member_node-2_10.0.0.12_30080"}]}}]}}`
	madeMonitor  = `,"healthmonitor":{"name":"monitor_0_kube_service_c_default_web","type":"TYPE","delay":5,"timeout":3,"max_retries":1,"max_retries_down":3}`
	madeFloating = `{"floatingip":{"floating_network_id":"ext","port_id":"PORT","description":"Floating IP for Kubernetes external service default/web from cluster c"}}`
)

type takeover struct {
	name   string
	lines  []string
	body   string
	change []string // pairs, as of strings.NewReplacer
	set    func(b *bench)
}

func takeovers() []takeover {
	local := func(b *bench) {
		b.service.Annotations[ann+"enable-health-monitor"] = "true"
		b.service.ExternalTrafficPolicy, b.service.HealthCheckNodePort = "Local", 32000
	}
	http := `,"healthmonitor":{"name":"monitor_0_kube_service_c_default_web","type":"HTTP","delay":5,"timeout":3,"max_retries":1,"max_retries_down":3,"url_path":"/healthz","http_method":"GET","expected_codes":"200"}`
	annotated := func(pairs ...string) func(b *bench) {
		return func(b *bench) {
			for i := 0; i < len(pairs); i += 2 {
				b.service.Annotations[ann+pairs[i]] = pairs[i+1]
			}
		}
	}
	return []takeover{
		{name: "amphora", body: madeAmphora},
		{name: "ovn", body: madeOVN, lines: []string{"lb-provider=ovn"}},
		{name: "ovn, now amphora in cloud.conf", body: madeOVN},
		{name: "serial", body: madeSerial, lines: []string{"provider-requires-serial-api-calls=true"}},
		{name: "monitor", body: madeAmphora, change: []string{"POOL", strings.Replace(madeMonitor, "TYPE", "TCP", 1)}, lines: []string{"create-monitor=true"}},
		{name: "monitor, Local", body: madeAmphora, change: []string{"POOL", http, "MEMBER", `,"monitor_port":32000`}, set: local},
		{name: "UDP", body: madeAmphora, change: []string{"PROTOCOL", "UDP", "POOL", strings.Replace(madeMonitor, "TYPE", "UDP-CONNECT", 1)}, set: func(b *bench) {
			b.service.Ports[0].Protocol = "UDP"
			b.service.Annotations[ann+"enable-health-monitor"] = "true"
		}},
		{name: "affinity", body: madeAmphora, change: []string{"POOL", `,"session_persistence":{"type":"SOURCE_IP"}`}, set: func(b *bench) { b.service.SessionAffinity = "ClientIP" }},
		{name: "X-Forwarded-For", body: madeAmphora, change: []string{"PROTOCOL", "HTTP", "LISTENER", `,"insert_headers":{"X-Forwarded-For":"true"}`}, set: annotated("x-forwarded-for", "true")},
		{name: "PROXY protocol", body: madeAmphora, change: []string{`"protocol":"PROTOCOL"POOL`, `"protocol":"PROXYV2"`}, set: annotated("proxy-protocol", "v2")},
		{
			name: "TLS", body: madeAmphora, set: annotated("default-tls-container-ref", "https://barbican/v1/containers/x"),
			change: []string{`"protocol":"PROTOCOL","protocol_port"`, `"protocol":"TERMINATED_HTTPS","protocol_port"`, "PROTOCOL", "HTTP", "LISTENER", `,"default_tls_container_ref":"https://barbican/v1/containers/x"`},
		},
		{
			name: "limits", body: madeAmphora, set: annotated("connection-limit", "7", "timeout-client-data", "9", "node-selector", "n"),
			change: []string{`"connection_limit":-1`, `"connection_limit":7`, `"timeout_client_data":50000`, `"timeout_client_data":9`},
		},
		{
			name: "source ranges in another order", body: madeAmphora, change: []string{`["0.0.0.0/0"]`, `["192.0.2.0/24","10.0.0.0/8"]`},
			set: func(b *bench) { b.service.LoadBalancerSourceRanges = []string{"10.1.2.3/8", "192.0.2.0/24"} },
		},
		{name: "with its own ID annotated", body: madeAmphora, set: func(b *bench) {
			b.service.Annotations[ann+"load-balancer-id"] = b.cloud.tables["loadbalancers"][0].id
			b.service.Annotations[ann+"load-balancer-address"] = "203.0.113.9"
		}},
	}
}

// make creates what cloud-provider-openstack created.
func (b *bench) post(url, body string) {
	b.t.Helper()
	resp, err := b.cloud.serve(&abi.HttpRequest{Method: "POST", Url: url, Body: []byte(body)})
	if err == nil && resp.Status >= 300 {
		err = fmt.Errorf("%d %s", resp.Status, resp.Body)
	}
	if err != nil {
		b.t.Fatalf("POST %s: %v", url, err)
	}
}

// TestTakeOver: a load balancer of cloud-provider-openstack is not changed, and
// neither is its address.
func TestTakeOver(t *testing.T) {
	for _, test := range takeovers() {
		t.Run(test.name, func(t *testing.T) {
			b := newBench(t, test.lines...)
			b.cloud.looks = 0
			change := strings.NewReplacer(append(test.change, "PROTOCOL", "TCP", "LISTENER", "", "POOL", "", "MEMBER", "")...)
			b.post("http://octavia/v2.0/lbaas/loadbalancers", change.Replace(test.body))
			port := str(b.cloud.tables["loadbalancers"][0].values["vip_port_id"])
			b.post("http://neutron/v2.0/floatingips", strings.Replace(madeFloating, "PORT", port, 1))
			if test.set != nil {
				test.set(b)
			}
			b.cloud.reset()
			address := b.ensure()
			if writes := b.cloud.writes(); len(writes) > 0 {
				t.Fatalf("it is changed: %v %v", writes, b.cloud.bodies)
			}
			if wanted := str(b.cloud.tables["floatingips"][0].values["floating_ip_address"]); address != wanted {
				t.Fatalf("the address is %s, not %s", address, wanted)
			}
			b.quiet()
			b.delete()
			b.empty()
		})
	}
}

// TestTakeOverOldName: load balancers were once named by the UID.
func TestTakeOverOldName(t *testing.T) {
	b := newBench(t)
	b.service.Uid = "01234567-89ab-cdef-0123-456789abcdef"
	b.cloud.looks = 0
	b.post("http://octavia/v2.0/lbaas/loadbalancers", `{"loadbalancer":{"name":"a0123456789abcdef0123456789abcde","provider":"amphora","vip_subnet_id":"nodes4"}}`)
	b.ensure()
	if n := len(b.cloud.tables["loadbalancers"]); n != 1 {
		t.Fatalf("there are %d load balancers", n)
	}
	b.quiet()
	b.delete()
	b.empty()
}

func TestNames(t *testing.T) {
	s := service(strings.Repeat("n", 63), 80)
	if got := loadbalancer.Name("c", s); got != "kube_service_c_default_"+s.Name {
		t.Errorf("the name is %s", got)
	}
	if got := len(loadbalancer.Name(strings.Repeat("c", 250), s)); got != 255 {
		t.Errorf("a long name has %d bytes", got)
	}
}
