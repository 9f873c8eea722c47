package main

import (
	"context"
	"strings"
	"testing"

	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/utils/clock"

	"github.com/wasm-ccm/wasm-ccm/host/rollout"
	"github.com/wasm-ccm/wasm-ccm/host/source"
	"github.com/wasm-ccm/wasm-ccm/host/status"
)

func testJournal(terms string) (journal, *fake.Clientset) {
	client := fake.NewClientset()
	return journal{
		object:   status.New(client, "ns", "test", clock.RealClock{}),
		revision: func() string { return terms },
		scrub:    func(text string) string { return strings.ReplaceAll(text, "hunter2", "[scrubbed]") },
	}, client
}

func TestTheJournalComesBackAsItWas(t *testing.T) {
	j, _ := testJournal("h1")
	ctx := context.Background()
	bundle := source.Bundle{Module: []byte("wasm"), Config: []byte("conf"), Revision: "sha256:abc"}
	record := rollout.Record{
		Good: &rollout.Version{Name: "static", Revision: rollout.Revision(bundle.Revision, "h0")}, Generation: 7,
		Refused: []rollout.Refusal{{Revision: "old", Phase: rollout.Held}, {Revision: "new", Phase: rollout.RolledBack, Reason: "r", Message: "it said hunter2"}},
	}
	if err := j.Keep(ctx, bundle, record); err != nil {
		t.Fatal(err)
	}
	record.Generation++
	if err := j.Save(ctx, record); err != nil {
		t.Fatal(err)
	}
	got, kept, err := j.Load(ctx)
	if err != nil || kept == nil {
		t.Fatal(kept, err)
	}
	if string(kept.Module) != "wasm" || string(kept.Config) != "conf" || got.Generation != 8 {
		t.Errorf("bundle %+v, record %+v", kept, got)
	}
	// It is a generation on the terms of now.
	if want := rollout.Revision(kept.Revision, "h1"); got.Good.Revision != want {
		t.Errorf("revision %s, want %s", got.Good.Revision, want)
	}
	if len(got.Refused) != 2 || got.Refused[1].Revision != "new" || got.Refused[1].Message != "it said [scrubbed]" {
		t.Errorf("refused %+v", got.Refused)
	}
}

func TestWhatIsTooLargeIsNotTriedAgain(t *testing.T) {
	j, _ := testJournal("h1")
	large := source.Bundle{Module: incompressible(5 << 20), Revision: "sha256:abc"}
	err := j.Keep(context.Background(), large, rollout.Record{Good: &rollout.Version{Revision: "sha256:abc+h1"}, Generation: 3})
	if err == nil || !strings.Contains(err.Error(), rollout.ErrNotKept.Error()) {
		t.Errorf("error %v", err)
	}
	got, kept, err := j.Load(context.Background())
	if err != nil || kept != nil || got.Generation != 3 {
		t.Errorf("%+v, %v, %v", got, kept, err)
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
