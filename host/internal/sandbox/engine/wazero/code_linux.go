package wazero

import (
	"errors"
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// runnable is what machine code may be used for.
const runnable = unix.PROT_READ | unix.PROT_EXEC

// codeFile is a file of machine code that can be mapped. It has no name, so that
// nobody can change it or cut it, and is gone when it is closed and no longer
// mapped.
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

// tryMapping says what speaks against a mapping, as a file system that is mounted
// noexec does. One in a fixed place that fails may leave nothing there.
func tryMapping(file *os.File, size int) error {
	elsewhere, err := unix.Mmap(int(file.Fd()), 0, size, runnable, unix.MAP_PRIVATE)
	if err != nil {
		return fmt.Errorf("mapping %d bytes: %w", size, err)
	}
	return unix.Munmap(elsewhere)
}

// replace puts the pages of the file into the place of those of the code.
func replace(code []byte, file *os.File) error {
	_, err := unix.MmapPtr(int(file.Fd()), 0, unsafe.Pointer(unsafe.SliceData(code)), uintptr(len(code)), runnable, unix.MAP_PRIVATE|unix.MAP_FIXED)
	return err
}
