package snapshot_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/abi/wire"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/plugin"
	"github.com/wasm-ccm/wasm-ccm/host/test/requests"
)

// TestTheSameAnswers: at random, ops and requests that mean something or
// nothing, each in an instance of its own that is new. Made from nothing or as a
// snapshot, they answer the same and ask the host for the same.
func TestTheSameAnswers(t *testing.T) {
	rounds := 300
	if testing.Short() {
		rounds = 40
	}
	for _, guest := range guests(t) {
		t.Run(guest.name, func(t *testing.T) {
			t.Parallel()
			e := newEngine(t.TempDir())
			bundle := plugin.Bundle{Module: guestOf(t, guest.name), Config: guest.config}
			_, one, here := load(t, e, bundle, false)
			_, other, there := load(t, e, bundle, true)
			random := rand.New(rand.NewPCG(1, 2))
			answered := 0
			for n := range rounds {
				op, request := abi.Op(random.IntN(52)), requestAt(t, random)
				got := ask(t, one, op, request) + here.took()
				want := ask(t, other, op, request) + there.took()
				if got != want {
					t.Fatalf("round %d, op %s, request %x: a snapshot\n%s\nfrom nothing\n%s", n, op, request, got, want)
				}
				if got[0] == '0' {
					answered++
				}
			}
			if born := here.created.Load() - here.configured.Load(); born < int64(rounds)-2 || there.configured.Load() < int64(rounds) {
				t.Errorf("%d instances began as snapshots; the others were made from nothing %d times", born, there.configured.Load())
			}
			t.Logf("%d of %d ops had an answer", answered, rounds)
		})
	}
}

func ask(t *testing.T, g *plugin.Generation, op abi.Op, request []byte) string {
	code, response, err := g.Ask(t.Context(), op, request)
	return fmt.Sprintf("%d %x %v", code, response, err)
}

// requestAt is one of a few messages, whole or damaged.
func requestAt(t *testing.T, random *rand.Rand) []byte {
	t.Helper()
	name := fmt.Sprintf("m%d", random.IntN(60))
	messages := []abi.Message{
		&abi.ProbeRequest{},
		&abi.DescribeRequest{AbiVersion: abi.Version, HostVersion: "v1"},
		requests.Instance(name, func(n *corev1.Node) { n.Spec.ProviderID = "static://" + name }),
		requests.Instance(name, func(*corev1.Node) {}),
	}
	data, err := wire.Marshal(messages[random.IntN(len(messages))])
	if err != nil {
		t.Fatal(err)
	}
	switch random.IntN(4) {
	case 0:
		data = data[:random.IntN(len(data)+1)]
	case 1:
		data = append(bytes.Clone(data), byte(random.IntN(256)))
	}
	return data
}
