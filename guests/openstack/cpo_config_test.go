//go:build cpo

package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/guests/openstack/cloudconf"
)

func configAdapters() []adapter {
	return []adapter{
		{
			test: "TestReadConfig", cases: configCases, run: runConfig,
			how: "each assertion on the configuration is a case; the file's line with the password is left out, since it makes the whole file refused: secrets belong into a Kubernetes Secret",
		},
		{test: "TestReadClouds", absent: "use-clouds and trust-id are refused"},
	}
}

// configCases are the assertions, each with the text.
func configCases(f *Func) ([]Case, error) {
	text := f.Literals("ReadConfig")[1]
	cases := []Case{{Name: "no configuration", Pos: f.Pos(), Value: &Object{Fields: map[string]any{"text": "", "path": "error", "want": true}}}}
	for _, want := range f.Wants("cfg") {
		c := Case{Name: strings.Join(want.Path, "."), Pos: want.Pos}
		c.Err, _ = want.Value.(error)
		c.Value = &Object{Fields: map[string]any{"text": text, "path": c.Name, "want": want.Value}}
		cases = append(cases, c)
	}
	return cases, nil
}

func runConfig(_ *testing.T, c Case) result {
	lines := strings.Split(Text(c.Value, "text"), "\n")
	lines = slices.DeleteFunc(lines, func(line string) bool { return strings.HasPrefix(strings.TrimSpace(line), "password") })
	config, warnings, err := cloudconf.Parse([]byte(strings.Join(lines, "\n")))
	want := At(c.Value, "want")
	path := Text(c.Value, "path")
	if path == "error" {
		return same(err != nil, want)
	}
	if err != nil {
		return same(err, want)
	}
	lb := &config.LoadBalancer
	ours := map[string]any{
		"Global.AuthURL": config.Global.AuthURL, "Global.Region": config.Global.Region, "LoadBalancer.CreateMonitor": lb.CreateMonitor,
		"LoadBalancer.MonitorDelay.Duration": lb.MonitorDelay, "LoadBalancer.MonitorTimeout.Duration": lb.MonitorTimeout,
		"LoadBalancer.MonitorMaxRetries": lb.MonitorMaxRetries, "LoadBalancer.MonitorMaxRetriesDown": lb.MonitorMaxRetriesDown,
	}
	if got, found := ours[path]; found {
		if number, ok := want.(int64); ok && strings.HasSuffix(path, ".Duration") {
			want = time.Duration(number)
		}
		return same(got, want)
	}
	return result{absent: "a key of the HostConfiguration or the signer's Secret, or without effect; a warning or an error says so: " + fmt.Sprint(len(warnings) > 0)}
}

func routeAdapters() []adapter {
	return []adapter{
		{test: "TestRoutes", absent: "the tests with the tag openstack do the same in a cloud"},
		{test: "TestGetAddrByNodeName", cases: addressCases, run: runNextHop, how: "a route of the case's family is created for the node; its next hop is compared"},
	}
}

// addressCases joins the fixtures with the table, which go together by number.
func addressCases(f *Func) ([]Case, error) {
	cases, err := f.Table("tests")
	if err != nil {
		return nil, err
	}
	fixtures, err := f.Var("fixtures")
	list, _ := fixtures.([]any)
	for i := range cases {
		if o, ok := cases[i].Value.(*Object); ok && i < len(list) {
			o.Fields["nodes"] = list[i]
		}
	}
	return cases, err
}

func runNextHop(t *testing.T, c Case) result {
	r := newRun(t)
	r.set("Route", "router-id", "router")
	router := r.cloud.put("routers", object{"id": "router", "routes": []any{}, "revision_number": 1})
	addresses := nodeAddresses(List(c.Value, "nodes")[0])
	fixed := []object{}
	for _, a := range addresses {
		fixed = append(fixed, object{"ip_address": a.Address, "subnet_id": "subnet"})
	}
	r.cloud.put("ports", object{"id": "port", "network_id": "net", "device_id": "server", "fixed_ips": fixed, "allowed_address_pairs": []any{}, "port_security_enabled": true, "revision_number": 1})
	r.cloud.put("ports", object{"id": "router-port", "network_id": "net", "device_id": "router", "fixed_ips": []object{}})
	r.cloud.put("servers", object{"id": "server", "name": "test-node-1"})
	cidr := "10.244.1.0/24"
	if Bool(c.Value, "ipv6") {
		cidr = "fd00:1::/64"
	}
	if err := r.configure(); err != nil {
		t.Fatal(err)
	}
	route := &abi.Route{Name: "test-node-1", TargetNode: "test-node-1", TargetNodeAddresses: addresses, HasTargetNodeAddresses: true, DestinationCidr: cidr}
	err := r.host.Call(abi.OpRouteCreate, &abi.RouteCreateRequest{ClusterName: "kubernetes", NameHint: "hint", Route: route}, &abi.Done{})
	if err != nil {
		return same(err, Text(c.Value, "ip"))
	}
	routes, _ := router["routes"].([]any)
	if len(routes) != 1 {
		return same(routes, Text(c.Value, "ip"))
	}
	return same(routes[0].(map[string]any)["nexthop"], Text(c.Value, "ip"))
}

// nodeAddresses are those of a Node.
func nodeAddresses(node any) (all []*abi.NodeAddress) {
	for _, a := range List(node, "Status", "Addresses") {
		all = append(all, &abi.NodeAddress{Type: addressType(Text(a, "Type")), Address: Text(a, "Address")})
	}
	return all
}

func addressType(symbol string) abi.AddressType {
	_, name, _ := strings.Cut(symbol, ".Node")
	return map[string]abi.AddressType{
		"InternalIP": abi.AddressType_ADDRESS_TYPE_INTERNAL_IP, "ExternalIP": abi.AddressType_ADDRESS_TYPE_EXTERNAL_IP,
		"HostName": abi.AddressType_ADDRESS_TYPE_HOSTNAME, "ExternalDNS": abi.AddressType_ADDRESS_TYPE_EXTERNAL_DNS, "InternalDNS": abi.AddressType_ADDRESS_TYPE_INTERNAL_DNS,
	}[name]
}

// absentAdapters are the tests of what this provider does not have.
func absentAdapters() []adapter {
	const (
		keystone = "the signer authenticates"
		live     = "the tests with the tag openstack do the same in a cloud"
		groups   = "security groups are not managed"
		rename   = "load balancers are not renamed when the cluster's name changes"
	)
	return []adapter{
		{test: "TestToAuthOptions", absent: keystone}, {test: "TestToAuth3Options", absent: keystone}, {test: "TestToAuth3OptionsScope", absent: keystone},
		{test: "TestNewOpenStack", absent: live}, {test: "TestLoadBalancer", absent: live},
		{test: "TestCaller", absent: "a helper for undoing; here a half done object is found again by its name"},
		{test: "TestZones", absent: "the manager does not run on the machine that it asks about"},
		{test: "TestUserAgentFlag", table: "tests", absent: "a flag of their manager"},
		{test: "TestGetRulesToCreateAndDelete", table: "tests", absent: groups}, {test: "Test_getSecurityGroupName", table: "tests", absent: groups},
		{test: "TestReplaceClusterName", table: "tests", absent: rename}, {test: "TestDecomposeLBName", table: "tests", absent: rename},
		{test: "TestLbaasV2_updateServiceAnnotations", absent: "nothing is written into Services"},
	}
}
