package rollout

import (
	"context"

	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/plugin"
)

// Examiner asks a generation about objects of this cluster. Its questions are
// read-only ops, and bounded in number and time. It is used by one goroutine at
// a time.
type Examiner interface {
	// Rehearse asks a candidate before it serves, and compares its answers with the serving
	// generation's. It changes nothing at the cloud.
	Rehearse(ctx context.Context, candidate *plugin.Generation) Evidence
	// Examine asks the serving generation about each op that existing objects need and that was
	// not called since its takeover. No call of a control loop waits for it.
	Examine(ctx context.Context, serving *plugin.Generation) Evidence
}

// Evidence is the result of questions. Its texts are one line for people, bounded, and
// without secrets.
type Evidence struct {
	// Questions counts all, Answered those with a proper answer. The rest failed or stayed
	// unknown, as when the cloud did not answer.
	Questions, Answered int
	// Unknown: the objects to ask about are not known.
	Unknown bool
	// Summary says what was asked and what stayed unknown; also that no object exists to ask
	// about.
	Summary string
	// Failure is the generation's own: a trap, an op over its time limit, an answer that does
	// not decode, an internal error. "" for none.
	Failure string
	// Differs lists the answers that differ from the serving generation's. "" for none, or
	// without a serving generation.
	Differs string
}
