//go:build !linux

package image

import "fmt"

// Image is the contents of a memory. It is safe for concurrent use until it is
// closed.
type Image struct{ data []byte }

// New makes an image of that size. The function writes to a zeroed memory.
func New(size int, write func(memory []byte)) (*Image, error) {
	i := &Image{make([]byte, size)}
	write(i.data)
	return i, nil
}

// Size is the memory's, in bytes.
func (i *Image) Size() int { return len(i.data) }

// Bytes is the room that the image takes.
func (i *Image) Bytes() uint64 { return uint64(len(i.data)) }

// Put fills a memory of the image's size with the image's contents.
func (i *Image) Put(memory []byte) error {
	if len(memory) != len(i.data) {
		return fmt.Errorf("a memory of %d bytes, the image has %d", len(memory), len(i.data))
	}
	copy(memory, i.data)
	return nil
}

// Close releases the image.
func (i *Image) Close() error { return nil }
