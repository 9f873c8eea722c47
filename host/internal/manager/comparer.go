package manager

import (
	"context"
	"time"

	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/rollout"
	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/shadow"
	"github.com/wasm-ccm/wasm-ccm/host/internal/manager/metrics"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/plugin"
)

// comparer asks a candidate what the serving generation answered lately. It is
// a rollout.Examiner.
type comparer struct {
	recorder *shadow.Recorder
	metrics  *metrics.Rollout
	samples  func() int
	required func() bool
	// hush drops what the candidate prints until the function is called: it is
	// about ops of long ago.
	hush func(candidate *plugin.Generation) (end func())
}

// Where the comparison is required and nothing was recorded yet, as after a
// restart, it waits so long for something, and then for a little more.
const (
	firstSample = 30 * time.Second
	moreSamples = time.Second
)

// Rehearse is rollout.Examiner's.
func (c *comparer) Rehearse(ctx context.Context, candidate *plugin.Generation) rollout.Evidence {
	summary, problem := c.Compare(ctx, candidate)
	return rollout.Evidence{Summary: summary, Differs: problem}
}

// Examine is rollout.Examiner's.
func (c *comparer) Examine(context.Context, *plugin.Generation) rollout.Evidence {
	return rollout.Evidence{}
}

// Compare finds a problem also where nothing could be compared: a candidate
// that asks the cloud other questions is none that is known to be right.
func (c *comparer) Compare(ctx context.Context, candidate *plugin.Generation) (summary, problem string) {
	if c.required() {
		c.await(ctx)
	}
	defer c.hush(candidate)()
	samples := c.recorder.Samples()
	report := shadow.Replay(ctx, samples[:min(len(samples), c.samples())], candidate, shadow.ReplayOptions{})
	c.metrics.Shadowed(report.Same, report.Different, report.Incomparable)
	if report.Different > 0 || report.Samples > 0 && report.Same == 0 {
		return "", report.String()
	}
	return report.String(), ""
}

// await waits until something was recorded. A cluster without Nodes, Services
// and volumes has nothing to ask, which is no reason to wait for ever.
func (c *comparer) await(ctx context.Context) {
	if len(c.recorder.Samples()) > 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, firstSample)
	defer cancel()
	look := time.NewTicker(moreSamples)
	defer look.Stop()
	for found := false; !found; {
		found = len(c.recorder.Samples()) > 0
		select {
		case <-ctx.Done():
			return
		case <-look.C:
		}
	}
}
