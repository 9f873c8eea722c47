package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/guests/sdk/sdktest"
)

// TestZonesOfNodesAndVolumes: a volume and a Node in one availability zone get
// equal labels, whatever the spelling, since the scheduler compares them. A
// zone that no Node can have gives an Event instead.
func TestZonesOfNodesAndVolumes(t *testing.T) {
	const id = "573e024d-5235-49ce-8332-be1576d323f8"
	for _, zone := range []string{"nova", "AZ 1 / rack_2", "_eu:de-1.", strings.Repeat("long.", 20), strings.Repeat("x", 62) + "--y", "zöne"} {
		h := sdktest.New(t)
		answers := map[string]any{
			"/v3/auth/catalog": map[string]any{"catalog": []any{
				map[string]any{"type": "compute", "endpoints": []any{map[string]string{"interface": "public", "region": "eu de", "url": "http://cloud/compute"}}},
				map[string]any{"type": "network", "endpoints": []any{map[string]string{"interface": "public", "region": "eu de", "url": "http://cloud/network"}}},
				map[string]any{"type": "volumev3", "endpoints": []any{map[string]string{"interface": "public", "region": "eu de", "url": "http://cloud/volume"}}},
			}},
			"/compute/servers/" + id: map[string]any{"server": map[string]any{
				"id": id, "name": "node-1", "status": "ACTIVE", "flavor": map[string]string{"original_name": "small"}, "OS-EXT-AZ:availability_zone": zone, "accessIPv4": "192.0.2.1",
			}},
			"/network/v2.0/ports":           map[string]any{"ports": []any{}},
			"/compute/os-availability-zone": map[string]any{"availabilityZoneInfo": []any{map[string]string{"zoneName": zone}}},
			"/volume/volumes/" + id:         map[string]any{"volume": map[string]string{"id": id, "availability_zone": zone}},
		}
		h.HTTP = func(req *abi.HttpRequest) (*abi.HttpResponse, error) {
			path, _, _ := strings.Cut(strings.TrimPrefix(req.Url, "http://cloud"), "?")
			body, err := json.Marshal(answers[path])
			return &abi.HttpResponse{Status: 200, Body: body}, err
		}
		h.Configure(&provider{}, "[Global]\nauth-url = http://cloud\nregion = eu de")
		var metadata abi.InstanceMetadataResponse
		if err := h.Call(abi.OpInstanceMetadata, &abi.InstanceRequest{Node: &abi.Node{Name: "node-1", ProviderId: "openstack:///" + id}}, &metadata); err != nil {
			t.Fatal(err)
		}
		ask := &abi.VolumeLabelsRequest{Volume: &abi.Volume{Name: "pv-1", Source: "cinder", VolumeId: id}}
		var labels abi.VolumeLabelsResponse
		if err := h.Call(abi.OpVolumeLabels, ask, &labels); err != nil {
			t.Fatal(err)
		}
		wantZone, wantRegion := metadata.Metadata.Zone, metadata.Metadata.Region
		if got := labels.Labels; wantZone == "" || got["topology.kubernetes.io/zone"] != wantZone || got["topology.kubernetes.io/region"] != wantRegion {
			t.Errorf("zone %q: the Node has %q and %q, the volume %v", zone, wantZone, wantRegion, got)
		}
		answers["/volume/volumes/"+id] = map[string]any{"volume": map[string]string{"id": id, "availability_zone": "ceph"}}
		if err := h.Call(abi.OpVolumeLabels, ask, &labels); err != nil {
			t.Fatal(err)
		}
		if events := h.Events(); labels.Labels["topology.kubernetes.io/zone"] != "" || len(events) != 1 || !strings.Contains(events[0].Message, "ignore-volume-az = true") {
			t.Errorf("zone %q: labels %v, events %v", zone, labels.Labels, events)
		}
	}
}
