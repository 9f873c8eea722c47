//go:build tinygo

package sdk

import (
	"crypto/rand"
	"errors"
	"unsafe"
)

// serveRandom lets crypto/rand ask the host each time. TinyGo's asks a generator
// of libc's, which is seeded once: instances that begin as copies of one would
// all draw the same keys.
//
// Invariant C4 (host/SECURITY.md): what is drawn is in no memory that others have.
func serveRandom() { rand.Reader = hostRandom{} }

type hostRandom struct{}

// mostRandom is what the host answers at once.
const mostRandom = 1 << 20

func (hostRandom) Read(b []byte) (int, error) {
	for n := 0; n < len(b); n += mostRandom {
		part := b[n:min(len(b), n+mostRandom)]
		if wasiRandomGet(unsafe.Pointer(unsafe.SliceData(part)), uint32(len(part))) != 0 {
			return n, errors.New("the host has no random numbers")
		}
	}
	return len(b), nil
}

//go:wasmimport wasi_snapshot_preview1 random_get
func wasiRandomGet(ptr unsafe.Pointer, length uint32) uint32
