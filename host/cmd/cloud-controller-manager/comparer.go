package main

import (
	"context"

	"github.com/wasm-ccm/wasm-ccm/host/metrics"
	"github.com/wasm-ccm/wasm-ccm/host/plugin"
	"github.com/wasm-ccm/wasm-ccm/host/shadow"
)

// comparer asks a candidate what the serving generation answered lately. It is
// a rollout.Comparer.
type comparer struct {
	recorder *shadow.Recorder
	metrics  *metrics.Rollout
	samples  func() int
}

// Compare finds a problem also where nothing could be compared: a candidate
// that asks the cloud other questions is none that is known to be right.
func (c *comparer) Compare(ctx context.Context, candidate *plugin.Generation) (summary, problem string) {
	samples := c.recorder.Samples()
	report := shadow.Replay(ctx, samples[:min(len(samples), c.samples())], candidate, shadow.ReplayOptions{})
	c.metrics.Shadowed(report.Same, report.Different, report.Incomparable)
	if report.Different > 0 || report.Samples > 0 && report.Same == 0 {
		return "", report.String()
	}
	return report.String(), ""
}
