package main

import (
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/guests/sdk"
)

func TestRoutes(t *testing.T) {
	h := configured(t, pools)
	list := func(cluster string) string {
		t.Helper()
		var resp abi.RouteListResponse
		if err := h.Call(abi.OpRouteList, &abi.RouteListRequest{ClusterName: cluster}, &resp); err != nil || !resp.Done {
			t.Fatal(err)
		}
		var routes []string
		for _, r := range resp.Routes {
			routes = append(routes, r.TargetNode+"="+r.DestinationCidr+strconv.FormatBool(r.Blackhole))
		}
		return strings.Join(routes, " ")
	}
	create := func(cluster, target, cidr string) error {
		return h.Call(abi.OpRouteCreate, &abi.RouteCreateRequest{ClusterName: cluster, NameHint: "uid", Route: &abi.Route{TargetNode: target, DestinationCidr: cidr}}, &abi.Done{})
	}
	remove := func(cluster, target, cidr string) error {
		return h.Call(abi.OpRouteDelete, &abi.RouteDeleteRequest{ClusterName: cluster, Route: &abi.Route{TargetNode: target, DestinationCidr: cidr}}, &abi.Done{})
	}
	if got := list("c 1"); got != "" {
		t.Errorf("at first: %s", got)
	}
	for range 2 {
		for _, cidr := range []string{"10.244.1.0/24", "2001:db8:9::/64"} {
			if err := create("c 1", "m1", cidr); err != nil {
				t.Fatal(err)
			}
		}
	}
	if got := list("c 1"); got != "m1=10.244.1.0/24false m1=2001:db8:9::/64false" || h.Store.Writes() != 2 {
		t.Errorf("after creation: %s, %d writes", got, h.Store.Writes())
	}
	if got := list("c 2"); got != "" {
		t.Errorf("another cluster: %s", got)
	}
	if err := create("c 1", "m9", "10.244.2.0/24"); sdk.CodeOf(err) != abi.CodeInstanceNotFound {
		t.Errorf("to a machine that is not listed: %v", err)
	}
	if err := create("c 1", "m1", "10.244.2.0"); sdk.CodeOf(err) != abi.CodeInvalid {
		t.Errorf("to no CIDR: %v", err)
	}
	// m1 leaves the inventory: its route can still be deleted.
	h.Configure(&provider{}, strings.ReplaceAll(pools, "m1", "m2"))
	for range 2 {
		if err := remove("c 1", "m1", "10.244.1.0/24"); err != nil {
			t.Error(err)
		}
	}
	if got := list("c 1"); got != "m1=2001:db8:9::/64false" || h.Store.Writes() != 3 {
		t.Errorf("after deletion: %s, %d writes", got, h.Store.Writes())
	}
	h.Store.Put("route.x", "v2 x")
	if err := h.Call(abi.OpRouteList, &abi.RouteListRequest{}, &abi.RouteListResponse{}); sdk.CodeOf(err) != abi.CodeInternal {
		t.Errorf("an entry of a later version: %v, want an error", err)
	}
}

// A Node with the longest name can have a route.
func TestRouteToLongName(t *testing.T) {
	name := strings.Repeat(strings.Repeat("a", 62)+".", 4) + "a"
	h := configured(t, "machines: [{name: "+name+", addresses: [{type: InternalIP, address: 10.0.0.1}]}]\nroutes: true\n")
	route := &abi.Route{TargetNode: name, DestinationCidr: "10.244.1.0/24"}
	if err := h.Call(abi.OpRouteCreate, &abi.RouteCreateRequest{ClusterName: "c", Route: route}, &abi.Done{}); err != nil {
		t.Fatal(err)
	}
	var resp abi.RouteListResponse
	if err := h.Call(abi.OpRouteList, &abi.RouteListRequest{ClusterName: "c"}, &resp); err != nil || len(resp.Routes) != 1 || resp.Routes[0].TargetNode != name {
		t.Errorf("%v, %v", resp.Routes, err)
	}
	if err := h.Call(abi.OpRouteDelete, &abi.RouteDeleteRequest{ClusterName: "c", Route: route}, &abi.Done{}); err != nil || len(h.Store.Entries()) != 0 {
		t.Errorf("%v, left %v", err, h.Store.Entries())
	}
}

func TestVolumeLabels(t *testing.T) {
	config := strings.Replace(example, "  - zoneFrom: node\n", `  - {source: nfs, zone: rack-b}
  - {storageClass: san, zoneFrom: attribute, key: zone}
  - {storageClass: san, zoneFrom: label, key: z}
  - {storageClass: san, zoneFrom: annotation, key: z}
  - zoneFrom: node
`, 1)
	place := func(zone, region string) map[string]string {
		return map[string]string{"topology.kubernetes.io/zone": zone, "topology.kubernetes.io/region": region}
	}
	tests := map[string]struct {
		volume *abi.Volume
		want   map[string]string
		err    string
	}{
		"volume ID":         {&abi.Volume{Driver: "csi.example.com", VolumeId: "rack-b/data"}, place("rack-b", "dc-2"), ""},
		"no separator":      {&abi.Volume{Driver: "csi.example.com", VolumeId: "data"}, nil, ""},
		"unknown zone":      {&abi.Volume{Name: "v", Driver: "csi.example.com", VolumeId: "rack-z/data"}, nil, `volume v: its zone by the rule in line 29 of the inventory is "rack-z"`},
		"fixed":             {&abi.Volume{Source: "nfs"}, place("rack-b", "dc-2"), ""},
		"attribute":         {&abi.Volume{StorageClass: "san", Attributes: map[string]string{"zone": "rack-a"}}, place("rack-a", "dc-1"), ""},
		"label":             {&abi.Volume{StorageClass: "san", Labels: map[string]string{"z": "rack-a"}}, place("rack-a", "dc-1"), ""},
		"annotation":        {&abi.Volume{StorageClass: "san", Annotations: map[string]string{"z": "rack-a"}}, place("rack-a", "dc-1"), ""},
		"node":              {&abi.Volume{Source: "local", NodeNames: []string{"worker-2"}}, place("rack-b", "dc-2"), ""},
		"nodes of zones":    {&abi.Volume{NodeNames: []string{"worker-1", "worker-2"}}, nil, ""},
		"unknown node":      {&abi.Volume{Name: "v", NodeNames: []string{"worker-9"}}, nil, "names worker-9, which is not in the inventory"},
		"nobody's business": {&abi.Volume{Source: "hostPath"}, nil, ""},
	}
	h := configured(t, config)
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var resp abi.VolumeLabelsResponse
			err := h.Call(abi.OpVolumeLabels, &abi.VolumeLabelsRequest{Volume: test.volume}, &resp)
			if test.err != "" {
				if sdk.CodeOf(err) != abi.CodeInvalid || !strings.Contains(err.Error(), test.err) {
					t.Errorf("%v, want %q", err, test.err)
				}
				return
			}
			if diff := cmp.Diff(test.want, resp.Labels); diff != "" || err != nil || !resp.Done {
				t.Error(err, diff)
			}
		})
	}
}
