package plugin_test

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/engine"
	"github.com/wasm-ccm/wasm-ccm/host/test/requests"
)

// held is a response that tells when its decoding begins, and waits then.
type held struct{ abi.VolumeLabelsResponse }

// Of the test's held response, which is emptied before it is decoded.
var begun, goOn chan struct{}

func (h *held) UnmarshalVT(data []byte) error {
	close(begun)
	<-goOn
	return h.VolumeLabelsResponse.UnmarshalVT(data)
}

func TestLargeResponsesAreDecodedInTurn(t *testing.T) {
	large := true
	e := &fakeEngine{call: func(_ context.Context, op abi.Op, _ []byte) (engine.Result, error) {
		switch {
		case op != abi.OpVolumeLabels:
			return engine.Result{}, nil
		case large:
			return ok(&abi.VolumeLabelsResponse{Labels: map[string]string{"a": strings.Repeat("b", 100<<10)}}), nil
		}
		return ok(&abi.VolumeLabelsResponse{}), nil
	}}
	slot, _ := serve(t, e, testLimits())
	invoke := func(ctx context.Context, resp abi.Message) error {
		return slot.Invoke(ctx, abi.OpVolumeLabels, &abi.VolumeLabelsRequest{}, resp)
	}

	begun, goOn = make(chan struct{}), make(chan struct{})
	ended := make(chan error)
	go func() { ended <- invoke(t.Context(), &held{}) }()
	<-begun
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	second := &abi.VolumeLabelsResponse{}
	if err := invoke(ctx, second); !errors.Is(err, context.DeadlineExceeded) || len(second.Labels) > 0 {
		t.Errorf("a second large response is decoded beside the first: %v", err)
	}
	large = false
	if err := invoke(t.Context(), &abi.VolumeLabelsResponse{}); err != nil {
		t.Errorf("a small response has to wait: %v", err)
	}
	close(goOn)
	if err := <-ended; err != nil {
		t.Error(err)
	}
	large = true
	if err := invoke(t.Context(), second); err != nil || len(second.Labels["a"]) != 100<<10 {
		t.Errorf("the next large response: %v", err)
	}
}

// A guest that hashes its request sees a change only where there is one.
func TestEqualRequestsAreEqualBytes(t *testing.T) {
	var first []byte
	e := &fakeEngine{call: func(_ context.Context, op abi.Op, request []byte) (engine.Result, error) {
		if op != abi.OpInstanceExists {
			return engine.Result{}, nil
		}
		if first == nil {
			first = bytes.Clone(request)
		}
		if !bytes.Equal(first, request) {
			t.Errorf("the same Node in other bytes:\n%q\n%q", first, request)
		}
		return ok(&abi.InstanceExistsResponse{Existence: abi.Existence_EXISTENCE_EXISTS}), nil
	}}
	slot, _ := serve(t, e, testLimits())
	for range 20 {
		if err := slot.Invoke(t.Context(), abi.OpInstanceExists, requests.Instance("n"), &abi.InstanceExistsResponse{}); err != nil {
			t.Fatal(err)
		}
	}
}
