package rollout

import (
	"context"

	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/plugin"
)

// Examiner asks a generation about objects of this cluster. Its questions are
// read-only ops, and bounded in number and time. It is used by one goroutine at
// a time.
type Examiner interface {
	// Rehearse asks a candidate before it serves, and compares its answers with
	// those of what serves. Nothing that it causes changes anything at the cloud.
	Rehearse(ctx context.Context, candidate *plugin.Generation) Evidence
	// Examine asks what serves about each op that existing objects
	// need, and for which it was not called since it serves. No call of a
	// control loop waits for it.
	Examine(ctx context.Context, serving *plugin.Generation) Evidence
}

// Evidence is what questions have shown. Its texts are one line for people,
// bounded, and without secrets.
type Evidence struct {
	// Questions were asked, of which Answered had a proper answer. The rest
	// failed, or nobody knows, as when the cloud did not answer.
	Questions, Answered int
	// Unknown: nobody knows what there is to ask about.
	Unknown bool
	// Summary says what was asked, and of what nothing could be known; also
	// that there is no object to ask about.
	Summary string
	// Failure is the generation's own: a trap, an op over its time limit, an
	// answer that does not decode, an internal error. "" when there is none.
	Failure string
	// Differs names the answers that are not those of what serves. "" when there
	// are none, or nothing to compare with.
	Differs string
}
