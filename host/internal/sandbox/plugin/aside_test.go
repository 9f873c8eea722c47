package plugin_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/engine"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/plugin"
)

// A question of the manager's own takes the last instance, and gives it to the first
// call of a control loop. Its own limit is what ends it otherwise.
func TestAQuestionGivesWayToACall(t *testing.T) {
	asked := make(chan struct{}, 10)
	e := &fakeEngine{call: func(ctx context.Context, op abi.Op, _ []byte) (engine.Result, error) {
		switch op {
		case abi.OpInstanceExists:
			asked <- struct{}{}
			<-ctx.Done()
			return engine.Result{}, ctx.Err()
		case abi.OpVolumeLabels:
			return ok(&abi.VolumeLabelsResponse{Done: true}), nil
		}
		return engine.Result{}, nil
	}}
	limits := testLimits()
	limits.MaxInstances, limits.OpTimeout = 1, time.Hour
	slot, _ := serve(t, e, limits)
	ended := make(chan error)
	go func() {
		_, _, err := slot.Serving().Ask(t.Context(), abi.OpInstanceExists, nil)
		ended <- err
	}()
	<-asked
	if err := slot.Invoke(t.Context(), abi.OpVolumeLabels, &abi.VolumeLabelsRequest{}, &abi.VolumeLabelsResponse{}); err != nil {
		t.Errorf("the call: %v", err)
	}
	if err := <-ended; !errors.Is(err, plugin.ErrGaveWay) {
		t.Errorf("the question: %v", err)
	}
	// One that waits for the instance gives up its place, too.
	busy, release := context.WithCancel(t.Context())
	go func() {
		ended <- slot.Invoke(busy, abi.OpInstanceExists, &abi.InstanceRequest{}, &abi.InstanceExistsResponse{})
	}()
	<-asked
	go func() {
		_, _, err := slot.Serving().Ask(t.Context(), abi.OpVolumeLabels, nil)
		ended <- err
	}()
	go func() {
		ended <- slot.Invoke(t.Context(), abi.OpVolumeLabels, &abi.VolumeLabelsRequest{}, &abi.VolumeLabelsResponse{})
	}()
	gaveWay := <-ended
	release()
	if first, second := <-ended, <-ended; !errors.Is(gaveWay, plugin.ErrGaveWay) || (first == nil) == (second == nil) {
		t.Errorf("the question: %v, the calls: %v, %v", gaveWay, first, second)
	}
}
