package source

import (
	"os"
	"syscall"
)

// mapped maps a non-empty file: the system can take its pages back.
func mapped(f *os.File, size int64) (content []byte, unmap func(), err error) {
	content, err = syscall.Mmap(int(f.Fd()), 0, int(size), syscall.PROT_READ, syscall.MAP_SHARED)
	if err != nil {
		return nil, nil, os.NewSyscallError("mmap", err)
	}
	return content, func() { _ = syscall.Munmap(content) }, nil // cannot fail for a mapping
}
