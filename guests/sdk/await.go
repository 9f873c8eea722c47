package sdk

import (
	"slices"
	"time"

	"github.com/wasm-ccm/wasm-ccm/abi"
)

// States says what the states of a thing of the cloud mean for who waits for
// it. A state that is in neither list is of the way there.
type States struct {
	// Ready and Failed are the states that last, as the cloud spells them.
	Ready, Failed []string
	// Every is when to ask again; 5 s where it is 0.
	Every time.Duration
}

// Await answers nil for a state that is ready, an error for one that failed,
// and RetryAfter for all others. It does not wait itself: an op has some
// seconds, and the manager asks again. What is "load balancer web (lb-17)".
func (s States) Await(what, state string) error {
	switch {
	case slices.Contains(s.Ready, state):
		return nil
	case slices.Contains(s.Failed, state):
		return Error(abi.CodeInternal, what+" has the state "+state)
	}
	return RetryAfter(orEvery(s.Every), what+" has the state "+state+"; waiting for "+s.Ready[0])
}

func orEvery(every time.Duration) time.Duration {
	if every <= 0 {
		return 5 * time.Second
	}
	return every
}

// Task is work of the cloud that has an ID of its own and takes longer than
// one op: POST answers "202, operation 17", and GET /operations/17 says when it
// is done.
type Task struct {
	// Key is what the work is about, the same in each op: "create " + name. At
	// most 200 bytes.
	Key string
	// Every is when to ask again; 5 s where it is 0.
	Every time.Duration
	// Start starts the work and returns its ID; an empty one says that it is
	// done, so take care that none is empty by mistake (rest.Call.Item). It may run again although the work runs: it looks for what is there
	// first, or gives the cloud a key of idempotency.
	Start func() (id string, err error)
	// Done asks whether it is done. An error ends the work: the next op starts
	// it again.
	Done func(id string) (bool, error)
}

// taskTTL is how long an ID is kept: no cloud's work takes longer.
const taskTTL = time.Hour

// Await starts the work in the first op, and asks for it at once and in the ops
// behind: nil when it is done, RetryAfter before. The ID is in the cache, so the
// provider needs the capability cache.
//
// The ID is kept until Await has said how the work ended, an hour at most. Who
// sees by other means that the work is done, and does not call Await any more,
// leaves it there: Await then answers nil once for the next work with this Key,
// without starting it. So look for the thing again after Await, and answer
// RetryAfter where it is not there.
func (op *Op) Await(task Task) error {
	key := "task " + task.Key
	kept, _, err := op.Cache().Get(key)
	if err != nil {
		return err
	}
	id := string(kept)
	if id == "" {
		if id, err = task.Start(); err != nil || id == "" {
			return err
		}
		if err := op.Cache().Put(key, []byte(id), taskTTL); err != nil {
			return err
		}
	}
	done, err := task.Done(id)
	if err == nil && !done {
		return RetryAfter(orEvery(task.Every), task.Key+" is in progress ("+id+")")
	}
	if temporary(err) {
		return err
	}
	if forgotten := op.Cache().Put(key, nil, time.Millisecond); err == nil {
		err = forgotten
	}
	return err
}

// temporary says that the work may run although it could not be asked for.
func temporary(err error) bool {
	switch CodeOf(err) {
	case abi.CodeRetryAfter, abi.CodeThrottled, abi.CodeUnavailable, abi.CodeDeadline, abi.CodeUnauthenticated, abi.CodeDenied:
		return true
	}
	return false
}
