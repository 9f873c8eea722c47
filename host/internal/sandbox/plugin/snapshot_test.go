package plugin_test

import (
	"context"
	"errors"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/abi/manifest"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/engine"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/plugin"
)

// kept counts what an engine makes from nothing, and the snapshots that are open.
type kept struct {
	engine.Engine
	fromNothing, asked, open atomic.Int64
}

type keptModule struct {
	engine.Module
	k *kept
}

type keptInstance struct {
	engine.Instance
	k   *kept
	ops []abi.Op
}

type keptSnapshot struct {
	engine.Snapshot
	k *kept
}

func (k *kept) Compile(ctx context.Context, wasm []byte, config engine.ModuleConfig) (engine.Module, error) {
	m, err := k.Engine.Compile(ctx, wasm, config)
	return keptModule{m, k}, err
}

func (m keptModule) Instantiate(ctx context.Context) (engine.Instance, error) {
	m.k.fromNothing.Add(1)
	i, err := m.Module.Instantiate(ctx)
	return &keptInstance{Instance: i, k: m.k}, err
}

func (i *keptInstance) Call(ctx context.Context, op abi.Op, request []byte) (engine.Result, error) {
	i.ops = append(i.ops, op)
	return i.Instance.Call(ctx, op, request)
}

func (i *keptInstance) Snapshot() (engine.Snapshot, error) {
	i.k.asked.Add(1)
	if len(i.ops) != 1 || i.ops[0] != abi.OpConfigure {
		return nil, errors.New("the instance ran other ops than configure")
	}
	s, err := i.Instance.(engine.Snapshotter).Snapshot()
	if err != nil {
		return nil, err
	}
	i.k.open.Add(1)
	return keptSnapshot{s, i.k}, nil
}

func (s keptSnapshot) Close() error {
	s.k.open.Add(-1)
	return s.Snapshot.Close()
}

// keeping loads a module of testdata/wat and asks it for ops, each in a fresh
// instance.
func keeping(t *testing.T, file string, config string, fromNothing bool) (*kept, *plugin.Generation, error) {
	t.Helper()
	l, _ := realLoader(testLimits())
	k := &kept{Engine: l.Engine}
	l.Engine, l.EachFromNothing = k, fromNothing
	wasm, err := os.ReadFile("../../../../testdata/wat/" + file)
	if err != nil {
		t.Fatal(err)
	}
	if wasm, err = manifest.Append(wasm, []byte(testManifest)); err != nil {
		t.Fatal(err)
	}
	g, err := l.Load(t.Context(), plugin.Bundle{Module: wasm, Config: []byte(config)})
	if err != nil {
		return k, nil, err
	}
	for range 5 {
		if _, _, err := g.Ask(t.Context(), abi.OpInstanceExists, nil); err != nil {
			t.Error(err)
		}
	}
	return k, g, nil
}

// A snapshot is taken of the one instance that was only configured, for modules
// that ask for it, and ends with the generation.
func TestSnapshotsArePartOfAGeneration(t *testing.T) {
	for name, test := range map[string]struct {
		file                            string
		fromNothing                     bool
		made, asked, open, warningsLeft int64
	}{
		"asks for it":         {"resumes.wasm", false, 2, 1, 1, 0},
		"does not":            {"provider.wasm", false, 8, 0, 0, 0},
		"is not allowed":      {"resumes.wasm", true, 8, 0, 0, 0},
		"cannot have what it": {"resumes_not.wasm", false, 8, 1, 0, 1},
	} {
		k, g, err := keeping(t, test.file, "", test.fromNothing)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if k.fromNothing.Load() != test.made || k.asked.Load() != test.asked || k.open.Load() != test.open {
			t.Errorf("%s: %d instances made from nothing, %d snapshots asked for, %d open", name, k.fromNothing.Load(), k.asked.Load(), k.open.Load())
		}
		if warnings := g.Warnings(); int64(len(warnings)) != test.warningsLeft || len(warnings) > 0 && !strings.Contains(warnings[0], "drops segments") {
			t.Errorf("%s: warnings %q", name, warnings)
		}
		if err := g.Close(t.Context()); err != nil {
			t.Error(err)
		}
		if k.open.Load() != 0 {
			t.Errorf("%s: %d snapshots are left", name, k.open.Load())
		}
	}
}

// A guest that cannot resume does not pass its probe, and nothing is left of it.
func TestAGuestThatCannotResumeDoesNotServe(t *testing.T) {
	k, _, err := keeping(t, "resumes.wasm", "a configuration", false)
	if err == nil || !strings.Contains(err.Error(), "probe: a new instance: ccm_resume: the guest trapped") {
		t.Errorf("%v", err)
	}
	if k.open.Load() != 0 {
		t.Errorf("%d snapshots are left", k.open.Load())
	}
	if _, _, err := keeping(t, "resumes.wasm", "a configuration", true); err != nil {
		t.Errorf("from nothing: %v", err)
	}
}
