//go:build cpo

package main

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/guests/openstack/cloudconf"
	"github.com/wasm-ccm/wasm-ccm/guests/openstack/instances"
)

const wrongCIDR = "Theirs logs a wrong CIDR and leaves it out."

func instanceAdapters(source *Source) []adapter {
	all := []adapter{
		{
			test: "TestBuildAddressSortOrderList", table: "tests", run: runSortOrder, how: "the option is read as address-sort-order of a cloud.conf",
			meant: map[string]string{"2": wrongCIDR, "3": wrongCIDR},
		},
		{
			test: "TestGetSortPriority", table: "tests", run: runPriority,
			how: "a server with the case's address, one of each CIDR and one of none: between which of them it comes is its priority",
		},
		{test: "Test_instanceIDFromProviderID", table: "tests", run: runProviderID, how: "instances.ParseProviderID, the wording of errors apart"},
		{test: "TestInstanceIDFromProviderID", table: "testCases", run: runProviderID, how: "as above"},
	}
	for _, test := range source.Tests() {
		switch {
		case strings.HasPrefix(test, "TestSortNodeAddresses"):
			a := adapter{
				test: test, cases: sortCases(source), run: runSort,
				how: "the addresses of a server, in the order of the case, with that address-sort-order; host names are left out, since a server has one",
			}
			if test == "TestSortNodeAddressesWithAnInvalidCIDR" {
				a.meant = map[string]string{"the test": wrongCIDR}
			}
			all = append(all, a)
		case strings.HasPrefix(test, "TestNodeAddresses"):
			all = append(all, adapter{test: test, cases: wholeTest("srv", "ports", "networkingOpts", "want"), run: runAddresses, how: "instance_metadata of a server with those addresses and ports"})
		}
	}
	return all
}

// wholeTest makes one case of a test's variables.
func wholeTest(names ...string) func(f *Func) ([]Case, error) {
	return func(f *Func) ([]Case, error) {
		o := &Object{Fields: map[string]any{}}
		for _, name := range names {
			value, err := f.Var(name)
			if err != nil {
				return nil, err
			}
			o.Fields[name] = value
		}
		return []Case{{Name: "the test", Pos: f.Pos(), Value: o}}, nil
	}
}

// sortCases adds the list that the four tests sort, which is in a helper.
func sortCases(source *Source) func(f *Func) ([]Case, error) {
	return func(f *Func) ([]Case, error) {
		cases, err := wholeTest("addressSortOrder", "want")(f)
		if err != nil {
			return nil, err
		}
		helper, err := source.Func("executeSortNodeAddressesTest")
		if err != nil {
			return nil, err
		}
		addresses, err := helper.Var("addresses")
		cases[0].Value.(*Object).Fields["addresses"] = addresses
		return cases, err
	}
}

func runSortOrder(_ *testing.T, c Case) result {
	want := []string{}
	for _, cidr := range List(c.Value, "value") {
		want = append(want, fmt.Sprint(cidr))
	}
	config, _, err := cloudconf.Parse([]byte("[Global]\nauth-url = http://k\n[Networking]\naddress-sort-order = " + Text(c.Value, "key")))
	if err != nil {
		return same("refused: "+err.Error(), want)
	}
	return same(config.Networking.AddressSortOrder, want)
}

func runProviderID(_ *testing.T, c Case) result {
	text := func(names ...string) string {
		for _, name := range names {
			if value := Text(c.Value, name); value != "" {
				return value
			}
		}
		return ""
	}
	providerID := text("providerID")
	if providerID == "" {
		providerID = Text(c.Value, "args", "providerID")
	}
	region, id, err := instances.ParseProviderID(providerID)
	fail := Bool(c.Value, "wantErr") || Bool(c.Value, "fail")
	return same(fmt.Sprint(id, ",", region, ",", err != nil), fmt.Sprint(text("wantInstanceID", "instanceID"), ",", text("wantRegion", "region"), ",", fail))
}

const serverID = "00000000-0000-4000-8000-000000000001"

// addressesOf is what instance_metadata says of the server.
func (r *run) addressesOf(server object) ([]string, error) {
	for key, value := range map[string]any{"id": serverID, "name": "node", "flavor": object{"original_name": "m1"}, "status": "ACTIVE"} {
		server[key] = value
	}
	r.cloud.put("servers", server)
	if err := r.configure(); err != nil {
		return nil, err
	}
	var resp abi.InstanceMetadataResponse
	node := &abi.Node{Name: "node", ProviderId: "openstack:///" + serverID}
	if err := r.host.Call(abi.OpInstanceMetadata, &abi.InstanceRequest{Node: node}, &resp); err != nil {
		return nil, err
	}
	var all []string
	for _, a := range resp.Metadata.Addresses {
		all = append(all, describe(a))
	}
	return all, nil
}

func describe(a *abi.NodeAddress) string {
	return strings.TrimPrefix(a.Type.String(), "ADDRESS_TYPE_") + " " + a.Address
}

// wantedAddresses are a []v1.NodeAddress.
func wantedAddresses(list []any) (all []string) {
	for _, a := range list {
		all = append(all, describe(&abi.NodeAddress{Type: addressType(Text(a, "Type")), Address: Text(a, "Address")}))
	}
	return all
}

func runAddresses(t *testing.T, c Case) result {
	r := newRun(t)
	options := At(c.Value, "networkingOpts")
	for _, name := range List(options, "PublicNetworkName") {
		r.set("Networking", "public-network-name", name)
	}
	for _, name := range List(options, "InternalNetworkName") {
		r.set("Networking", "internal-network-name", name)
	}
	r.set("Networking", "address-sort-order", Text(options, "AddressSortOrder"))
	r.set("Networking", "ipv6-support-disabled", Bool(options, "IPv6SupportDisabled"))
	for _, p := range List(c.Value, "ports") {
		fixed := []object{}
		for _, ip := range List(p, "Port", "FixedIPs") {
			fixed = append(fixed, object{"ip_address": Text(ip, "IPAddress")})
		}
		r.cloud.put("ports", object{"device_id": serverID, "status": Text(p, "Port", "Status"), "fixed_ips": fixed})
	}
	server := At(c.Value, "srv")
	got, err := r.addressesOf(object{
		"hostId": Text(server, "HostID"), "accessIPv4": Text(server, "AccessIPv4"), "accessIPv6": Text(server, "AccessIPv6"),
		"addresses": plain(At(server, "Addresses")), "metadata": plain(At(server, "Metadata")),
	})
	return orError(got, err, wantedAddresses(List(c.Value, "want")))
}

func orError(got any, err error, want any) result {
	if err != nil {
		return same("refused: "+err.Error(), want)
	}
	return same(got, want)
}

// plain makes JSON's values of a table's.
func plain(value any) any {
	switch v := value.(type) {
	case Map:
		o := object{}
		for _, e := range v {
			o[fmt.Sprint(e.Key)] = plain(e.Value)
		}
		return o
	case []any:
		all := make([]any, len(v))
		for i := range v {
			all[i] = plain(v[i])
		}
		return all
	}
	return value
}

// withOrder is a server that Nova says these addresses of, one network for
// each, so that their order is the list's.
func withOrder(addresses []string) object {
	networks := object{}
	for i, a := range addresses {
		kind, text, _ := strings.Cut(a, " ")
		networks[fmt.Sprintf("net-%02d", i)] = []object{{"addr": text, "OS-EXT-IPS:type": map[string]string{"EXTERNAL_IP": "floating", "INTERNAL_IP": "fixed"}[kind]}}
	}
	return object{"addresses": networks}
}

func runSort(t *testing.T, c Case) result {
	r := newRun(t)
	r.set("Networking", "address-sort-order", Text(c.Value, "addressSortOrder"))
	hostName := func(a string) bool { return strings.HasPrefix(a, "HOSTNAME") }
	got, err := r.addressesOf(withOrder(slices.DeleteFunc(wantedAddresses(List(c.Value, "addresses")), hostName)))
	return orError(got, err, slices.DeleteFunc(wantedAddresses(List(c.Value, "want")), hostName))
}

// runPriority knows the list of the test: an IPv4 CIDR, then an IPv6 one.
func runPriority(t *testing.T, c Case) result {
	const first, second, none = "INTERNAL_IP 192.168.100.255", "INTERNAL_IP 2001:4800:790e:0:ffff:ffff:ffff:ffff", "INTERNAL_IP 10.1.1.1"
	text := Text(c.Value, "key")
	r := newRun(t)
	r.set("Networking", "address-sort-order", "192.168.100.0/24, 2001:4800:790e::/64")
	if _, err := netip.ParseAddr(text); err != nil {
		return result{absent: "it has no IP address"}
	}
	got, err := r.addressesOf(withOrder([]string{none, "INTERNAL_IP " + text, second, first}))
	place := slices.Index(got, "INTERNAL_IP "+text)
	priority := 0
	switch {
	case place < slices.Index(got, first):
		priority = 2
	case place < slices.Index(got, second):
		priority = 1
	}
	return orError(priority, err, Int(c.Value, "value"))
}
