// Package image holds the initial contents of the memories of a module's instances. If the
// system can, they share it: a memory uses own pages only for written ones.
package image

import "bytes"

const pageBytes = 4 << 10

// Of copies a memory. Pages of zeros take no room.
func Of(memory []byte) (*Image, error) {
	return New(len(memory), func(copied []byte) {
		for n := 0; n < len(memory); n += pageBytes {
			if page := memory[n:min(n+pageBytes, len(memory))]; !isZero(page) {
				copy(copied[n:], page)
			}
		}
	})
}

func isZero(page []byte) bool {
	var zeros [pageBytes]byte
	return bytes.Equal(page, zeros[:len(page)])
}
