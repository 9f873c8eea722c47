package image_test

import (
	"bytes"
	"syscall"
	"testing"

	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/engine/image"
)

const pageBytes = 64 << 10

// mapped is a memory as engines have it.
func mapped(t *testing.T, size int) []byte {
	t.Helper()
	memory, err := syscall.Mmap(-1, 0, size, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := syscall.Munmap(memory); err != nil {
			t.Error(err)
		}
	})
	return memory
}

// Memories that hold an image are apart, and the image stays what it was made of.
func TestImagesDoNotChange(t *testing.T) {
	of := make([]byte, 3*pageBytes)
	copy(of, "first")
	copy(of[2*pageBytes-3:], "across")
	want := bytes.Clone(of)
	i, err := image.Of(of)
	if err != nil {
		t.Fatal(err)
	}
	clear(of)
	one, other := mapped(t, len(of)), mapped(t, 4*pageBytes)
	copy(one, bytes.Repeat([]byte{0xff}, len(one)))
	other[3*pageBytes] = 7
	for _, memory := range [][]byte{one, other[:3*pageBytes]} {
		if err := i.Put(memory); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(memory, want) {
			t.Error("the memory holds something else")
		}
	}
	copy(one, bytes.Repeat([]byte{0xee}, len(one)))
	if !bytes.Equal(other[:3*pageBytes], want) || other[3*pageBytes] != 7 {
		t.Error("what is written to one memory is in another")
	}
	if err := i.Close(); err != nil {
		t.Error(err)
	}
	if !bytes.Equal(other[:3*pageBytes], want) {
		t.Error("the memory went with the image")
	}
	if err := i.Put(one); err == nil {
		t.Error("a closed image can be had")
	}
}

// Zeros take no room, and a memory of another size, or not at a page's border,
// is left as it is.
func TestImages(t *testing.T) {
	for _, size := range []int{0, pageBytes, 256 * pageBytes} {
		i, err := image.New(size, func(memory []byte) {
			if size > 0 {
				memory[size-1] = 9
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		if i.Size() != size || i.Bytes() > pageBytes {
			t.Errorf("an image of %d bytes takes %d", i.Size(), i.Bytes())
		}
		memory := mapped(t, size+2*pageBytes)
		if err := i.Put(memory[:size]); err != nil {
			t.Error(err)
		}
		if size > 0 && memory[size-1] != 9 || memory[size] != 0 {
			t.Error("it is not what was written")
		}
		for _, wrong := range [][]byte{memory[:size+1], memory[1 : size+1]} {
			if err := i.Put(wrong); err == nil && size > 0 {
				t.Errorf("an image of %d bytes is put into %d at another place", size, len(wrong))
			}
		}
		if err := i.Close(); err != nil {
			t.Error(err)
		}
	}
}
