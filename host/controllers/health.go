package controllers

import (
	"context"
	"net/http"

	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/cloud-provider/app"
	"k8s.io/cloud-provider/app/config"
	controllermanager "k8s.io/controller-manager/app"
	"k8s.io/controller-manager/controller"
	"k8s.io/controller-manager/pkg/healthz"
)

// monitor lets /healthz ask healthy for a controller that has no check of its
// own, which upstream's have not.
func monitor(healthy func() error, constructor app.ControllerInitFuncConstructor) app.ControllerInitFuncConstructor {
	return wrap(constructor, func(next app.InitFunc, _ *config.CompletedConfig, _ cloudprovider.Interface) app.InitFunc {
		return func(ctx context.Context, manager controllermanager.ControllerContext) (controller.Interface, bool, error) {
			c, started, err := next(ctx, manager)
			if started && err == nil && c == nil {
				c = monitored{constructor.InitContext.ClientName, healthy}
			}
			return c, started, err
		}
	})
}

// monitored stands for a controller of upstream.
type monitored struct {
	name    string
	healthy func() error
}

func (m monitored) Name() string { return m.name }

// HealthChecker implements controller.HealthCheckable.
func (m monitored) HealthChecker() healthz.UnnamedHealthChecker { return m }

func (m monitored) Check(*http.Request) error { return m.healthy() }
