package main

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/host/config/v1alpha1"
	"github.com/wasm-ccm/wasm-ccm/host/module"
	"github.com/wasm-ccm/wasm-ccm/host/plugin"
)

// reloadableLoader is a loader of providers whose limits and grants are those
// of the configuration that holds when a bundle is loaded.
type reloadableLoader struct {
	loader  plugin.Loader // without limits and grants
	current atomic.Pointer[v1alpha1.Provider]
}

func (r *reloadableLoader) set(p *v1alpha1.Provider) { r.current.Store(p) }

// Load is rollout.Loader.
func (r *reloadableLoader) Load(ctx context.Context, bundle plugin.Bundle) (*plugin.Generation, error) {
	p, loader := r.current.Load(), r.loader
	loader.Limits = pluginLimits(p)
	loader.Policy = module.Policy{Capabilities: p.Capabilities}
	return noSigners{&loader}.Load(ctx, bundle)
}

func pluginLimits(p *v1alpha1.Provider) plugin.Limits {
	limits := plugin.Limits{
		MaxInstances:        p.Limits.Instances,
		MaxCallsPerInstance: p.Limits.CallsPerInstance,
		MaxMemoryBytes:      uint64(p.Limits.Memory.Value()),
		MaxTableElements:    maxTableElements,
		OpTimeout:           p.Ops.Timeout.Duration,
		OpTimeouts:          map[abi.Op]time.Duration{},
		LoadTimeout:         min(loadTimeout, p.Ops.Timeout.Duration),
	}
	for name, timeout := range p.Ops.Timeouts {
		if op, ok := abi.ParseOp(name); ok { // it is: the configuration was validated
			limits.OpTimeouts[op] = timeout.Duration
		}
	}
	return limits
}

// longestOp is the time of the op that may take longest.
func longestOp(p *v1alpha1.Provider) time.Duration {
	longest := p.Ops.Timeout.Duration
	for _, timeout := range p.Ops.Timeouts {
		longest = max(longest, timeout.Duration)
	}
	return longest
}
