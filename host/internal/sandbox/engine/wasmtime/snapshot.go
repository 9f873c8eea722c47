//go:build wasmtime

package wasmtime

import (
	"context"
	"fmt"
	"strconv"

	"github.com/bytecodealliance/wasmtime-go/v44"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/engine"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/engine/image"
)

// snapshot implements engine.Snapshot.
type snapshot struct {
	module  *module
	image   *image.Image
	globals []wasmtime.Val
}

// Snapshot copies the memory and the globals.
func (i *instance) Snapshot() (engine.Snapshot, error) {
	// Invariant C3 (host/SECURITY.md): a snapshot is taken while no code of the guest is on a stack.
	if err := i.gate.Enter(0); err != nil {
		return nil, err
	}
	defer i.gate.Leave(false)
	globals := i.globals()
	if len(globals) == 0 {
		return nil, engine.ErrNoSnapshot
	}
	kept, err := image.Of(i.memory.exported.UnsafeData(i.store))
	if err != nil {
		return nil, err
	}
	s := &snapshot{module: i.module, image: kept}
	for _, g := range globals {
		s.globals = append(s.globals, g.Get(i.store))
	}
	return s, nil
}

// globals are the meter's exported globals, by their numbers.
func (i *instance) globals() (all []*wasmtime.Global) {
	for {
		export := i.exports.GetExport(i.store, engine.GlobalPrefix+strconv.Itoa(len(all)))
		if export == nil || export.Global() == nil {
			return all
		}
		all = append(all, export.Global())
	}
}

func (s *snapshot) Instantiate(ctx context.Context) (engine.Instance, error) {
	i, err := s.module.instantiate(ctx)
	if err != nil {
		return nil, err
	}
	if err = i.become(s); err == nil {
		err = i.start(ctx, abi.ExportResume)
	}
	if err != nil {
		i.store.Close()
		return nil, err
	}
	return i, nil
}

// become gives a new instance a snapshot's state. The runtime reserves a memory's address
// space at once, never moves it, and maps its own images in the same way.
func (i *instance) become(s *snapshot) error {
	const failed = "an instance as of the snapshot"
	memory := i.memory.exported
	now, then := uint64(memory.DataSize(i.store)), uint64(s.image.Size())
	if now > then {
		return fmt.Errorf("%s: its memory has %d bytes, the snapshot's %d", failed, now, then)
	}
	if _, err := memory.Grow(i.store, (then-now)/pageBytes); err != nil {
		return fmt.Errorf("%s: %w", failed, worded(err))
	}
	if err := s.image.Put(memory.UnsafeData(i.store)); err != nil {
		return fmt.Errorf("%s: %w", failed, err)
	}
	for n, g := range i.globals() {
		if err := g.Set(i.store, s.globals[n]); err != nil {
			return fmt.Errorf("%s: %w", failed, worded(err))
		}
	}
	return nil
}

func (s *snapshot) Bytes() uint64 { return s.image.Bytes() }

func (s *snapshot) Close() error { return s.image.Close() }
