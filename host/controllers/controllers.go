// Package controllers makes the control loops that the manager runs: Kubernetes'
// own four, wrapped where they would end the process or start too early, and
// the PersistentVolume label loop of the package below.
//
// It sees the provider through cloudprovider.Interface and imports nothing of
// this project but its own sub-packages.
package controllers

import (
	"context"
	"fmt"
	"strings"

	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/cloud-provider/app"
	"k8s.io/cloud-provider/app/config"
	"k8s.io/cloud-provider/names"
	controllermanager "k8s.io/controller-manager/app"
	"k8s.io/controller-manager/controller"
	"k8s.io/klog/v2"

	"github.com/wasm-ccm/wasm-ccm/host/controllers/persistentvolume"
)

// volumeWorkers is how many volumes are asked for at once.
const volumeWorkers = 2

// Constructors returns every control loop by its name in --controllers. Each
// starts once waitServing has returned. An error of healthy, which must not
// block, makes /healthz fail while a loop runs: it says that a call of the
// provider holds a loop for good.
func Constructors(waitServing func(context.Context) error, healthy func() error, labeler persistentvolume.Labeler) map[string]app.ControllerInitFuncConstructor {
	all := map[string]app.ControllerInitFuncConstructor{}
	for name, constructor := range app.DefaultInitFuncConstructors {
		all[name] = constructor
	}
	all[names.ServiceLBController] = onlyIf(all[names.ServiceLBController], balancesLoad)
	all[names.NodeRouteController] = onlyIf(all[names.NodeRouteController], canRoute)
	all[persistentvolume.Name] = persistentvolume.InitFuncConstructor(labeler, volumeWorkers)
	for name, constructor := range all {
		all[name] = WhenServing(waitServing, monitor(healthy, constructor))
	}
	return all
}

// WhenServing delays a controller until waitServing has returned: upstream's
// controllers look at what the provider can do when they are made, never
// again. The wait is inside the InitFunc because the informers that it asks
// for must be known before upstream starts them all. A manager that is stopped
// meanwhile skips the controller; any other error of waitServing is fatal.
func WhenServing(waitServing func(context.Context) error, constructor app.ControllerInitFuncConstructor) app.ControllerInitFuncConstructor {
	return wrap(constructor, func(next app.InitFunc, _ *config.CompletedConfig, _ cloudprovider.Interface) app.InitFunc {
		return func(ctx context.Context, manager controllermanager.ControllerContext) (controller.Interface, bool, error) {
			err := waitServing(ctx)
			if ctx.Err() != nil {
				return nil, false, nil
			}
			if err != nil {
				return nil, false, fmt.Errorf("waiting for a provider: %w", err)
			}
			return next(ctx, manager)
		}
	})
}

// onlyIf skips a controller that the condition gives a reason against. It asks
// when the controller is to start, not before.
func onlyIf(constructor app.ControllerInitFuncConstructor, reasonAgainst func(*config.CompletedConfig, cloudprovider.Interface) string) app.ControllerInitFuncConstructor {
	return wrap(constructor, func(next app.InitFunc, completed *config.CompletedConfig, cloud cloudprovider.Interface) app.InitFunc {
		return func(ctx context.Context, manager controllermanager.ControllerContext) (controller.Interface, bool, error) {
			if reason := reasonAgainst(completed, cloud); reason != "" {
				klog.Warningf("The %s is left out: %s", constructor.InitContext.ClientName, reason)
				return nil, false, nil
			}
			return next(ctx, manager)
		}
	})
}

// balancesLoad says why there is no service controller, or "".
func balancesLoad(_ *config.CompletedConfig, cloud cloudprovider.Interface) string {
	if _, ok := cloud.LoadBalancer(); !ok {
		return "the provider has no load balancers"
	}
	return ""
}

// canRoute says why there is no route controller, or "". With an empty
// --cluster-cidr upstream's ends the process, although its flag is on by
// default and a provider that is replaced may bring routes at any time.
func canRoute(completed *config.CompletedConfig, cloud cloudprovider.Interface) string {
	shared := completed.ComponentConfig.KubeCloudShared
	if !shared.ConfigureCloudRoutes {
		return "--configure-cloud-routes is false"
	}
	if _, ok := cloud.Routes(); !ok {
		return "the provider has no routes"
	}
	if strings.TrimSpace(shared.ClusterCIDR) == "" {
		return "--cluster-cidr is empty, so no routes are made although the provider has them; " +
			"set --cluster-cidr to the CIDRs of the Pods, or --configure-cloud-routes=false"
	}
	return ""
}

func wrap(constructor app.ControllerInitFuncConstructor, with func(app.InitFunc, *config.CompletedConfig, cloudprovider.Interface) app.InitFunc) app.ControllerInitFuncConstructor {
	inner := constructor.Constructor
	constructor.Constructor = func(init app.ControllerInitContext, completed *config.CompletedConfig, cloud cloudprovider.Interface) app.InitFunc {
		return with(inner(init, completed, cloud), completed, cloud)
	}
	return constructor
}
