package main

import (
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/wasm-ccm/wasm-ccm/abi"
)

const example = `# the example of README.md
region: dc-1
machines:
  - name: worker-1
    type: m1.large
    zone: rack-a
    labels:
      example.com/disk: nvme
    addresses:
      - {type: InternalIP, address: 10.0.0.11}
      - {type: ExternalIP, address: "2001:db8::11"}
      - {type: Hostname, address: worker-1.example.com}
  - name: worker-2
    providerID: metal://serial-4711
    zone: rack-b
    region: dc-2
    state: shutdown
    addresses:
      - {type: InternalIP, address: 10.0.0.12}
pools:
  - name: public
    cidrs: [198.51.100.0/29, "2001:db8:1::/64"]
    skipNetworkAndBroadcast: true
  - name: reserved
    ranges: [203.0.113.10-203.0.113.12]
    autoAssign: false
routes: true
volumes:
  - driver: csi.example.com
    zoneFrom: volumeID
    separator: /
  - zoneFrom: node
`

func TestParseInventory(t *testing.T) {
	inv, err := parseInventory([]byte(example))
	if err != nil {
		t.Fatal(err)
	}
	want := []abi.InstanceMetadata{
		{
			ProviderId: "static://worker-1", InstanceType: "m1.large", Zone: "rack-a", Region: "dc-1",
			AdditionalLabels: map[string]string{"example.com/disk": "nvme"},
			Addresses: []*abi.NodeAddress{
				{Type: abi.AddressType_ADDRESS_TYPE_INTERNAL_IP, Address: "10.0.0.11"},
				{Type: abi.AddressType_ADDRESS_TYPE_EXTERNAL_IP, Address: "2001:db8::11"},
				{Type: abi.AddressType_ADDRESS_TYPE_HOSTNAME, Address: "worker-1.example.com"},
			},
		},
		{
			ProviderId: "metal://serial-4711", Zone: "rack-b", Region: "dc-2",
			Addresses: []*abi.NodeAddress{{Type: abi.AddressType_ADDRESS_TYPE_INTERNAL_IP, Address: "10.0.0.12"}},
		},
	}
	for i := range want {
		if got := &inv.machines[i].metadata; !reflect.DeepEqual(got, &want[i]) {
			t.Errorf("machine %d: %v, want %v", i, got, &want[i])
		}
	}
	if inv.machines[0].shutdown || !inv.machines[1].shutdown {
		t.Error("the second machine is shut down, the first is not")
	}
	if diff := cmp.Diff(map[string]string{"rack-a": "dc-1", "rack-b": "dc-2"}, inv.regionOfZone); diff != "" {
		t.Error(diff)
	}
	var pools []string
	for _, p := range inv.pools {
		for _, b := range p.blocks {
			pools = append(pools, fmt.Sprint(p.name, " ", p.autoAssign, " ", b.first, " ", b.last))
		}
	}
	wantPools := []string{
		"public true 198.51.100.1 198.51.100.6",
		"public true 2001:db8:1::1 2001:db8:1:0:ffff:ffff:ffff:ffff",
		"reserved false 203.0.113.10 203.0.113.12",
	}
	if diff := cmp.Diff(wantPools, pools); diff != "" {
		t.Error(diff)
	}
	if !inv.routes || len(inv.volumes) != 2 || len(inv.disabledOps()) != 0 {
		t.Errorf("routes %v, %d rules, disabled %v", inv.routes, len(inv.volumes), inv.disabledOps())
	}
}

// m is a machine on lines 2 and 3: appended text begins at line 4.
const m = "machines:\n- name: m1\n  addresses: [{type: InternalIP, address: 10.0.0.1}]\n"

func TestRefusedInventory(t *testing.T) {
	tests := map[string]struct {
		text string
		want []string
	}{
		"empty":             {"", []string{"line 1", "empty"}},
		"comment only":      {"# nothing", []string{"line 1", "empty"}},
		"text":              {"hello", []string{"line 1", "must be a mapping"}},
		"syntax":            {"machines:\n  - name: [m1\n", []string{"line 2", "not closed"}},
		"unknown field":     {m + "colour: blue\n", []string{"line 4", "colour is unknown", "pools"}},
		"no machines":       {"region: r\n", []string{"line 1", "no machines"}},
		"empty machines":    {"region: r\nmachines: []\n", []string{"line 2", "machines is empty"}},
		"machines text":     {"machines: m1\n", []string{"line 1", "machines is text", "a list"}},
		"machine text":      {"machines:\n- m1\n", []string{"line 2", "a mapping"}},
		"machine field":     {m + "- {name: m2, colour: blue, addresses: [{type: Hostname, address: m2}]}", []string{"line 4", "colour is unknown"}},
		"no name":           {m + "- {addresses: [{type: Hostname, address: m2}]}", []string{"line 4", "no name"}},
		"number name":       {m + "- {name: 17, addresses: [{type: Hostname, address: m2}]}", []string{"line 4", "name is a number", "quotes"}},
		"bad name":          {m + "- {name: M_2, addresses: [{type: Hostname, address: m2}]}", []string{"line 4", `"M_2" cannot be the name of a Node`}},
		"name twice":        {m + "- {name: m1, addresses: [{type: Hostname, address: m2}]}", []string{"line 4", "machine m1 is in line 2, too"}},
		"no addresses":      {m + "- {name: m2}", []string{"line 4", "m2 has no addresses"}},
		"address twice":     {m + "- {name: m2, addresses: [{type: ExternalIP, address: 10.0.0.1}]}", []string{"line 4", "10.0.0.1 is that of machine m1 in line 2"}},
		"own address twice": {m + "- {name: m2, addresses: [{type: InternalIP, address: 10.0.0.2}, {type: InternalIP, address: 10.0.0.2}]}", []string{"line 4", "10.0.0.2 stands twice"}},
		"no IP":             {m + "- {name: m2, addresses: [{type: InternalIP, address: 10.0.0}]}", []string{"line 4", `"10.0.0" is not an IP address`}},
		"mapped IP":         {m + "- {name: m2, addresses: [{type: InternalIP, address: \"::ffff:10.0.0.2\"}]}", []string{"line 4", "cannot be the address"}},
		"multicast IP":      {m + "- {name: m2, addresses: [{type: InternalIP, address: 224.0.0.1}]}", []string{"line 4", "cannot be the address"}},
		"address type":      {m + "- {name: m2, addresses: [{type: IP, address: 10.0.0.2}]}", []string{"line 4", `"IP" is none of InternalIP`}},
		"no address type":   {m + "- {name: m2, addresses: [{address: 10.0.0.2}]}", []string{"line 4", "no type"}},
		"no address":        {m + "- {name: m2, addresses: [{type: InternalIP}]}", []string{"address is nothing"}},
		"host name":         {m + "- {name: m2, addresses: [{type: Hostname, address: \"a b\"}]}", []string{"line 4", `"a b" is not a host name`}},
		"provider ID":       {m + "- {name: m2, providerID: m2, addresses: [{type: Hostname, address: m2}]}", []string{"line 4", "SCHEME://ID"}},
		"provider ID twice": {m + "- {name: m2, providerID: \"static://m1\", addresses: [{type: Hostname, address: m2}]}", []string{"line 4", "static://m1 is that of machine m1 in line 2"}},
		"zone":              {m + "- {name: m2, zone: \"a b\", addresses: [{type: Hostname, address: m2}]}", []string{"line 4", `zone: "a b" cannot be the value of a label`}},
		"long zone":         {"zone: " + strings.Repeat("a", 64) + "\n" + m, []string{"line 1", "label"}},
		"zone of two":       {m + "- {name: m2, zone: a, region: r1, addresses: [{type: Hostname, address: m2}]}\n- {name: m3, zone: a, region: r2, addresses: [{type: Hostname, address: m3}]}", []string{"line 5", `zone a is in region "r2"`, "line 4"}},
		"state":             {m + "- {name: m2, state: off, addresses: [{type: Hostname, address: m2}]}", []string{"line 4", "state is a truth value"}},
		"state word":        {m + "- {name: m2, state: stopped, addresses: [{type: Hostname, address: m2}]}", []string{"line 4", `"stopped" is neither`}},
		"kubernetes label":  {m + "- {name: m2, labels: {topology.kubernetes.io/zone: a}, addresses: [{type: Hostname, address: m2}]}", []string{"line 4", "belongs to Kubernetes"}},
		"label name":        {m + "- {name: m2, labels: {\"a b\": a}, addresses: [{type: Hostname, address: m2}]}", []string{"line 4", "not the name of a label"}},
		"label value":       {m + "- {name: m2, labels: {a: \"b c\"}, addresses: [{type: Hostname, address: m2}]}", []string{"line 4", "value of the label"}},
		"many addresses":    {m + "- {name: m2, addresses: [" + strings.Repeat("{type: Hostname, address: m2},", 17) + "]}", []string{"line 4", "more than 16"}},
		"pool name":         {m + "pools: [{cidrs: [192.0.2.0/24]}]", []string{"line 4", "no name"}},
		"pool twice":        {m + "pools:\n- {name: p, cidrs: [192.0.2.0/25]}\n- {name: p, cidrs: [192.0.2.128/25]}", []string{"line 6", "pool p stands twice"}},
		"pool empty":        {m + "pools: [{name: p}]", []string{"line 4", "pool p has no addresses"}},
		"pool field":        {m + "pools: [{name: p, cidr: 192.0.2.0/24}]", []string{"line 4", "cidr is unknown", "cidrs"}},
		"cidr":              {m + "pools: [{name: p, cidrs: [192.0.2.0]}]", []string{"line 4", "not a CIDR"}},
		"cidr bits":         {m + "pools: [{name: p, cidrs: [192.0.2.1/24]}]", []string{"line 4", "did you mean 192.0.2.0/24"}},
		"cidr of multicast": {m + "pools: [{name: p, cidrs: [224.0.0.0/24]}]", []string{"line 4", "cannot be addresses"}},
		"range":             {m + "pools: [{name: p, ranges: [192.0.2.9]}]", []string{"line 4", "FIRST-LAST"}},
		"range backwards":   {m + "pools: [{name: p, ranges: [192.0.2.9-192.0.2.1]}]", []string{"line 4", "first to a last"}},
		"range of two":      {m + "pools: [{name: p, ranges: [\"192.0.2.9-2001:db8::1\"]}]", []string{"line 4", "one family"}},
		"overlap":           {m + "pools:\n- {name: p, cidrs: [192.0.2.0/24]}\n- {name: q, ranges: [192.0.2.9-192.0.2.12]}", []string{"line 6", "pool q overlap with those of pool p in line 5"}},
		"overlap in one":    {m + "pools:\n- name: p\n  cidrs:\n  - 192.0.2.0/24\n  - 192.0.2.0/28", []string{"line 8", "line 7"}},
		"machine in pool":   {m + "pools: [{name: p, cidrs: [10.0.0.0/24]}]", []string{"line 3", "address 10.0.0.1 of machine m1 is in pool p"}},
		"autoAssign":        {m + "pools: [{name: p, cidrs: [192.0.2.0/24], autoAssign: yes}]", []string{"line 4", "true or false"}},
		"routes":            {m + "routes: 1", []string{"line 4", "routes must be true or false"}},
		"rule empty":        {m + "volumes: [{driver: d}]", []string{"line 4", "either a zone or a zoneFrom"}},
		"rule both":         {m + "volumes: [{zone: a, zoneFrom: node}]", []string{"line 4", "either a zone or a zoneFrom", "no machine is in zone"}},
		"rule from":         {m + "volumes: [{zoneFrom: sky}]", []string{"line 4", `"sky" is none of`}},
		"rule key":          {m + "volumes: [{zoneFrom: label}]", []string{"line 4", "key"}},
		"rule separator":    {m + "volumes: [{zoneFrom: node, separator: /}]", []string{"line 4", "separator"}},
		"rule zone":         {m + "volumes: [{zone: nowhere}]", []string{"line 4", `no machine is in zone "nowhere"`}},
		"too large":         {strings.Repeat("#\n", maxInventoryBytes), []string{"bytes, more than"}},
		"several":           {"colour: blue\nflavour: sweet\n" + m, []string{"line 1: colour", "line 2: flavour"}},
		"many":              {"machines:\n" + strings.Repeat("- m1\n", 20), []string{"line 2", "line 11", "and more"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := parseInventory([]byte(test.text))
			if err == nil {
				t.Fatalf("accepted:\n%s", test.text)
			}
			for _, want := range test.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q does not say %q", err, want)
				}
			}
		})
	}
}

func TestTooManyMachines(t *testing.T) {
	_, err := parseInventory([]byte("machines:\n" + strings.Repeat("- m\n", maxMachines+1)))
	if err == nil || !strings.Contains(err.Error(), "machines has 10001 entries, more than 10000") {
		t.Errorf("%v", err)
	}
}

// A missing section turns off its ops; an empty list of pools does not.
func TestDisabledOps(t *testing.T) {
	tests := map[string]struct {
		text string
		want []abi.Op
	}{
		"machines only": {m, []abi.Op{abi.OpLoadBalancerEnsure, abi.OpRouteCreate, abi.OpVolumeLabels}},
		"empty pools":   {m + "pools: []\nroutes: true\n", []abi.Op{abi.OpVolumeLabels}},
		"no routes":     {m + "pools: []\nroutes: false\nvolumes: [{zoneFrom: node}]\n", []abi.Op{abi.OpRouteCreate}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			inv, err := parseInventory([]byte(test.text))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, inv.disabledOps()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// FuzzParseInventory: an accepted inventory satisfies the assumptions of the
// other code; a refusal names the line.
func FuzzParseInventory(f *testing.F) {
	f.Add(example)
	f.Add(m)
	f.Add("machines: [{name: m1, addresses: [{type: Hostname, address: m1}]}]\npools: [{name: p, cidrs: [\"::1/128\"], ranges: [192.0.2.1-192.0.2.1]}]")
	f.Fuzz(func(t *testing.T, text string) {
		inv, err := parseInventory([]byte(text))
		if err != nil {
			if !strings.Contains(err.Error(), "line ") && !strings.Contains(err.Error(), "bytes") {
				t.Fatalf("%q: %v has no line", text, err)
			}
			return
		}
		if len(inv.machines) == 0 || len(inv.byName) != len(inv.machines) || len(inv.byProviderID) != len(inv.machines) {
			t.Fatalf("%q: %d machines, %d names, %d IDs", text, len(inv.machines), len(inv.byName), len(inv.byProviderID))
		}
		for _, mach := range inv.machines {
			if !inv.schemes[schemeOf(mach.metadata.ProviderId)] || !isDNSName(mach.name) || len(mach.metadata.Addresses) == 0 {
				t.Fatalf("%q: machine %+v", text, &mach.metadata)
			}
		}
		for _, p := range inv.pools {
			for _, b := range p.blocks {
				if !b.contains(b.first) || !b.contains(b.last) || inv.poolOf(b.first).name != p.name {
					t.Fatalf("%q: block %v of pool %s", text, b, p.name)
				}
			}
		}
	})
}

// The inventory in README.md is accepted.
func TestReadme(t *testing.T) {
	text, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "```yaml\n")
	config, _, found := strings.Cut(rest, "```")
	if !found {
		t.Fatal("README.md has no inventory")
	}
	inv, err := parseInventory([]byte(config))
	if err != nil {
		t.Fatal(err)
	}
	if len(inv.machines) != 2 || len(inv.pools) != 2 || len(inv.volumes) != 2 {
		t.Errorf("%d machines, %d pools, %d rules", len(inv.machines), len(inv.pools), len(inv.volumes))
	}
}
