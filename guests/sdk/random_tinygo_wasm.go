//go:build tinygo

package sdk

import (
	"crypto/rand"
	"errors"
	"unsafe"
)

// serveRandom makes crypto/rand ask the host at each read. TinyGo's default is a generator
// of libc, which is seeded once: all copies of an instance would draw the same keys.
//
// Invariant C4 (host/SECURITY.md): random numbers come from no memory that instances share.
func serveRandom() { rand.Reader = hostRandom{} }

type hostRandom struct{}

// mostRandom is the most bytes that the host returns at once.
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
