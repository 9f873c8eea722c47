package manager

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/host/internal/cloud/addresses"
	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/rollout"
	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/shadow"
	"github.com/wasm-ccm/wasm-ccm/host/internal/manager/metrics"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/plugin"
	"github.com/wasm-ccm/wasm-ccm/host/internal/text"
)

// Bounds of a rehearsal and an examination, and of the guest's time for each
// question.
const (
	examineTime   = 30 * time.Second
	questionTime  = 10 * time.Second
	questionsOnce = 2 // in parallel
	// objectsTime bounds the wait for the objects of the cluster.
	objectsTime = 10 * time.Second
	// maxSummary is an Event's limit, less the text before the summary.
	maxSummary = 900
)

// examiner tests generations by questions about this cluster. It is a rollout.Examiner.
type examiner struct {
	recorder *shadow.Recorder
	metrics  *metrics.Rollout
	slot     *plugin.Slot
	objects  ownObjects
	policy   func() *addresses.Policy
	cluster  string
	// samples is the number of recorded questions to use.
	samples func() int
	// leads: this manager's control loops run. Other managers know no objects,
	// and only take over modules that the leader has tested.
	leads func() bool
	// hush drops the candidate's output until end is called.
	hush func(candidate *plugin.Generation) (end func())
}

var _ rollout.Examiner = (*examiner)(nil)

// Rehearse implements rollout.Examiner.
func (e *examiner) Rehearse(ctx context.Context, candidate *plugin.Generation) rollout.Evidence {
	if !e.leads() {
		return rollout.Evidence{Summary: "this manager does not lead: the one that leads has asked"}
	}
	ctx, cancel := context.WithTimeout(ctx, examineTime)
	defer cancel()
	objects, unknown := e.sample(ctx)
	own := objects.questions(e.cluster, candidate.Supports)
	recorded := e.recorded(candidate)
	own = slices.DeleteFunc(own, func(q shadow.Question) bool { return slices.ContainsFunc(recorded, q.Same) })
	r := e.rehearsal(candidate)
	if serving := e.slot.Serving(); serving != nil && serving != candidate {
		r.Serving = serving
	}
	defer e.hush(candidate)()
	report := r.Run(ctx, slices.Concat(own, recorded))
	e.metrics.Shadowed(report.Same, report.Different, report.Questions-report.Same-report.Different)
	e.metrics.Rehearsed(report.Requests, report.Kept)
	return evidence(report, len(own), unknown, objects.empty())
}

// Examine implements rollout.Examiner.
func (e *examiner) Examine(ctx context.Context, serving *plugin.Generation) rollout.Evidence {
	ctx, cancel := context.WithTimeout(ctx, examineTime)
	defer cancel()
	objects, unknown := e.sample(ctx)
	uncalled := func(op abi.Op) bool { return serving.Supports(op) && serving.Calls(op) == 0 }
	own := objects.questions(e.cluster, uncalled)
	if len(own) == 0 && !objects.empty() {
		return rollout.Evidence{Summary: "every op that existing objects need was called"}
	}
	return evidence(e.rehearsal(serving).Examine(ctx, own), len(own), unknown, objects.empty())
}

func (e *examiner) rehearsal(g *plugin.Generation) *shadow.Rehearsal {
	return &shadow.Rehearsal{
		Candidate: g, Check: checkAnswer(e.policy), OwnTime: questionTime, Concurrency: min(questionsOnce, g.Instances()),
	}
}

func (e *examiner) sample(ctx context.Context) (objectSample, error) {
	ctx, cancel := context.WithTimeout(ctx, objectsTime)
	defer cancel()
	return e.objects.sample(ctx)
}

// recorded are the latest questions of the record.
func (e *examiner) recorded(candidate *plugin.Generation) (all []shadow.Question) {
	for _, s := range e.recorder.Samples() {
		if q := s.Question(); len(all) < e.samples() && candidate.Supports(q.Op) {
			all = append(all, q)
		}
	}
	return all
}

// evidence summarises a report. Own is the number of questions about the cluster's objects.
func evidence(r shadow.Report, own int, unknown error, nothing bool) rollout.Evidence {
	return rollout.Evidence{
		Questions: r.Questions, Unknown: r.Questions == 0 && unknown != nil, Answered: r.Same + r.Alone + r.Different,
		Summary: text.Line(summaryOf(r, own, unknown, nothing), maxSummary), Failure: r.Failure, Differs: r.Differs(),
	}
}

func summaryOf(r shadow.Report, own int, unknown error, nothing bool) string {
	switch {
	case r.Questions == 0 && unknown != nil:
		return "nothing was asked: " + unknown.Error()
	case r.Questions == 0 && nothing:
		return "there is nothing to ask about: no Node, no Service, no volume"
	case r.Questions == 0:
		return "there is nothing to ask: it has no op for the existing objects"
	}
	var parts []string
	for _, part := range []struct {
		n    int
		what string
	}{
		{r.Same, "answered the same"}, {r.Alone, "answered, with nothing to compare with"}, {r.Different, "answered differently"},
		{r.Failed, "failed"}, {r.Unknown, "unknown"},
	} {
		if part.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", part.n, part.what))
		}
	}
	asked := fmt.Sprintf("%s: %s", counts(own, r.Questions-own), strings.Join(parts, ", "))
	if unknown != nil {
		asked += "; " + unknown.Error()
	}
	switch {
	case len(r.Unknowns) > 0:
		asked += ": " + strings.Join(r.Unknowns, "; ")
	case r.Wrote != "":
		asked += "; writes were kept back, the first one: " + r.Wrote
	}
	return asked
}

func counts(own, recorded int) string {
	ofOwn := fmt.Sprintf("%d questions of the host's own", own)
	switch {
	case recorded == 0:
		return ofOwn
	case own == 0:
		return fmt.Sprintf("%d questions of the record", recorded)
	}
	return fmt.Sprintf("%s and %d of the record", ofOwn, recorded)
}
