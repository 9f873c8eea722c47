//go:build !race

package manager

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	basemetrics "k8s.io/component-base/metrics"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/host/internal/cloud/async"
	"github.com/wasm-ccm/wasm-ccm/host/internal/cloud/opcontext"
	"github.com/wasm-ccm/wasm-ccm/host/internal/manager/metrics"
	"github.com/wasm-ccm/wasm-ccm/host/internal/manager/tracing"
	"github.com/wasm-ccm/wasm-ccm/host/test/requests"
)

// answers is an invoker with immediate answers.
type answers struct{ opcontext.Invoker }

func (answers) Invoke(_ context.Context, _ abi.Op, _, resp abi.Message) error {
	resp.(*abi.InstanceExistsResponse).Existence = abi.Existence_EXISTENCE_EXISTS
	return nil
}

// The manager's allocations per op of a provider: for metrics, history and
// disabled spans; and 14 more for a wait without contention.
func TestWhatAnOpAllocatesInTheManager(t *testing.T) {
	all := metrics.New()
	all.Register(basemetrics.NewKubeRegistry().MustRegister)
	guest := scrubbed{answers{}, "main", all.Provider("main"), tracing.New("test", ""), &allowed{}, newHistory(), func() int64 { return 3 }}
	guest.allowed.current.Store(&network{})
	invoker := async.New(guest, async.Options{Instances: func() int { return 4 }})
	ctx := opcontext.NewContext(t.Context(), opcontext.Op{Object: &corev1.ObjectReference{Kind: "Node", Name: "n"}})
	request := requests.Instance("n")
	for _, test := range []struct {
		name string
		next opcontext.Invoker
		most float64
	}{{"measured", guest, 7}, {"waited for", invoker, 21}} {
		got := testing.AllocsPerRun(200, func() {
			if err := test.next.Invoke(ctx, abi.OpInstanceExists, request, &abi.InstanceExistsResponse{}); err != nil {
				t.Fatal(err)
			}
		})
		t.Logf("%s: %v", test.name, got)
		if got > test.most {
			t.Errorf("%s: %v allocations, want %v at most", test.name, got, test.most)
		}
	}
}
