package enginetest

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/engine"
)

//go:embed testdata/snapshot.wasm
var snapshotWasm []byte

// The ops of testdata/snapshot.wat. Each answers with the whole state; its last bytes are
// the number of resumptions, and a random number drawn at the last one.
const (
	opKeep abi.Op = iota + 1
	opGrowPage
	opAsk
	opFails
	opState
)

const stateBytes = 52

// The behaviour of an instance of testdata/snapshot.wat when it is resumed.
const (
	resumeTraps uint32 = iota + 1
	resumeSpins
	resumeReads
	resumeGrows
)

func act(t *testing.T, i engine.Instance, op abi.Op, request ...uint32) []byte {
	t.Helper()
	got, err := i.Call(t.Context(), op, words(request...))
	if err != nil || len(got.Response) != 64 {
		t.Fatalf("op %d: %d bytes, %v", op, len(got.Response), err)
	}
	return got.Response
}

func snapshotOf(t *testing.T, i engine.Instance) engine.Snapshot {
	t.Helper()
	s, err := i.(engine.Snapshotter).Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func born(t *testing.T, s engine.Snapshot) engine.Instance {
	t.Helper()
	i, err := s.Instantiate(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = i.Close(context.Background()) })
	return i
}

// snapshots begin with the instance's state, and later changes of one instance are invisible
// to the others.
func (s *suite) snapshots(t *testing.T) {
	first := instantiate(t, s.compile(t, metered(t, snapshotWasm), engine.ModuleConfig{}))
	act(t, first, opKeep, 0xfeed)
	act(t, first, opGrowPage)
	before := act(t, first, opGrowPage)
	snapshot := snapshotOf(t, first)
	if snapshot.Bytes() == 0 || snapshot.Bytes() > first.MemoryBytes() {
		t.Errorf("a snapshot of %d bytes, of %d", snapshot.Bytes(), first.MemoryBytes())
	}
	drawn := map[string]bool{}
	for n := range uint32(4) {
		act(t, first, opKeep, n)
		i := born(t, snapshot)
		got := act(t, i, opState)
		if !bytes.Equal(got[:stateBytes], before[:stateBytes]) || got[stateBytes] != 1 || i.MemoryBytes() != 3*64<<10 {
			t.Fatalf("it begins as\n%x, the first one was\n%x", got, before)
		}
		drawn[string(got[stateBytes+4:])] = true
		act(t, i, opKeep, 0xbad+n)
		act(t, i, opGrowPage)
		if got := act(t, born(t, snapshotOf(t, i)), opState); got[stateBytes] != 2 {
			t.Errorf("a snapshot of one that came of a snapshot was resumed %d times", got[stateBytes])
		}
	}
	if len(drawn) != 4 {
		t.Errorf("4 instances drew %d random numbers", len(drawn))
	}
}

// An instance of a snapshot has the costs and bounds of any other.
func (s *suite) snapshotsAreBounded(t *testing.T) {
	first := instantiate(t, s.compile(t, metered(t, snapshotWasm), engine.ModuleConfig{}))
	act(t, first, opKeep, 1)
	i := born(t, snapshotOf(t, first))
	for range 20 {
		act(t, first, opGrowPage)
		act(t, i, opGrowPage)
	}
	if i.MemoryBytes() != memoryLimit || first.MemoryBytes() != memoryLimit {
		t.Errorf("%d bytes, the first one %d, want %d", i.MemoryBytes(), first.MemoryBytes(), memoryLimit)
	}
	one, err := first.Call(t.Context(), opState, nil)
	other, otherErr := i.Call(t.Context(), opState, nil)
	if one.Fuel != other.Fuel || err != nil || otherErr != nil {
		t.Errorf("the same op took %d and %d fuel, %v, %v", one.Fuel, other.Fuel, err, otherErr)
	}
	if _, err := i.Call(t.Context(), opFails, nil); err == nil {
		t.Error("no error")
	}
	if _, err := i.(engine.Snapshotter).Snapshot(); err == nil || !strings.Contains(err.Error(), "failed before") {
		t.Errorf("a snapshot of one that failed: %v", err)
	}
}

func (s *suite) resuming(t *testing.T) {
	m := s.compile(t, metered(t, snapshotWasm), engine.ModuleConfig{})
	for how, want := range map[uint32]string{
		resumeTraps: "ccm_resume: the guest trapped: wasm error: unreachable",
		resumeReads: "ccm_resume: the guest broke the calling convention: req_read outside of an op",
		resumeSpins: "ccm_resume: the guest was ended: context deadline exceeded",
	} {
		first := instantiate(t, m)
		act(t, first, opKeep, 1, how)
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		i, err := snapshotOf(t, first).Instantiate(ctx)
		cancel()
		var crash *engine.Crash
		if i != nil || err == nil || err.Error() != want || !errors.As(err, &crash) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	first := instantiate(t, m)
	act(t, first, opKeep, 1, resumeGrows)
	if got := act(t, born(t, snapshotOf(t, first)), opState); got[40] != 2 {
		t.Errorf("resuming grew the memory to %d pages", got[40])
	}
}

// No snapshot is taken of an instance during an op.
func (s *suite) snapshotInAnOp(t *testing.T) {
	var i engine.Instance
	var within error
	i = instantiate(t, s.compile(t, metered(t, snapshotWasm), engine.ModuleConfig{Host: host(
		func(context.Context, string, []byte) (abi.Code, []byte) {
			_, within = i.(engine.Snapshotter).Snapshot()
			return abi.CodeOK, nil
		})}))
	act(t, i, opAsk)
	if within == nil || !strings.Contains(within.Error(), "already runs an op") {
		t.Errorf("a snapshot within an op: %v", within)
	}
	born(t, snapshotOf(t, i))
}

// Modules without the export have no snapshots, nor modules with state elsewhere.
func (s *suite) noSnapshot(t *testing.T) {
	i := s.instance(t, engine.ModuleConfig{})
	if _, err := i.(engine.Snapshotter).Snapshot(); !errors.Is(err, engine.ErrNoSnapshot) {
		t.Errorf("%v, want that there is none", err)
	}
}

// The instances outlive their snapshot, and leave nothing.
func (s *suite) snapshotsLeaveNothing(t *testing.T) {
	first := instantiate(t, s.compile(t, metered(t, snapshotWasm), engine.ModuleConfig{}))
	act(t, first, opKeep, 3)
	snapshot, err := first.(engine.Snapshotter).Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	i := born(t, snapshot)
	if err := snapshot.Close(); err != nil {
		t.Error(err)
	}
	if got := act(t, i, opGrowPage); got[0] != 3 || got[40] != 2 {
		t.Errorf("without its snapshot it is %x", got)
	}
	if _, err := snapshot.Instantiate(t.Context()); err == nil {
		t.Error("a closed snapshot makes instances")
	}
	before := uint64(0)
	for round := range 4 {
		for range 300 {
			snapshotAndAway(t, first)
		}
		if now := resident(t); round == 0 {
			before = now
		} else if now > before+16<<20 {
			t.Errorf("%d KiB more after %d snapshots", (now-before)>>10, 300*round)
		}
	}
}

// snapshotAndAway takes a snapshot, and writes to every page of an instance.
func snapshotAndAway(t *testing.T, first engine.Instance) {
	t.Helper()
	snapshot, err := first.(engine.Snapshotter).Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	i, err := snapshot.Instantiate(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for range memoryLimit >> 16 {
		act(t, i, opGrowPage)
	}
	if err := errors.Join(i.Close(t.Context()), snapshot.Close()); err != nil {
		t.Fatal(err)
	}
}
