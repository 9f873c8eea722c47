package image

import (
	"errors"
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Image is the contents of a memory, in an unnamed, immutable file. It is safe for
// concurrent use until it is closed.
type Image struct {
	file  *os.File
	size  int
	bytes uint64
}

// New makes an image of that size. The function writes to a zeroed memory, which is valid
// only during the call. Unwritten pages take no room.
func New(size int, write func(memory []byte)) (*Image, error) {
	const cannot = "a file for %d bytes of the memory of instances: %w"
	const flags = unix.MFD_CLOEXEC | unix.MFD_ALLOW_SEALING
	// A system may refuse executable files (vm.memfd_noexec); before Linux 6.3 the flag is
	// unknown.
	fd, err := unix.MemfdCreate("ccm-image", flags|unix.MFD_NOEXEC_SEAL)
	if errors.Is(err, unix.EINVAL) {
		fd, err = unix.MemfdCreate("ccm-image", flags)
	}
	if err != nil {
		return nil, fmt.Errorf(cannot, size, err)
	}
	i := &Image{file: os.NewFile(uintptr(fd), "ccm-image"), size: size}
	if err := i.fill(write); err != nil {
		return nil, errors.Join(fmt.Errorf(cannot, size, err), i.Close())
	}
	return i, nil
}

func (i *Image) fill(write func([]byte)) error {
	fd := int(i.file.Fd())
	if i.size > 0 {
		if err := i.file.Truncate(int64(i.size)); err != nil {
			return err
		}
		memory, err := unix.Mmap(fd, 0, i.size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
		if err != nil {
			return err
		}
		write(memory)
		if err := unix.Munmap(memory); err != nil {
			return err
		}
	}
	var stat unix.Stat_t
	if err := unix.Fstat(fd, &stat); err != nil {
		return err
	}
	const blockBytes = 512
	i.bytes = uint64(stat.Blocks) * blockBytes
	// Invariant C1 (host/SECURITY.md): nothing changes an image, not even a holder of its file.
	_, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS,
		unix.F_SEAL_WRITE|unix.F_SEAL_SHRINK|unix.F_SEAL_GROW|unix.F_SEAL_SEAL)
	return err
}

// Size is the memory's, in bytes.
func (i *Image) Size() int { return i.size }

// Bytes is the room that the image takes.
func (i *Image) Bytes() uint64 { return i.bytes }

// Put fills a memory of the image's size with the image's contents. The memory must be a
// private, page-aligned mapping: its pages are replaced.
func (i *Image) Put(memory []byte) error {
	if len(memory) != i.size {
		return fmt.Errorf("a memory of %d bytes, the image has %d", len(memory), i.size)
	}
	if i.size == 0 {
		return nil
	}
	begin := unsafe.Pointer(unsafe.SliceData(memory))
	if uintptr(begin)%uintptr(os.Getpagesize()) != 0 {
		return errors.New("the memory does not begin on a page's border")
	}
	_, err := unix.MmapPtr(int(i.file.Fd()), 0, begin, uintptr(i.size),
		unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_FIXED)
	if err != nil {
		return fmt.Errorf("mapping the memory of an instance: %w", err)
	}
	return nil
}

// Close releases the image. Memories filled from it keep their contents.
func (i *Image) Close() error { return i.file.Close() }
