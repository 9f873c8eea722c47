package plugin_test

import (
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/abi/manifest"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/engine"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/engine/wazero"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/module"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/plugin"
	"github.com/wasm-ccm/wasm-ccm/host/test/requests"
)

// The same with a real engine and the guest of testdata/wat/provider.wat.

func realModule(tb testing.TB) []byte {
	tb.Helper()
	wasm, err := os.ReadFile("../../../../testdata/wat/provider.wasm")
	if err != nil {
		tb.Fatal(err)
	}
	wasm, err = manifest.Append(wasm, []byte(testManifest))
	if err != nil {
		tb.Fatal(err)
	}
	return wasm
}

func realLoader(limits plugin.Limits) (*plugin.Loader, *counter) {
	c := &counter{}
	return &plugin.Loader{
		Engine: wazero.New(wazero.Options{}), Limits: limits, Observer: c,
		Policy:  module.Policy{Capabilities: []string{abi.CapabilityCache}},
		NewHost: func(*manifest.Manifest) (engine.Host, io.Writer, io.Writer) { return nil, nil, nil },
	}, c
}

func realSlot(tb testing.TB, limits plugin.Limits) (*plugin.Slot, *counter) {
	tb.Helper()
	l, c := realLoader(limits)
	g, err := l.Load(tb.Context(), plugin.Bundle{Module: realModule(tb)})
	if err != nil {
		tb.Fatal(err)
	}
	slot := plugin.NewSlot()
	slot.Swap(tb.Context(), g)
	tb.Cleanup(func() { slot.Close(context.Background()) })
	return slot, c
}

func TestRealGuest(t *testing.T) {
	limits := testLimits()
	limits.OpTimeouts = map[abi.Op]time.Duration{abi.OpInstanceMetadata: 20 * time.Millisecond}
	slot, c := realSlot(t, limits)
	if slot.ProviderName() != "test" {
		t.Errorf("provider %q", slot.ProviderName())
	}
	for name, test := range map[string]struct {
		op   abi.Op
		resp abi.Message
		want string
		is   error
	}{
		"trap":        {abi.OpInstanceShutdown, &abi.InstanceShutdownResponse{}, "instance_shutdown: the guest trapped: wasm error: unreachable", nil},
		"endless":     {abi.OpInstanceMetadata, &abi.InstanceMetadataResponse{}, "instance_metadata: the provider did not answer within 20ms", context.DeadlineExceeded},
		"undecodable": {abi.OpVolumeLabels, &abi.VolumeLabelsResponse{}, "volume_labels: the provider's response cannot be decoded", nil},
	} {
		err := slot.Invoke(t.Context(), test.op, &abi.InstanceRequest{}, test.resp)
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: error %v, want one with %q", name, err, test.want)
		}
		var answer *abi.Error
		if errors.As(err, &answer) {
			t.Errorf("%s: %v is taken for an answer of the guest", name, err)
		}
		if test.is != nil && !errors.Is(err, test.is) {
			t.Errorf("%s: error %v is not %v", name, err, test.is)
		}
		resp := &abi.InstanceExistsResponse{}
		if err := slot.Invoke(t.Context(), abi.OpInstanceExists, &abi.InstanceRequest{}, resp); err != nil || resp.Existence != abi.Existence_EXISTENCE_EXISTS {
			t.Errorf("%s: the op after it: %v, %v", name, resp.Existence, err)
		}
	}
	if failed, late := c.count(plugin.DiscardFailed), c.count(plugin.DiscardDeadline); failed != 1 || late != 1 {
		t.Errorf("%d instances were discarded as failed, %d as late; want one each", failed, late)
	}
}

func TestRealSwapLosesNoCall(t *testing.T) {
	slot, _ := realSlot(t, testLimits())
	l, _ := realLoader(testLimits())
	ctx, cancel := context.WithCancel(context.Background())
	var calls atomic.Int64
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for ctx.Err() == nil {
				if err := exists(context.Background(), slot); err != nil {
					t.Errorf("a call was lost: %v", err)
					return
				}
				calls.Add(1)
			}
		})
	}
	for range 20 {
		g, err := l.Load(t.Context(), plugin.Bundle{Module: realModule(t)})
		if err != nil {
			t.Fatal(err)
		}
		before := calls.Load()
		old := slot.Swap(t.Context(), g)
		<-old.Closed()
		for calls.Load() == before { // until the new generation has served
			if err := exists(t.Context(), slot); err != nil {
				t.Fatal(err)
			}
		}
	}
	cancel()
	wg.Wait()
}

// BenchmarkInvoke is one op from the typed request to the typed response, with
// a guest that does nothing but answer.
func BenchmarkInvoke(b *testing.B) {
	slot, _ := realSlot(b, testLimits())
	req := requests.Instance("m1", func(n *corev1.Node) { n.Spec.ProviderID = "static://m1" })
	resp := &abi.InstanceExistsResponse{}
	b.ReportAllocs()
	for b.Loop() {
		if err := slot.Invoke(b.Context(), abi.OpInstanceExists, req, resp); err != nil {
			b.Fatal(err)
		}
	}
}
