package volumes_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/guests/openstack/api"
	"github.com/wasm-ccm/wasm-ccm/guests/openstack/cloudconf"
	"github.com/wasm-ccm/wasm-ccm/guests/openstack/volumes"
	"github.com/wasm-ccm/wasm-ccm/guests/sdk"
	"github.com/wasm-ccm/wasm-ccm/guests/sdk/sdktest"
)

const volumeID = "573e024d-5235-49ce-8332-be1576d323f8"

// ask answers the call for the volume with body, and returns the calls.
func ask(t *testing.T, conf string, v *abi.Volume, status int32, body string) (map[string]string, []string, error) {
	t.Helper()
	config, _, err := cloudconf.Parse([]byte("[Global]\nauth-url = http://cloud/v3\n" + conf))
	if err != nil {
		t.Fatal(err)
	}
	var calls []string
	h := sdktest.New(t)
	h.HTTP = func(req *abi.HttpRequest) (*abi.HttpResponse, error) {
		if strings.HasSuffix(req.Url, "/auth/catalog") {
			return &abi.HttpResponse{Status: 200, Body: []byte(`{"catalog": [{"type": "compute", "endpoints": [{"interface": "public", "region": "one", "url": "http://cloud/compute"}]}, {"type": "volumev3", "endpoints": [{"interface": "public", "region": "one", "url": "http://cloud/volume/v3/project"}]}]}`)}, nil
		}
		calls = append(calls, req.Method+" "+req.Url)
		if "GET "+req.Url == zones {
			return &abi.HttpResponse{Status: 200, Body: []byte(`{"availabilityZoneInfo": [{"zoneName": "nova"}, {"zoneName": "az 1 / rack_2"}, {"zoneName": "` + strings.Repeat("a", 62) + `-b"}]}`)}, nil
		}
		return &abi.HttpResponse{Status: status, Body: []byte(body)}, nil
	}
	labels, err := volumes.Labels(api.New(h.Op(), &config.Global), config, v)
	if err == nil {
		h.Answered(abi.OpVolumeLabels, &abi.VolumeLabelsResponse{Labels: labels, Done: true})
	}
	for range 3 { // the cache must not change the answer
		again, againErr := volumes.Labels(api.New(h.Op(), &config.Global), config, v)
		if diff := cmp.Diff(labels, again); diff != "" || (err == nil) != (againErr == nil) {
			t.Errorf("asked again: %v, %v", again, againErr)
		}
	}
	return labels, calls, err
}

const zones = "GET http://cloud/compute/os-availability-zone"

func cinder(id string) *abi.Volume {
	return &abi.Volume{Name: "pv-1", Source: "csi", Driver: "cinder.csi.openstack.org", VolumeId: id}
}

func zoned(zone string) string {
	return fmt.Sprintf(`{"volume": {"id": %q, "availability_zone": %q, "status": "in-use"}}`, volumeID, zone)
}

func TestLabels(t *testing.T) {
	inTree := &abi.Volume{Name: "pv-2", Source: "cinder", VolumeId: volumeID}
	volume := "GET http://cloud/volume/v3/project/volumes/" + volumeID
	get := []string{volume, zones, volume, volume, volume}
	for _, test := range []struct {
		name, conf, zone string
		volume           *abi.Volume
		want             map[string]string
		calls            []string
	}{
		{"csi", "region = one", "nova", cinder(volumeID), map[string]string{"topology.kubernetes.io/zone": "nova", "topology.kubernetes.io/region": "one"}, get},
		{"in-tree", "region = one", "nova", inTree, map[string]string{"topology.kubernetes.io/zone": "nova", "topology.kubernetes.io/region": "one"}, get},
		{"not a zone of Nova", "region = one", "ceph", cinder(volumeID), map[string]string{"topology.kubernetes.io/region": "one"}, get},
		{"no region", "", "az 1 / rack_2", cinder(volumeID), map[string]string{"topology.kubernetes.io/zone": "az-1-rack_2"}, get},
		{"zone too long", "", strings.Repeat("a", 62) + "-b", cinder(volumeID), map[string]string{"topology.kubernetes.io/zone": strings.Repeat("a", 62)}, get},
		{"ignore-volume-az", "region = one\n[BlockStorage]\nignore-volume-az = true", "nova", cinder(volumeID), map[string]string{"topology.kubernetes.io/region": "one"}, nil},
		{"another driver", "region = one", "nova", &abi.Volume{Source: "csi", Driver: "manila.csi.openstack.org", VolumeId: volumeID}, nil, nil},
		{"another source", "region = one", "nova", &abi.Volume{Source: "nfs", VolumeId: volumeID}, nil, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, calls, err := ask(t, test.conf, test.volume, 200, zoned(test.zone))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("labels (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.calls, calls); diff != "" {
				t.Errorf("calls (-want +got):\n%s", diff)
			}
		})
	}
}

func TestErrors(t *testing.T) {
	for _, test := range []struct {
		name, conf, id, body string
		status               int32
		code                 abi.Code
		want                 string
	}{
		{"gone", "", volumeID, `{"itemNotFound": {"code": 404, "message": "Volume could not be found."}}`, 404, abi.CodeNotFound, "volume pv-1: Cinder has no volume " + volumeID},
		{"no ID", "", "", zoned("nova"), 200, abi.CodeInvalid, "see the volume handle"},
		{"long ID", "", strings.Repeat("a", 129), zoned("nova"), 200, abi.CodeInvalid, "see the volume handle"},
		{"path", "", "../servers/1", zoned("nova"), 200, abi.CodeInternal, "answers about"},
		{"no zone", "", volumeID, zoned("--"), 200, abi.CodeUnavailable, "ignore-volume-az"},
		{"empty answer", "", volumeID, `{}`, 200, abi.CodeInternal, `it has no "volume"`},
		{"empty volume", "", volumeID, `{"volume": {}}`, 200, abi.CodeInternal, "answers about"},
		{"forbidden", "", volumeID, `{"forbidden": {"message": "Policy"}}`, 403, 0, "403 Forbidden: Policy"},
		{"no endpoint", "region = two", volumeID, zoned("nova"), 200, abi.CodeInvalid, `no public endpoint of the service block-storage in the region "two"`},
	} {
		t.Run(test.name, func(t *testing.T) {
			labels, calls, err := ask(t, test.conf, cinder(test.id), test.status, test.body)
			if err == nil || test.code != 0 && sdk.CodeOf(err) != test.code || !strings.Contains(err.Error(), test.want) {
				t.Errorf("%v, error %v (%v), want %q (%v)", labels, err, sdk.CodeOf(err), test.want, test.code)
			}
			for _, call := range calls {
				if !strings.HasPrefix(call, "GET http://cloud/volume/v3/project/volumes/") || strings.Contains(call, "/../") {
					t.Errorf("call %s", call)
				}
			}
		})
	}
}
