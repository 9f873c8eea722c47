package manager

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"testing"

	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/utils/clock"

	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/rollout"
	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/source"
	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/status"
	"github.com/wasm-ccm/wasm-ccm/host/status/v1alpha1"
)

func testJournal() (journal, *fake.Clientset) {
	client := fake.NewClientset()
	return journal{
		object: status.New(client, "ns", "test", clock.RealClock{}),
		scrub:  func(text string) string { return strings.ReplaceAll(text, "hunter2", "[scrubbed]") },
	}, client
}

func TestTheJournalComesBackAsItWas(t *testing.T) {
	j, _ := testJournal()
	ctx := context.Background()
	bundle := source.Bundle{Module: []byte("wasm"), Config: []byte("conf"), Revision: "sha256:abc"}
	record := rollout.Record{
		Saved: []rollout.Saved{{Module: v1alpha1.Module{Name: "static", Digest: "d", Revision: bundle.Revision}, Kept: true}}, Generation: 7,
		Refused: []rollout.Refusal{
			{Revision: rollout.Revision{Module: "m", Bundle: "old", Terms: "h0"}, Phase: rollout.Held, Stands: true},
			{Revision: rollout.Revision{Module: "n", Bundle: "new"}, Scope: rollout.ScopeModule, Phase: rollout.RolledBack, Reason: "r", Message: "it said hunter2"},
		},
	}
	if err := j.Save(ctx, record, []source.Bundle{bundle}); err != nil {
		t.Fatal(err)
	}
	record.Generation++
	if err := j.Save(ctx, record, nil); err != nil {
		t.Fatal(err)
	}
	got, err := j.Load(ctx)
	if err != nil {
		t.Fatal(err)
	}
	kept, err := j.Bundle(ctx, bundle.Revision)
	if err != nil {
		t.Fatal(err)
	}
	if string(kept.Module) != "wasm" || string(kept.Config) != "conf" || got.Generation != 8 {
		t.Errorf("bundle %+v, record %+v", kept, got)
	}
	record.Refused[1].Message = "it said [scrubbed]"
	if !reflect.DeepEqual(got, record) {
		t.Errorf("record %+v, want %+v", got, record)
	}
}

func TestWhatIsTooLargeIsNotTriedAgain(t *testing.T) {
	j, _ := testJournal()
	large := source.Bundle{Module: incompressible(5 << 20), Revision: "sha256:abc"}
	err := j.Save(context.Background(), rollout.Record{Saved: []rollout.Saved{{Module: v1alpha1.Module{Revision: "sha256:abc"}}}, Generation: 3}, []source.Bundle{large})
	if err == nil || !strings.Contains(err.Error(), rollout.ErrNotKept.Error()) {
		t.Errorf("error %v", err)
	}
	got, err := j.Load(context.Background())
	if err != nil || got.Generation != 3 {
		t.Errorf("%+v, %v", got, err)
	}
	if kept, err := j.Bundle(context.Background(), large.Revision); !errors.Is(err, status.ErrNotSaved) {
		t.Errorf("%v, %v", kept, err)
	}
}

func incompressible(size int) []byte {
	data, x := make([]byte, size), uint32(1)
	for i := range data {
		x = x*1664525 + 1013904223
		data[i] = byte(x >> 24)
	}
	return data
}
