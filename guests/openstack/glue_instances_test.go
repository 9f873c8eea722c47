package main

import (
	"strings"
	"testing"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/guests/sdk"
	"github.com/wasm-ccm/wasm-ccm/guests/sdk/sdktest"
)

const (
	instancesCatalog = `{"catalog": [{"type": "compute", "endpoints": [{"interface": "public", "region": "R1", "url": "https://nova"}]},
		{"type": "network", "endpoints": [{"interface": "public", "region": "R1", "url": "https://neutron"}]}]}`
	instancesID     = "5e1f0000-0000-4000-8000-000000000001"
	instancesServer = `{"id": "` + instancesID + `", "name": "worker-1", "status": "SHUTOFF", "flavor": {"original_name": "m1.small"}, "OS-EXT-AZ:availability_zone": "nova"}`
	instancesPort   = `{"ports": [{"id": "p", "device_id": "` + instancesID + `", "status": "ACTIVE", "fixed_ips": [{"ip_address": "10.0.0.5"}]}]}`
)

// instancesCloud has one server.
func instancesCloud(req *abi.HttpRequest) (*abi.HttpResponse, error) {
	reply := func(status int32, body string) (*abi.HttpResponse, error) {
		return &abi.HttpResponse{Status: status, Body: []byte(body)}, nil
	}
	switch {
	case strings.HasPrefix(req.Url, "https://keystone/"):
		return reply(200, instancesCatalog)
	case strings.HasPrefix(req.Url, "https://nova/servers/detail"):
		return reply(200, `{"servers": [`+instancesServer+`]}`)
	case req.Url == "https://nova/servers/"+instancesID:
		return reply(200, `{"server": `+instancesServer+`}`)
	case strings.HasPrefix(req.Url, "https://nova/servers/"):
		return reply(404, `{"itemNotFound": {"code": 404, "message": "Instance could not be found."}}`)
	case strings.HasPrefix(req.Url, "https://neutron/v2.0/ports?"):
		return reply(200, instancesPort)
	}
	return reply(500, "")
}

func instancesHost(t *testing.T) *sdktest.Host {
	h := sdktest.New(t)
	h.HTTP = instancesCloud
	h.Configure(&provider{}, "[Global]\nauth-url = https://keystone\nregion = R1\n")
	return h
}

func TestInstanceOps(t *testing.T) {
	h := instancesHost(t)
	for _, node := range []*abi.Node{
		{Name: "worker-1", Labels: map[string]string{"a": "b"}}, {Name: "x", ProviderId: "openstack:///" + instancesID},
	} {
		req := &abi.InstanceRequest{Node: node}
		var exists abi.InstanceExistsResponse
		if err := h.Call(abi.OpInstanceExists, req, &exists); err != nil || exists.Existence != sdk.Exists {
			t.Errorf("%v: %v, %v", node, exists.Existence, err)
		}
		var shutdown abi.InstanceShutdownResponse
		if err := h.Call(abi.OpInstanceShutdown, req, &shutdown); err != nil || shutdown.State != sdk.Shutdown {
			t.Errorf("%v: %v, %v", node, shutdown.State, err)
		}
		var metadata abi.InstanceMetadataResponse
		err := h.Call(abi.OpInstanceMetadata, req, &metadata)
		m := metadata.Metadata
		if err != nil || m == nil || m.ProviderId != "openstack:///"+instancesID || m.InstanceType != "m1.small" || m.Zone != "nova" || m.Region != "R1" ||
			len(m.Addresses) != 1 || m.Addresses[0].Address != "10.0.0.5" {
			t.Errorf("%v: %v, %v", node, m, err)
		}
	}
}

func TestInstanceThatIsGone(t *testing.T) {
	h := instancesHost(t)
	req := &abi.InstanceRequest{Node: &abi.Node{Name: "worker-1", ProviderId: "openstack:///5e1f0000-0000-4000-8000-000000000002"}}
	var exists abi.InstanceExistsResponse
	if err := h.Call(abi.OpInstanceExists, req, &exists); err != nil || exists.Existence != sdk.DoesNotExist {
		t.Errorf("%v, %v", exists.Existence, err)
	}
	var metadata abi.InstanceMetadataResponse
	if err := h.Call(abi.OpInstanceMetadata, req, &metadata); sdk.CodeOf(err) != abi.CodeInstanceNotFound {
		t.Error(err)
	}
}

func TestListInstancesOp(t *testing.T) {
	h := instancesHost(t)
	var page abi.ListInstancesResponse
	err := h.Call(abi.OpListInstances, &abi.ListInstancesRequest{PageSize: 100}, &page)
	if err != nil || !page.Done || page.NextPageToken != "" || len(page.Instances) != 1 {
		t.Fatalf("%v, %v", page.Instances, err)
	}
	one := page.Instances[0]
	if one.NodeName != "worker-1" || one.State != sdk.Shutdown || one.Metadata.ProviderId != "openstack:///"+instancesID {
		t.Errorf("%v", one)
	}
	if err := h.Call(abi.OpListInstances, &abi.ListInstancesRequest{PageToken: "rubbish"}, &page); sdk.CodeOf(err) != abi.CodeInvalid {
		t.Error(err)
	}
}
