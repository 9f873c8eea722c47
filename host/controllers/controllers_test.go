package controllers

import (
	"context"
	"errors"
	"strings"
	"testing"

	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/cloud-provider/app"
	"k8s.io/cloud-provider/app/config"
	cpconfig "k8s.io/cloud-provider/config"
	cloudfake "k8s.io/cloud-provider/fake"
	"k8s.io/cloud-provider/names"
	controllermanager "k8s.io/controller-manager/app"
	"k8s.io/controller-manager/controller"

	"github.com/wasm-ccm/wasm-ccm/host/controllers/persistentvolume"
)

func completed(shared cpconfig.KubeCloudSharedConfiguration) *config.CompletedConfig {
	c := &config.Config{}
	c.ComponentConfig.KubeCloudShared = shared
	return c.Complete()
}

// started stands for upstream's constructor and counts the starts.
func started(n *int) app.ControllerInitFuncConstructor {
	return app.ControllerInitFuncConstructor{
		InitContext: app.ControllerInitContext{ClientName: "fake-controller"},
		Constructor: func(app.ControllerInitContext, *config.CompletedConfig, cloudprovider.Interface) app.InitFunc {
			return func(context.Context, controllermanager.ControllerContext) (controller.Interface, bool, error) {
				*n++
				return nil, true, nil
			}
		},
	}
}

func start(ctx context.Context, c app.ControllerInitFuncConstructor, completed *config.CompletedConfig, cloud cloudprovider.Interface) (bool, error) {
	_, ok, err := c.Constructor(c.InitContext, completed, cloud)(ctx, controllermanager.ControllerContext{})
	return ok, err
}

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
		"no routes":    {true, "", false, "the provider has no routes"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			cfg := completed(cpconfig.KubeCloudSharedConfiguration{ConfigureCloudRoutes: test.configure, ClusterCIDR: test.cidr})
			cloud := &cloudfake.Cloud{DisableRoutes: !test.routes}
			if got := canRoute(cfg, cloud); !strings.Contains(got, test.reason) || (got == "") != (test.reason == "") {
				t.Errorf("reason %q", got)
			}
			var starts int
			ok, err := start(t.Context(), onlyIf(started(&starts), canRoute), cfg, cloud)
			if want := test.reason == ""; err != nil || ok != want || (starts == 1) != want {
				t.Errorf("started %v, %d times, error %v", ok, starts, err)
			}
		})
	}
}

// Upstream's own constructors, wrapped: neither an error, which ends the
// process, nor a start.
func TestUpstreamControllersAreSkippedCleanly(t *testing.T) {
	all := Constructors(func(context.Context) error { return nil }, func() error { return nil }, nil)
	cfg := completed(cpconfig.KubeCloudSharedConfiguration{ConfigureCloudRoutes: true})
	for name, cloud := range map[string]*cloudfake.Cloud{
		names.NodeRouteController: {},
		names.ServiceLBController: {DisableLoadBalancers: true},
	} {
		if ok, err := start(t.Context(), all[name], cfg, cloud); ok || err != nil {
			t.Errorf("%s: started %v, error %v", name, ok, err)
		}
	}
}

func TestConstructors(t *testing.T) {
	all := Constructors(func(context.Context) error { return nil }, func() error { return nil }, nil)
	want := map[string]string{
		names.CloudNodeController:          "node-controller",
		names.CloudNodeLifecycleController: "node-controller",
		names.ServiceLBController:          "service-controller",
		names.NodeRouteController:          "route-controller",
		persistentvolume.Name:              "persistentvolume-label-controller",
	}
	if len(all) != len(want) {
		t.Errorf("%d controllers, want %d", len(all), len(want))
	}
	for name, client := range want {
		if got := all[name].InitContext.ClientName; got != client {
			t.Errorf("%s has the client %q, want %q", name, got, client)
		}
	}
}

func TestWhenServing(t *testing.T) {
	serving := make(chan error)
	waitServing := func(ctx context.Context) error {
		select {
		case err := <-serving:
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	begin := func(ctx context.Context) (starts *int, result chan error) {
		starts, result = new(int), make(chan error, 1)
		go func() {
			ok, err := start(ctx, WhenServing(waitServing, started(starts)), nil, nil)
			if err == nil && ok != (*starts == 1) {
				err = errors.New("what it says is not what it did")
			}
			result <- err
		}()
		return starts, result
	}

	starts, result := begin(t.Context())
	serving <- nil // taken only while the controller waits
	if err := <-result; err != nil || *starts != 1 {
		t.Errorf("serving: %d starts, error %v", *starts, err)
	}
	starts, result = begin(t.Context())
	serving <- errors.New("no grant")
	if err := <-result; err == nil || !strings.Contains(err.Error(), "waiting for a provider: no grant") || *starts != 0 {
		t.Errorf("failed: %d starts, error %v", *starts, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	starts, result = begin(ctx)
	if err := <-result; err != nil || *starts != 0 {
		t.Errorf("stopped: %d starts, error %v; an error would be fatal", *starts, err)
	}
}

func TestHealthzAsksWhetherALoopIsHeld(t *testing.T) {
	wedged := errors.New("lb_ensure has been running for hours")
	constructor := monitor(func() error { return wedged }, started(new(int)))
	c, ok, err := constructor.Constructor(app.ControllerInitContext{}, nil, nil)(t.Context(), controllermanager.ControllerContext{})
	if err != nil || !ok {
		t.Fatalf("started %v, error %v", ok, err)
	}
	checkable, ok := c.(controller.HealthCheckable)
	if !ok {
		t.Fatalf("%T has no health check", c)
	}
	if err := checkable.HealthChecker().Check(nil); !errors.Is(err, wedged) {
		t.Errorf("check: %v", err)
	}
}
