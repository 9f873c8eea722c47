package wazero

import (
	"bytes"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// Where a file cannot be had, machine code stays as and where it is.
func TestCodeStaysInMemory(t *testing.T) {
	code, err := unix.Mmap(-1, 0, 2*pageBytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Munmap(code); err != nil {
			t.Error(err)
		}
	})
	code[pageBytes] = 0xc3
	want := bytes.Clone(code)
	if err := fromFile(t.Context(), code, filepath.Join(t.TempDir(), "missing")); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(code, want) {
		t.Error("the code is another one")
	}
	code[0] = 1 // its rights are the same
}
