package main

import (
	"os"
	"testing"

	"github.com/wasm-ccm/wasm-ccm/guests/openstack/cloudconf"
)

func TestExampleIsAccepted(t *testing.T) {
	data, err := os.ReadFile("example/cloud.conf")
	if err != nil {
		t.Fatal(err)
	}
	config, warnings, err := cloudconf.Parse(data)
	if err != nil || len(warnings) > 0 {
		t.Fatalf("error %v, warnings %q", err, warnings)
	}
	if config.Route.RouterID == "" || !config.BlockStorage.IgnoreVolumeAZ || config.LoadBalancer.Provider != "ovn" {
		t.Errorf("the example is read as %+v", config)
	}
}
