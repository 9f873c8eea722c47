package source

import (
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/klauspost/compress/zstd"
)

// Packing says how content is split into parts for ConfigMaps.
type Packing struct {
	// Bytes is the size of a part, Parts their largest number.
	Bytes, Parts int
	Level        zstd.EncoderLevel
}

// ErrNoRoom is the error of content that needs too many parts.
var ErrNoRoom = errors.New("no room left")

// Pack compresses the pieces, concatenated, into one zstd frame, and splits it into parts,
// at least one. Every decoder supports its window. It copies no piece, and stops with
// ErrNoRoom as soon as the parts are full: a module may have tens of megabytes.
func (p Packing) Pack(pieces ...[]byte) ([][]byte, error) {
	// Invariant M11 (host/SECURITY.md): no piece is copied, and content that does not fit stops
	// here.
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

// Unpack returns the content of joined parts that Pack made. More than most bytes of content
// are an error, and take no more memory.
func Unpack(packed []byte, most int64) (content []byte, err error) {
	err = unzstd(packed, most, func(r io.Reader, said uint64) (err error) {
		content, err = readAll(r, most, said)
		return err
	})
	return content, err
}

// room is a writer of limited size.
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
