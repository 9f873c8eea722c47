package persistentvolume

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/cloud-provider/app"
	"k8s.io/cloud-provider/app/config"
	controllermanager "k8s.io/controller-manager/app"
	"k8s.io/controller-manager/controller"
	"k8s.io/controller-manager/pkg/healthz"
)

// ClientName is the ServiceAccount of the loop with
// --use-service-account-credentials.
const ClientName = "persistentvolume-label-controller"

// stuckAfter is when a worker counts as lost in one volume: every op has a deadline far
// below.
const stuckAfter = 10 * time.Minute

// InitFuncConstructor lets the manager start the loop under Name, over the
// volumes of its SharedInformers, which the caller starts.
func InitFuncConstructor(labeler Labeler, workers int) app.ControllerInitFuncConstructor {
	return app.ControllerInitFuncConstructor{
		InitContext: app.ControllerInitContext{ClientName: ClientName},
		Constructor: func(init app.ControllerInitContext, completed *config.CompletedConfig, _ cloudprovider.Interface) app.InitFunc {
			return func(ctx context.Context, _ controllermanager.ControllerContext) (controller.Interface, bool, error) {
				client, err := completed.ClientBuilder.Client(init.ClientName)
				if err != nil {
					return nil, false, fmt.Errorf("client of %s: %w", Name, err)
				}
				c, err := NewController(client, completed.SharedInformers.Core().V1().PersistentVolumes(), labeler)
				if err != nil {
					return nil, false, err
				}
				go c.Run(ctx, workers)
				return c, true, nil
			}
		},
	}
}

// HealthChecker implements controller.HealthCheckable.
func (c *Controller) HealthChecker() healthz.UnnamedHealthChecker { return checker{c} }

type checker struct{ controller *Controller }

// Check fails when a worker is lost in a volume.
func (c checker) Check(*http.Request) error {
	name, since := c.controller.busy.longest(time.Now())
	if since < stuckAfter {
		return nil
	}
	return fmt.Errorf("PersistentVolume %s has been worked on for %v", name, since.Round(time.Second))
}

// busy holds the volumes in work, and since when.
type busy struct {
	mu    sync.Mutex
	since map[string]time.Time
}

func (b *busy) start(name string, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.since[name] = now
}

func (b *busy) end(name string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.since, name)
}

// longest returns the volume that has been worked on for the longest time.
func (b *busy) longest(now time.Time) (name string, d time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for n, start := range b.since {
		if now.Sub(start) > d {
			name, d = n, now.Sub(start)
		}
	}
	return name, d
}
