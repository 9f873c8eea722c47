package sdk

import (
	"slices"
	"time"

	"github.com/wasm-ccm/wasm-ccm/abi"
)

// States groups the states of a cloud object for Await. A state in neither list
// means that the work is in progress.
type States struct {
	// Ready and Failed are the final states, as the cloud spells them.
	Ready, Failed []string
	// Every is the time between two queries; 5 s where it is 0.
	Every time.Duration
}

// Await returns nil for a ready state, an error for a failed one, and RetryAfter for
// all others. It does not block: an op lasts seconds, and the manager repeats it.
// What names the object, such as "load balancer web (lb-17)".
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

// Task is an asynchronous operation of the cloud with an ID, which may outlast
// one op: POST answers "202, operation 17", and GET /operations/17 returns its
// state.
type Task struct {
	// Key identifies the task, the same in each op: "create " + name. At most
	// 200 bytes.
	Key string
	// Every is the time between two queries; 5 s where it is 0.
	Every time.Duration
	// Start starts the task and returns its ID. An empty ID means that the task is already
	// done, so make sure that none is empty by mistake (rest.Call.Item). Start may run again
	// while the task runs: it first looks for an existing object, or sends an idempotency key.
	Start func() (id string, err error)
	// Done reports whether the task is done. After an error the next op starts
	// the task again.
	Done func(id string) (bool, error)
}

// taskTTL is the time for which an ID is kept, longer than any cloud's tasks.
const taskTTL = time.Hour

// Await starts the task in the first op, and queries it at once and in later
// ops: nil when it is done, RetryAfter before. The ID is in the cache, so the
// provider needs the capability cache.
//
// The ID is kept until Await has returned the task's outcome, for at most an
// hour. If a provider learns by other means that the task is done, and stops
// calling Await, the ID stays: Await then returns nil once for the next task
// with this Key, without starting it. So look for the object again after Await,
// and answer RetryAfter if it does not exist.
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

// temporary reports whether the task may still run although the query failed.
func temporary(err error) bool {
	switch CodeOf(err) {
	case abi.CodeRetryAfter, abi.CodeThrottled, abi.CodeUnavailable, abi.CodeDeadline, abi.CodeUnauthenticated, abi.CodeDenied:
		return true
	}
	return false
}
