package manager

import (
	"context"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/utils/clock"

	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/source"
	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/status"
	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/trial"
	"github.com/wasm-ccm/wasm-ccm/host/internal/manager/trials"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/engine"
)

// Upstream ends a process without its lease, or with a failed controller, by
// klog: this is no module's fault, and a good module must not need a promotion
// afterwards.
func TestAnEndByUpstreamSuspectsNothing(t *testing.T) {
	client, code := fake.NewClientset(), 0
	first, err := tries(t, client)
	if err != nil {
		t.Fatal(err)
	}
	m := &controllerManager{trials: first, pulse: newPulse()}
	exitAfter(func() bool { return m.end(t.Context()) }, time.Minute, func(c int) { code = c })(255)
	if code != 255 {
		t.Errorf("exit code %d", code)
	}
	if _, err := tries(t, client); err != nil {
		t.Error(err)
	}
}

// tries starts a process with a module on trial.
func tries(t *testing.T, client kubernetes.Interface) (*trials.Trials, error) {
	process := trials.New(trials.Options{Manager: "host:1", WhoAmI: func(context.Context) (trial.Account, error) { return trial.Account{}, nil }})
	book := process.Book(t.Context(), "main", status.New(client, "ns", "main", clock.RealClock{}))
	process.Seal()
	_, err := book.Of("")(t.Context(), source.Bundle{Module: []byte("new")}, engine.Default, trial.Offered)
	return process, err
}

// The liveness probe ends the process with a SIGTERM, too.
func TestAManagerThatStoodStillLeavesItsMarks(t *testing.T) {
	for _, steady := range []bool{true, false} {
		client := fake.NewClientset()
		first, err := tries(t, client)
		if err != nil {
			t.Fatal(err)
		}
		m := &controllerManager{trials: first, pulse: newPulse()}
		m.pulse.beat(time.Hour)
		if !steady {
			m.pulse.beat(time.Hour + time.Minute)
		}
		m.pulse.begun = time.Now().Add(-time.Hour - time.Minute)
		if steady {
			m.pulse.begun = time.Now().Add(-time.Hour)
		}
		code := -1
		exitAfter(func() bool { return m.end(t.Context()) }, time.Minute, func(c int) { code = c })(0)
		if (code == 0) != steady { // the kubelet would report an orderly end
			t.Errorf("steady %v: exit code %d", steady, code)
		}
		_, err = tries(t, client)
		if suspected := err != nil; suspected == steady {
			t.Errorf("steady %v: %v", steady, err)
		}
	}
}

// A hanging part does not delay the exit.
func TestAnEndByUpstreamWaitsForNothingLong(t *testing.T) {
	hang, exited := make(chan bool), false
	exitAfter(func() bool { return <-hang }, time.Millisecond, func(code int) { exited = code != 0 })(0)
	close(hang)
	if !exited {
		t.Error("it has not ended")
	}
}
