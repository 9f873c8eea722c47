package wazero

import (
	"errors"
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// runnable is the protection of machine code.
const runnable = unix.PROT_READ | unix.PROT_EXEC

// codeFile is a mappable file of machine code. It has no name, so that nobody can change or
// truncate it, and disappears once it is closed and unmapped.
func codeFile(code []byte, dir string) (*os.File, error) {
	file, err := os.CreateTemp(dir, "code-*")
	if err != nil {
		return nil, err
	}
	err = os.Remove(file.Name())
	if err == nil {
		_, err = file.Write(code)
	}
	if err == nil {
		err = tryMapping(file, len(code))
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

// tryMapping reports why a mapping would fail, as on a file system mounted noexec. A failed
// mapping at a fixed address may leave nothing there.
func tryMapping(file *os.File, size int) error {
	elsewhere, err := unix.Mmap(int(file.Fd()), 0, size, runnable, unix.MAP_PRIVATE)
	if err != nil {
		return fmt.Errorf("mapping %d bytes: %w", size, err)
	}
	return unix.Munmap(elsewhere)
}

// replace maps the pages of the file over those of the code.
func replace(code []byte, file *os.File) error {
	_, err := unix.MmapPtr(int(file.Fd()), 0, unsafe.Pointer(unsafe.SliceData(code)), uintptr(len(code)), runnable, unix.MAP_PRIVATE|unix.MAP_FIXED)
	return err
}
