package controllers

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"k8s.io/cloud-provider/app"
	"k8s.io/cloud-provider/app/config"
	cpconfig "k8s.io/cloud-provider/config"
	cloudfake "k8s.io/cloud-provider/fake"
	"k8s.io/cloud-provider/names"

	"github.com/wasm-ccm/wasm-ccm/host/internal/cloud/controllers/persistentvolume"
)

func TestRouteControllerStartsOnlyWhereItCanRun(t *testing.T) {
	tests := map[string]struct {
		configure bool
		cidr      string
		routes    bool
		reason    string
	}{
		"all there":    {true, "10.0.0.0/16", true, ""},
		"no CIDR":      {true, "", true, "--cluster-cidr is empty"},
		"blank CIDR":   {true, " ", true, "--cluster-cidr is empty"},
		"switched off": {false, "", true, "--configure-cloud-routes is false"},
		"no routes":    {true, "", false, "no provider serves that has routes"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			c := &config.Config{}
			c.ComponentConfig.KubeCloudShared = cpconfig.KubeCloudSharedConfiguration{ConfigureCloudRoutes: test.configure, ClusterCIDR: test.cidr}
			got := canRoute(c.Complete(), Provider{Cloud: &cloudfake.Cloud{DisableRoutes: !test.routes}})
			if !strings.Contains(got, test.reason) || (got == "") != (test.reason == "") {
				t.Errorf("reason %q", got)
			}
		})
	}
}

// Upstream might get another loop; it would need a condition of its own.
func TestEveryLoopIsThere(t *testing.T) {
	want := map[string]string{
		names.CloudNodeController:          "node-controller",
		names.CloudNodeLifecycleController: "node-controller",
		names.ServiceLBController:          "service-controller",
		names.NodeRouteController:          "route-controller",
		persistentvolume.Name:              "persistentvolume-label-controller",
	}
	if got := len(app.DefaultInitFuncConstructors) + 1; got != len(want) {
		t.Errorf("upstream and we have %d loops, want %d", got, len(want))
	}
	all := NewLoops().Constructors()
	if len(all) != len(want) {
		t.Errorf("%d loops, want %d", len(all), len(want))
	}
	for name, client := range want {
		if got := all[name].InitContext.ClientName; got != client {
			t.Errorf("%s has the client %q, want %q", name, got, client)
		}
		all[name].Constructor(all[name].InitContext, nil, nil)
	}
}

// What bounds concurrency operators read in their own page.
func TestWorkersAreDocumented(t *testing.T) {
	page, err := os.ReadFile("../../../../deploy/docs/configure.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{fmt.Sprintf("at least %d workers for Services", serviceWorkers), fmt.Sprintf("and %d for Nodes", nodeWorkers)} {
		if !strings.Contains(string(page), want) {
			t.Errorf("configure.md does not say %q", want)
		}
	}
}
