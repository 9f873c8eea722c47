package source

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/bits"

	"github.com/klauspost/compress/zstd"

	"github.com/wasm-ccm/wasm-ccm/host/internal/quota"
)

// decompress returns a bundle with only the module stored under a key, decompressed
// according to the key's name.
func decompress(key string, stored []byte, limits Limits) (Bundle, error) {
	compression := compressionOf(key)
	if len(stored) == 0 {
		return Bundle{}, failed(ReasonModuleEmpty, "%s is empty", key)
	}
	if compression == "" {
		if int64(len(stored)) > limits.MaxModule {
			return Bundle{}, tooLarge(key, limits)
		}
		return Bundle{Module: stored}, nil
	}
	if int64(len(stored)) > limits.MaxCompressed {
		return Bundle{}, failed(ReasonModuleTooLarge, "%s is larger than %d bytes: compress it better (zstd -19), build it with -opt=z and without debug information, or mount it (providers[].source.directory of the HostConfiguration, or without one --provider-dir)", key, limits.MaxCompressed)
	}
	bundle, err := expand(compression, stored, limits)
	switch {
	case errors.Is(err, errTooLarge):
		return Bundle{}, tooLarge(key, limits)
	case quota.Short(err):
		return Bundle{}, err
	case err != nil:
		return Bundle{}, failed(ReasonModuleCompressionInvalid, "%s does not decompress: %w; write it again as %s", key, err, map[string]string{".gz": "gzip", ".zst": "zstd"}[compression])
	case !bundle.HasModule():
		return Bundle{}, failed(ReasonModuleEmpty, "%s is empty after decompression", key)
	}
	return bundle, nil
}

func tooLarge(key string, limits Limits) error {
	return failed(ReasonModuleTooLarge, "%s is a module of more than %d bytes: make it smaller%s", key, limits.MaxModule, limits.orRaise())
}

// orRaise is the second remedy for a module that is too large.
func (l Limits) orRaise() string {
	if l.ModuleSetting == "" {
		return ""
	}
	return ", or raise " + l.ModuleSetting
}

var errTooLarge = errors.New("too large")

func expand(compression string, stored []byte, limits Limits) (bundle Bundle, err error) {
	take := func(r io.Reader, said uint64) error {
		bundle, err = kept(r, said, limits)
		return err
	}
	if compression == ".gz" {
		err = gunzip(stored, take)
		return bundle, err
	}
	err = unzstd(stored, limits.MaxModule, take)
	return bundle, err
}

// kept stores content of a declared size in memory or, if large, in the store. A stream
// compressed from a pipe declares no size.
func kept(r io.Reader, said uint64, limits Limits) (bundle Bundle, err error) {
	if limits.Store == nil {
		bundle.Module, err = readAll(r, limits.MaxModule, said)
		return bundle, err
	}
	var begin []byte
	if said < largeModule {
		begin, err = readAll(io.LimitReader(r, largeModule), limits.MaxModule, said)
		if err != nil || len(begin) < largeModule {
			return Bundle{Module: begin}, err
		}
	}
	// Invariant M11 (host/SECURITY.md): only the beginning of a large module is in memory.
	bundle.File, err = limits.Store.Put(io.MultiReader(bytes.NewReader(begin), r), limits.MaxModule)
	return bundle, err
}

// gunzip takes exactly one gzip member.
func gunzip(stored []byte, take func(r io.Reader, said uint64) error) error {
	// A bytes.Reader is an io.ByteReader: nothing behind the end is consumed.
	r := bytes.NewReader(stored)
	z, err := gzip.NewReader(r)
	if err != nil {
		return err
	}
	z.Multistream(false)
	if err := take(z, gzipSize(stored)); err != nil {
		return err
	}
	if r.Len() > 0 {
		return fmt.Errorf("%d bytes follow the end of the gzip stream", r.Len())
	}
	return nil
}

// unzstd also bounds the window, which the decoder allocates before it reads any content.
func unzstd(stored []byte, most int64, take func(r io.Reader, said uint64) error) error {
	z, err := zstd.NewReader(bytes.NewReader(stored),
		zstd.WithDecoderConcurrency(1),
		zstd.WithDecoderLowmem(true),
		// Invariant M12 (host/SECURITY.md): the window, which is allocated first, is bounded as
		// well.
		zstd.WithDecoderMaxWindow(window(most)))
	if err != nil {
		return err
	}
	defer z.Close()
	err = take(z, zstdSize(stored))
	if errors.Is(err, zstd.ErrWindowSizeExceeded) || errors.Is(err, zstd.ErrDecoderSizeExceeded) {
		return fmt.Errorf("its window is larger than %d bytes: compress without --long and --ultra", window(most))
	}
	return err
}

// window is the largest useful window for a module of most bytes, at least the 8 MiB that
// every decoder should support.
func window(most int64) uint64 {
	const least, largest = 8 * mebibyte, 1 << 29
	return min(max(uint64(1)<<bits.Len64(uint64(max(most, 1)-1)), least), largest)
}

// gzipSize and zstdSize are the declared sizes of compressed files, or 0. They may lie.
func gzipSize(stored []byte) uint64 {
	if len(stored) < 4 {
		return 0
	}
	return uint64(binary.LittleEndian.Uint32(stored[len(stored)-4:]))
}

func zstdSize(stored []byte) uint64 {
	var h zstd.Header
	if err := h.Decode(stored); err != nil || !h.HasFCS {
		return 0
	}
	return h.FrameContentSize
}

// readAll reads into a buffer of the declared size, so that the content is in memory once,
// without copies of a growing slice.
func readAll(r io.Reader, most int64, said uint64) ([]byte, error) {
	const least = 512
	// Invariant M11 (host/SECURITY.md): the buffer has the declared size at once, so that it is
	// not copied while it grows.
	data := make([]byte, 0, max(least, min(said, uint64(most))+1))
	// Invariant M12 (host/SECURITY.md): at most one byte above the limit is unpacked, whatever
	// size the file declares.
	for r = io.LimitReader(r, most+1); ; {
		n, err := r.Read(data[len(data):cap(data)])
		data = data[:len(data)+n]
		switch {
		case int64(len(data)) > most:
			return nil, errTooLarge
		case err == io.EOF:
			return data, nil
		case err != nil:
			return nil, err
		case len(data) == cap(data):
			data = append(data, 0)[:len(data)]
		}
	}
}
