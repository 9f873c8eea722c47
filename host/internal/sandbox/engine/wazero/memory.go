package wazero

import (
	"context"
	"syscall"

	"github.com/tetratelabs/wazero/experimental"

	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/engine/image"
)

// withMemory keeps the linear memory of the module instantiated with the context outside of
// the Go heap: address space for the largest size is reserved at once, so that growing
// neither copies nor leaves garbage, and the memory is returned when the instance is closed.
// A module has one memory.
func withMemory(ctx context.Context, m *memory) context.Context {
	return experimental.WithMemoryAllocator(ctx, experimental.MemoryAllocatorFunc(
		func(_, limit uint64) experimental.LinearMemory { m.limit = limit; return m }))
}

// memory implements experimental.LinearMemory.
type memory struct {
	limit uint64
	// begins is the initial contents; nil means zeros.
	begins   *image.Image
	reserved []byte
	size     uint64
}

// Reallocate returns nil when no memory is left: the guest's memory.grow fails.
func (m *memory) Reallocate(size uint64) []byte {
	if m.reserved == nil {
		reserved, err := syscall.Mmap(-1, 0, int(max(m.limit, pageBytes)), syscall.PROT_NONE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
		if err != nil {
			return nil
		}
		m.reserved = reserved
	}
	if m.begins != nil {
		if err := m.begins.Put(m.reserved[:size]); err != nil {
			return nil
		}
		m.begins, m.size = nil, size // it may begin with no pages, and grow later
	}
	if size > m.size {
		if err := syscall.Mprotect(m.reserved[:size], syscall.PROT_READ|syscall.PROT_WRITE); err != nil {
			return nil
		}
		m.size = size
	}
	return m.reserved[:size:size]
}

// Free returns the memory.
func (m *memory) Free() {
	if m.reserved != nil {
		_ = syscall.Munmap(m.reserved)
		m.reserved, m.size = nil, 0
	}
}

// bytes is the current memory.
func (m *memory) bytes() []byte { return m.reserved[:m.size:m.size] }
