package source

import (
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/klauspost/compress/zstd"
)

// Packing says how content is cut into parts for ConfigMaps.
type Packing struct {
	// Bytes are those of a part, and Parts how many there may be.
	Bytes, Parts int
	Level        zstd.EncoderLevel
}

// ErrNoRoom is the error of content that needs more parts than there may be.
var ErrNoRoom = errors.New("no room left")

// Pack makes one zstd frame of the pieces, one behind the other, and cuts it
// into parts, one at least. Its window is one that every decoder takes. It
// copies no piece, and stops with ErrNoRoom as soon as the parts are full: a
// module may have tens of megabytes.
func (p Packing) Pack(pieces ...[]byte) ([][]byte, error) {
	// Invariant M11 (host/SECURITY.md): no piece is copied, and content for which there is no room
	// stops here.
	out, size := &room{left: p.Parts * p.Bytes}, 0
	for _, piece := range pieces {
		size += len(piece)
	}
	z, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(p.Level), zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(8*mebibyte))
	if err != nil {
		return nil, fmt.Errorf("compress: %w", err)
	}
	z.ResetContentSize(out, int64(size))
	for _, piece := range pieces {
		if _, err := z.Write(piece); err != nil {
			return nil, fmt.Errorf("compress: %w", errors.Join(err, z.Close()))
		}
	}
	if err := z.Close(); err != nil {
		return nil, fmt.Errorf("compress: %w", err)
	}
	return slices.Collect(slices.Chunk(out.data, p.Bytes)), nil
}

// Unpack returns the content of parts that Pack made, joined again. What has
// more than so many bytes of content is an error, and takes no more memory.
func Unpack(packed []byte, most int64) (content []byte, err error) {
	err = unzstd(packed, most, func(r io.Reader, said uint64) (err error) {
		content, err = readAll(r, most, said)
		return err
	})
	return content, err
}

// room takes so many bytes.
type room struct {
	data []byte
	left int
}

// Write is io.Writer's.
func (r *room) Write(p []byte) (int, error) {
	if r.left -= len(p); r.left < 0 {
		return 0, ErrNoRoom
	}
	r.data = append(r.data, p...)
	return len(p), nil
}
