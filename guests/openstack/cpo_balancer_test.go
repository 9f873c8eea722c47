//go:build cpo

package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/wasm-ccm/wasm-ccm/abi"
)

func balancerAdapters() []adapter {
	return []adapter{
		{
			test: "TestLbaasV2_GetLoadBalancerName", table: "tests", run: runName, how: "lb_name",
			meant: map[string]string{"empty input": "A manager without --cluster-name has the name kubernetes."},
		},
		{
			test: "Test_getListenerProtocol", table: "tests", run: runListenerProtocol, how: "the listener that lb_ensure makes for a Service with those annotations; a case without a protocol gets TCP",
		},
		{
			test: "TestLbaasV2_createLoadBalancerStatus", table: "tests", run: runStatus, how: "the status that lb_ensure answers for an internal Service, whose VIP has the case's address",
			meant: map[string]string{"it should return hostname from service annotation": "The API server takes no name with capitals into a status."},
		},
		{
			test: "Test_buildPoolCreateOpt", table: "tests", run: runPool,
			how: "the pool that lb_ensure makes. What their serviceConfig has together and their own check of a Service refuses (PROXY protocol with X-Forwarded-For) is put without X-Forwarded-For",
			meant: map[string]string{
				"test for pool protocol UDP with proxy protocol disabled": "Theirs makes a listener and a pool of HTTP of a UDP port.",
			},
		},
		{
			test: "Test_buildMonitorCreateOpts", table: "tests", run: runMonitor, how: "the health monitor that lb_ensure makes; the name apart",
		},
		{
			test: "TestBuildListenerCreateOpt", table: "testCases", run: runListener,
			how: "the listener that lb_ensure makes; the name apart, and the source ranges, which their test has only for a client that knows no version of Octavia",
		},
		{test: "TestBuildBatchUpdateMemberOpts", table: "testCases", run: runMembers, how: "the members that lb_ensure makes, by their number; NodePort 0 is allocateLoadBalancerNodePorts: false"},
		{
			test: "Test_nodeAddressForLB", table: "tests", run: runNodeAddress,
			how: "the address of the member that lb_ensure makes for the node, in any spelling; their ErrNoAddressFound is no member",
		},
		{test: "TestFilterNodes", table: "tests", run: runFilter, how: "whether lb_ensure makes a member of a node with those labels"},
		{test: "Test_getProxyProtocolFromServiceAnnotation", table: "tests", run: runProxy, how: "the protocol of the pool that lb_ensure makes"},
		{test: "TestPopListener", table: "items", cases: popCases, run: runPop, how: "a Service with a port for each listener becomes one with the port of the named listener only, or a new one: the listeners that lb_ensure deletes"},
	}
}

func runName(t *testing.T, c Case) result {
	r := newRun(t)
	if err := r.configure(); err != nil {
		t.Fatal(err)
	}
	var resp abi.LoadBalancerNameResponse
	request := &abi.LoadBalancerRequest{ClusterName: Text(c.Value, "testArgs", "clusterName"), Service: service(At(c.Value, "testArgs", "service"))}
	err := r.host.Call(abi.OpLoadBalancerName, request, &resp)
	return orError(resp.Name, err, Text(c.Value, "expected"))
}

func runListenerProtocol(t *testing.T, c Case) result {
	r := newRun(t)
	r.options(nil)
	s := service(nil)
	s.Ports = []*abi.ServicePort{servicePort(&Object{Fields: map[string]any{"Protocol": At(c.Value, "testArg", "protocol")}})}
	annotate(s, At(c.Value, "testArg", "svcConf"))
	_, err := r.ensure(s, r.node("node", "10.10.0.9"))
	return orError(r.the("listeners")["protocol"], err, constant(Text(c.Value, "expected")))
}

func runStatus(t *testing.T, c Case) result {
	r := newRun(t)
	r.options(At(c.Value, "fields", "LoadBalancer", "opts"))
	s := service(At(c.Value, "args", "service"))
	s.Annotations["service.beta.kubernetes.io/openstack-internal-load-balancer"] = "true"
	annotate(s, At(c.Value, "args", "svcConf"))
	status, err := r.ensure(s, r.node("node", "10.10.0.9"))
	if err != nil || len(status.Ingress) != 1 {
		return orError(status, err, "")
	}
	mode := status.Ingress[0].IpMode
	if mode == "" && status.Ingress[0].Ip != "" {
		mode = "VIP" // it is what the host makes of none
	}
	_, want, _ := strings.Cut(Text(c.Value, "want", "IPMode"), "LoadBalancerIPMode")
	return same(fmt.Sprint(status.Ingress[0].Hostname, ",", status.Ingress[0].Ip, ",", mode),
		fmt.Sprint(Text(c.Value, "want", "HostName"), ",", Text(c.Value, "want", "IPAddress"), ",", want))
}

func runPool(t *testing.T, c Case) result {
	r := newRun(t)
	r.options(At(c.Value, "args", "lbaasV2", "0", "opts"))
	s := service(At(c.Value, "args", "service"))
	annotate(s, At(c.Value, "args", "svcConf"))
	if s.Annotations[annotation+"proxy-protocol"] != "" {
		delete(s.Annotations, annotation+"x-forwarded-for")
	}
	s.Ports = []*abi.ServicePort{servicePort(&Object{Fields: map[string]any{"Protocol": At(c.Value, "args", "protocol")}})}
	_, err := r.ensure(s, r.node("node", "10.10.0.9"))
	got := r.the("pools")
	affinity := Text(c.Value, "want", "Persistence", "Type")
	persistence, _ := got["session_persistence"].(map[string]any)
	want := fmt.Sprint("protocol=", constant(Text(c.Value, "want", "Protocol")), " lb_algorithm=", Text(c.Value, "want", "LBMethod"), " ", affinity)
	text, _ := persistence["type"].(string)
	return orError(show(got, "protocol", "lb_algorithm")+" "+text, err, want)
}

func runMonitor(t *testing.T, c Case) result {
	r := newRun(t)
	r.options(At(c.Value, "testArg", "lbaas", "0", "opts"))
	s := service(nil)
	s.Ports = []*abi.ServicePort{servicePort(At(c.Value, "testArg", "port"))}
	annotate(s, At(c.Value, "testArg", "svcConf"))
	s.Annotations[annotation+"enable-health-monitor"] = "true"
	_, err := r.ensure(s, r.node("node", "10.10.0.9"))
	want := At(c.Value, "want")
	numbers := object{
		"type": Text(want, "Type"), "delay": Int(want, "Delay"), "timeout": Int(want, "Timeout"),
		"max_retries": Int(want, "MaxRetries"), "max_retries_down": Int(want, "MaxRetriesDown"),
	}
	for key, field := range map[string]string{"url_path": "URLPath", "http_method": "HTTPMethod", "expected_codes": "ExpectedCodes"} {
		if text := Text(want, field); text != "" {
			numbers[key] = text
		}
	}
	keys := []string{"type", "delay", "timeout", "max_retries", "max_retries_down", "url_path", "http_method", "expected_codes"}
	return orError(show(r.the("healthmonitors"), keys...), err, show(numbers, keys...))
}

func runListener(t *testing.T, c Case) result {
	r := newRun(t)
	r.options(nil)
	s := service(nil)
	s.Ports = []*abi.ServicePort{servicePort(At(c.Value, "port"))}
	annotate(s, At(c.Value, "svcConf"))
	_, err := r.ensure(s, r.node("node", "10.10.0.9"))
	want := At(c.Value, "expectedCreateOpt")
	wanted := object{
		"protocol": constant(Text(want, "Protocol")), "protocol_port": Int(want, "ProtocolPort"), "connection_limit": Int(want, "ConnLimit"),
		"insert_headers": plain(At(want, "InsertHeaders")),
	}
	if ref := Text(want, "DefaultTlsContainerRef"); ref != "" {
		wanted["default_tls_container_ref"] = ref
	}
	keys := []string{"protocol", "protocol_port", "connection_limit", "default_tls_container_ref", "insert_headers"}
	return orError(show(r.the("listeners"), keys...), err, show(wanted, keys...))
}

// membersOf are the addresses of the members of the only pool.
func (r *run) membersOf() []string {
	list, _ := r.the("pools")["members"].([]object)
	all := []string{}
	for _, m := range list {
		all = append(all, fmt.Sprint(m["address"]))
	}
	return all
}

func runMembers(t *testing.T, c Case) result {
	r := newRun(t)
	r.options(nil)
	s := service(nil)
	s.Ports = []*abi.ServicePort{servicePort(At(c.Value, "port"))}
	s.AllocateNodePorts = s.Ports[0].NodePort > 0
	annotate(s, At(c.Value, "svcConf"))
	r.set("LoadBalancer", "subnet-id", "subnet")
	nodes := []*abi.Node{}
	for _, node := range List(c.Value, "nodes") {
		nodes = append(nodes, &abi.Node{Name: Text(node, "ObjectMeta", "Name"), Addresses: nodeAddresses(node)})
	}
	_, err := r.ensure(s, nodes...)
	return orError(len(r.membersOf()), err, Int(c.Value, "expectedLen"))
}

func runNodeAddress(t *testing.T, c Case) result {
	r := newRun(t)
	r.set("LoadBalancer", "subnet-id", "subnet")
	s := service(nil)
	if family := constant(Text(c.Value, "testArgs", "preferredIPFamily")); family != "" {
		s.IpFamilies = []string{family}
	}
	_, err := r.ensure(s, &abi.Node{Name: "node", Addresses: nodeAddresses(At(c.Value, "testArgs", "node"))})
	want := []string{}
	if address := Text(c.Value, "expect"); address != "" {
		want = append(want, canonicalAddress(address))
	}
	got := r.membersOf()
	for i := range got {
		got[i] = canonicalAddress(got[i])
	}
	return orError(got, err, want)
}

func runFilter(t *testing.T, c Case) result {
	r := newRun(t)
	r.set("LoadBalancer", "subnet-id", "subnet")
	node := r.node("node", "10.10.0.9")
	node.Labels = map[string]string{}
	labels, _ := At(c.Value, "nodeLabels").(Map)
	for _, e := range labels {
		node.Labels[fmt.Sprint(e.Key)] = fmt.Sprint(e.Value)
	}
	_, err := r.ensure(service(At(c.Value, "service")), node)
	return orError(len(r.membersOf()) == 1, err, Bool(c.Value, "nodeFiltered"))
}

func runProxy(t *testing.T, c Case) result {
	r := newRun(t)
	_, err := r.ensure(service(At(c.Value, "args", "service")), r.node("node", "10.10.0.9"))
	want := constant(Text(c.Value, "want"))
	if want == "" {
		want = "TCP"
	}
	return orError(r.the("pools")["protocol"], err, want)
}

// popCases takes the names of the cases, which are the last field.
func popCases(f *Func) ([]Case, error) { return f.Table("items") }

func runPop(t *testing.T, c Case) result {
	r := newRun(t)
	s := service(nil)
	kept := int32(9999)
	var names []string
	for i, l := range List(c.Value, "existingListeners") {
		port := int32(1000 + i)
		names = append(names, Text(l, "ID"))
		s.Ports = append(s.Ports, &abi.ServicePort{Name: Text(l, "ID"), Protocol: "TCP", Port: port})
		if Text(l, "ID") == Text(c.Value, "id") {
			kept = port
		}
	}
	node := r.node("node", "10.10.0.9")
	before := map[any]string{}
	if len(s.Ports) > 0 {
		if _, err := r.ensure(s, node); err != nil {
			return same(err, "")
		}
		for _, l := range r.cloud.objects["listeners"] {
			before[l["id"]] = names[int(l["protocol_port"].(float64))-1000]
		}
	}
	s.Ports = []*abi.ServicePort{{Protocol: "TCP", Port: kept}}
	_, err := r.ensure(s, node)
	got, want := []string{}, []string{}
	for _, id := range r.cloud.deleted {
		if name, found := before[id]; found {
			got = append(got, name)
		}
	}
	for _, name := range List(c.Value, "result") {
		want = append(want, fmt.Sprint(name))
	}
	slices.Sort(got)
	slices.Sort(want)
	return orError(got, err, want)
}
