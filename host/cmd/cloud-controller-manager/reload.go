package main

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/klog/v2"

	"github.com/wasm-ccm/wasm-ccm/host/config/v1alpha1"
	"github.com/wasm-ccm/wasm-ccm/host/rollout"
	"github.com/wasm-ccm/wasm-ccm/host/source"
)

// reloader takes up changes of the file of --config. A file that is not valid
// changes nothing.
type reloader struct {
	manager  *manager
	networks *networks
	loader   *reloadableLoader
	rollout  *rollout.Rollout
	hosts    *hosts
	current  *v1alpha1.HostConfiguration
}

// run watches the file until the context ends.
func (r *reloader) run(ctx context.Context, path string) {
	first := true
	source.WatchFile(ctx, path, v1alpha1.MaxBytes, source.Watching{}, nil, func(data []byte, err error) {
		// What it holds now may be newer than what the manager began with.
		known := first && err == nil && r.unchanged(data)
		first = false
		if !known {
			r.offer(ctx, path, data, err)
		}
	})
}

func (r *reloader) unchanged(data []byte) bool {
	next, err := v1alpha1.Decode(data)
	return err == nil && equality.Semantic.DeepEqual(next, r.current)
}

func (r *reloader) offer(ctx context.Context, path string, data []byte, err error) {
	logger := klog.FromContext(ctx)
	if err == nil {
		err = r.take(ctx, data)
	}
	r.manager.metrics.ConfigRejected(err != nil)
	if err != nil {
		logger.Error(err, "The changed configuration is rejected; what it said before holds", "config", path)
		return
	}
	logger.Info("The changed configuration is in force", "config", path)
}

func (r *reloader) take(ctx context.Context, data []byte) error {
	next, err := v1alpha1.Decode(data)
	if err != nil {
		return err
	}
	if err := fixed(r.current, next); err != nil {
		return err
	}
	p := &next.Providers[0]
	network, err := r.networks.build(ctx, p)
	if err != nil {
		return err
	}
	if err := network.ready(ctx); err != nil {
		network.close()
		return err
	}
	before := r.manager.network.current.Swap(network)
	r.hosts.rates.Set(rateLimits(p.Limits))
	r.manager.brake.SetLimits(brakeLimits(next.DeletionBrake))
	r.loader.set(p)
	r.rollout.Reload()
	before.close()
	r.current = next
	return nil
}

// fixed refuses changes that need a restart. Better to say so than to take up
// one half of a file.
func fixed(before, after *v1alpha1.HostConfiguration) error {
	old, next := &before.Providers[0], &after.Providers[0]
	switch {
	case old.Name != next.Name:
		return restart("providers[0].name")
	case !equality.Semantic.DeepEqual(old.Source, next.Source):
		return restart("providers[0].source")
	case old.Limits.Module.Cmp(next.Limits.Module) != 0:
		return restart("providers[0].limits.module")
	case !equality.Semantic.DeepEqual(old.Ops, next.Ops):
		return restart("providers[0].ops")
	}
	return nil
}

func restart(path string) error {
	return fmt.Errorf("%s cannot change while the manager runs: restart it, or change it back", path)
}
