package wazero

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/tetratelabs/wazero/api"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/engine"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/engine/image"
)

// snapshot implements engine.Snapshot.
type snapshot struct {
	module  *module
	image   *image.Image
	globals []uint64
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
	kept, err := image.Of(i.linear.bytes())
	if err != nil {
		return nil, err
	}
	s := &snapshot{module: i.module, image: kept}
	for _, g := range globals {
		s.globals = append(s.globals, g.Get())
	}
	return s, nil
}

// globals are the meter's exported globals, by their numbers.
func (i *instance) globals() (all []api.MutableGlobal) {
	for {
		g, ok := i.guest.ExportedGlobal(engine.GlobalPrefix + strconv.Itoa(len(all))).(api.MutableGlobal)
		if !ok {
			return all
		}
		all = append(all, g)
	}
}

func (s *snapshot) Instantiate(ctx context.Context) (engine.Instance, error) {
	i, err := s.module.instantiate(ctx, nil)
	if err != nil {
		return nil, err
	}
	if err = i.become(s); err == nil {
		err = i.start(ctx, abi.ExportResume)
	}
	if err != nil {
		return nil, errors.Join(err, i.guest.Close(ctx))
	}
	return i, nil
}

// become gives a new instance a snapshot's state.
func (i *instance) become(s *snapshot) error {
	const failed = "an instance as of the snapshot"
	now, then := uint64(i.guest.Memory().Size()), uint64(s.image.Size())
	if now > then {
		return fmt.Errorf("%s: its memory has %d bytes, the snapshot's %d", failed, now, then)
	}
	if _, ok := i.guest.Memory().Grow(uint32((then - now) / pageBytes)); !ok {
		return fmt.Errorf("%s: there is no memory of %d bytes", failed, then)
	}
	if err := s.image.Put(i.linear.bytes()); err != nil {
		return fmt.Errorf("%s: %w", failed, err)
	}
	for n, g := range i.globals() {
		g.Set(s.globals[n])
	}
	return nil
}

func (s *snapshot) Bytes() uint64 { return s.image.Bytes() }

func (s *snapshot) Close() error { return s.image.Close() }
