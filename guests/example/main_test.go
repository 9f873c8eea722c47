package main

import (
	"io"
	"net/http"
	"testing"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/guests/sdk"
	"github.com/wasm-ccm/wasm-ccm/guests/sdk/sdktest"
)

// cloud is a fake of the API: the body of each path, 404 for the others.
func cloud(bodies map[string]string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, found := bodies[r.RequestURI]
		switch {
		case r.Header.Get("Authorization") != "Bearer open-sesame" || r.Method != http.MethodGet:
			w.WriteHeader(http.StatusUnauthorized)
		case !found:
			w.WriteHeader(http.StatusNotFound)
		}
		_, _ = io.WriteString(w, body)
	})
}

func TestInstances(t *testing.T) {
	h := sdktest.New(t)
	h.Configure(&provider{}, "https://cloud.example.com/\n")
	h.HTTP = sdktest.Handler(cloud(map[string]string{
		"/servers?limit=1": `[]`,
		"/servers/n1":      `{"name":"n1","type":"large","zone":"a","ip":"192.0.2.1","status":"off"}`,
		"/servers/broken":  `{`,
		"/servers/empty":   `{}`,
	}), map[string]string{"api-token": "Bearer open-sesame"})
	if err := h.Call(abi.OpProbe, &abi.ProbeRequest{}, &abi.ProbeResponse{}); err != nil {
		t.Errorf("probe: %v", err)
	}
	tests := map[string]struct {
		node   *abi.Node
		exists sdk.Existence
		code   abi.Code
	}{
		"by name":       {&abi.Node{Name: "n1"}, sdk.Exists, abi.CodeOK},
		"by ID":         {&abi.Node{Name: "x", ProviderId: "example://n1"}, sdk.Exists, abi.CodeOK},
		"gone":          {&abi.Node{Name: "n2"}, sdk.DoesNotExist, abi.CodeOK},
		"another cloud": {&abi.Node{Name: "n1", ProviderId: "aws:///n1"}, 0, abi.CodeInvalid},
		"not a server":  {&abi.Node{Name: "empty"}, 0, abi.CodeInternal},
		"not JSON":      {&abi.Node{Name: "broken"}, 0, abi.CodeInternal},
	}
	for name, test := range tests {
		var resp abi.InstanceExistsResponse
		err := h.Call(abi.OpInstanceExists, &abi.InstanceRequest{Node: test.node}, &resp)
		if sdk.CodeOf(err) != test.code || resp.Existence != test.exists {
			t.Errorf("%s: %v, %v", name, resp.Existence, err)
		}
	}
	var metadata abi.InstanceMetadataResponse
	var shutdown abi.InstanceShutdownResponse
	n1 := &abi.InstanceRequest{Node: &abi.Node{Name: "n1"}}
	if err := h.Call(abi.OpInstanceMetadata, n1, &metadata); err != nil || metadata.Metadata.ProviderId != "example://n1" || metadata.Metadata.Zone != "a" {
		t.Errorf("metadata: %v, %v", metadata.Metadata, err)
	}
	if err := h.Call(abi.OpInstanceShutdown, n1, &shutdown); err != nil || shutdown.State != sdk.Shutdown {
		t.Errorf("shutdown: %v, %v", shutdown.State, err)
	}
	n2 := &abi.InstanceRequest{Node: &abi.Node{Name: "n2"}}
	if err := h.Call(abi.OpInstanceMetadata, n2, &metadata); sdk.CodeOf(err) != abi.CodeInstanceNotFound {
		t.Errorf("metadata of a server that is gone: %v", err)
	}
}

func TestWrongConfiguration(t *testing.T) {
	h := sdktest.New(t)
	h.Serve(&provider{})
	err := h.Call(abi.OpConfigure, &abi.ConfigureRequest{Config: []byte("ftp://x")}, &abi.ConfigureResponse{})
	if sdk.CodeOf(err) != abi.CodeInvalid {
		t.Errorf("%v, want invalid", err)
	}
}
