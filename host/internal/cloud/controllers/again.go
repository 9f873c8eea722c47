package controllers

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/cloud-provider/app"
	"k8s.io/cloud-provider/app/config"
	nodecontroller "k8s.io/cloud-provider/controllers/node"
	controllermanager "k8s.io/controller-manager/app"
	"k8s.io/controller-manager/controller"
)

const (
	// againPeriod is the time between two repeats: the client of a loop makes 20 requests per
	// second by default.
	againPeriod = 50 * time.Millisecond
	// refreshed is how many initialised Nodes are repeated at once: each time upstream lists all
	// Nodes.
	refreshed = 10
)

// round has a loop look at objects again, a few per second. The objects known to the loop
// bound the set. It is safe for concurrent use.
type round struct {
	mu   sync.Mutex
	due  map[string]struct{}
	wake chan struct{}
}

func newRound() *round { return &round{due: map[string]struct{}{}, wake: make(chan struct{}, 1)} }

// add schedules an object once, however often it is added before its turn.
func (r *round) add(object string) {
	r.mu.Lock()
	r.due[object] = struct{}{}
	r.mu.Unlock()
	select {
	case r.wake <- struct{}{}:
	default: // run has a signal already
	}
}

// take removes the first few, in order.
func (r *round) take(most int) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	objects := slices.Sorted(maps.Keys(r.due))
	objects = objects[:min(len(objects), most)]
	for _, o := range objects {
		delete(r.due, o)
	}
	return objects
}

// run looks at up to most objects at a time until the context ends.
func (r *round) run(ctx context.Context, most int, look func(context.Context, []string)) {
	for ctx.Err() == nil {
		objects := r.take(most)
		var pause <-chan time.Time
		wake := r.wake
		if len(objects) > 0 {
			look(ctx, objects)
			pause, wake = time.After(time.Duration(len(objects))*againPeriod), nil
		}
		select {
		case <-ctx.Done():
		case <-wake:
		case <-pause:
		}
	}
}

// again has the loop look at an object again soon: by its queue, which ends a back-off, or,
// for an initialised Node, by upstream's refresh.
func (i *incarnation) again(object string) {
	if n := i.view.node(object); i.kind == kindNode && n != nil && !isUninitialised(n) {
		i.refresh.add(object)
		return
	}
	i.queue.add(object)
}

// repeat has the loop look again at failed objects: the new generation may succeed, and
// upstream's back-off is up to a quarter of an hour.
func (i *incarnation) repeat() {
	i.lease.later.rounds.Add(1) // first, so that each failure is either in the list or of a call that ends later
	for _, object := range i.lease.later.failing() {
		i.again(object)
	}
}

// follow runs the scheduled repeats until the lease ends.
func (i *incarnation) follow() {
	i.inBackground(func(ctx context.Context) {
		i.queue.run(ctx, 1, func(_ context.Context, objects []string) { i.view.repeat(i.kind, objects[0]) })
	})
	if nodes, ok := i.controller.(nodeLoop); ok {
		i.inBackground(func(ctx context.Context) {
			i.refresh.run(ctx, refreshed, func(ctx context.Context, names []string) {
				_ = nodes.UpdateNodeStatus(refreshOf(ctx, names)) // each Node reports its own failure
			})
		})
	}
}

// inBackground runs a function as a call under the lease.
func (i *incarnation) inBackground(run func(context.Context)) {
	ctx, leave, err := i.lease.enter(i.lease.ctx)
	if err != nil {
		return
	}
	go func() {
		defer leave()
		run(ctx)
	}()
}

// nodeLoop is upstream's cloud-node controller. It asks for uninitialised Nodes from a
// queue, and for the others in rounds, five minutes apart.
type nodeLoop struct {
	*nodecontroller.CloudNodeController
}

// Name implements controller.Interface.
func (nodeLoop) Name() string { return "cloud-node" }

// startNodes starts the controller as upstream does; upstream's own function does not return
// it.
func startNodes(Provider) app.InitFuncConstructor {
	return func(init app.ControllerInitContext, c *config.CompletedConfig, cloud cloudprovider.Interface) app.InitFunc {
		return func(ctx context.Context, manager controllermanager.ControllerContext) (controller.Interface, bool, error) {
			nodes, err := nodecontroller.NewCloudNodeController(
				c.SharedInformers.Core().V1().Nodes(), c.ClientBuilder.ClientOrDie(init.ClientName), cloud,
				c.ComponentConfig.NodeStatusUpdateFrequency.Duration,
				max(c.ComponentConfig.NodeController.ConcurrentNodeSyncs, nodeWorkers), max(c.ComponentConfig.NodeController.ConcurrentNodeStatusUpdates, nodeWorkers),
			)
			if err != nil {
				return nil, false, err
			}
			go nodes.RunWithContext(ctx, manager.ControllerManagerMetrics)
			return nodeLoop{nodes}, true, nil
		}
	}
}

type refreshKey struct{}

// refreshOf returns a context for a round of upstream's over all Nodes that asks for these
// only.
func refreshOf(ctx context.Context, names []string) context.Context {
	return context.WithValue(ctx, refreshKey{}, names)
}

// refreshOnly returns the Nodes of such a round; ok is false in any other call.
func refreshOnly(ctx context.Context) (names []string, ok bool) {
	names, ok = ctx.Value(refreshKey{}).([]string)
	return names, ok
}
