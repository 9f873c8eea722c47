package registry

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"

	"github.com/klauspost/compress/zstd"
)

const (
	mebibyte = 1 << 20
	// maxFiles bounds the entries of a layer, and maxName the name of a used file, in bytes, as
	// file systems do.
	maxFiles = 1000
	maxName  = 255
	// sparsePrefix begins the PAX records of a sparse entry.
	sparsePrefix = "GNU.sparse."
	// besides is the allowance beside the module: the configuration, the signature, and the
	// headers.
	besides = 4 * mebibyte
	// maxWindow is the initial allocation of a zstd decoder.
	maxWindow = 8 * mebibyte
)

// limits bound the reader, in bytes.
type limits struct {
	maxFile int64
	keep    func(name string, size int64, content io.Reader) (bool, error) // may be nil
}

func newLimits(maxFile int64, keep func(string, int64, io.Reader) (bool, error)) limits {
	if maxFile == 0 {
		maxFile = 64 * mebibyte
	}
	return limits{maxFile, keep}
}

// layer bounds a layer, before and after decompression.
func (l limits) layer() int64 { return l.maxFile + besides }

// file reads one file into a buffer of its declared size: a module is in memory once.
func (l limits) file(r io.Reader, name string, said int64) ([]byte, error) {
	if said > l.maxFile {
		return nil, invalid("%.100q in it has more than %d bytes: raise limits.module of the provider, or make it smaller", name, l.maxFile)
	}
	if taken, err := l.kept(r, name, said); taken || err != nil {
		return nil, err
	}
	data := bytes.NewBuffer(make([]byte, 0, max(said, 0)+bytes.MinRead))
	if _, err := data.ReadFrom(io.LimitReader(r, said+1)); err != nil {
		return nil, err
	}
	if int64(data.Len()) != said {
		return nil, notSo(name, said)
	}
	return data.Bytes(), nil
}

func notSo(name string, said int64) error {
	return invalid("%.100q in it does not have %d bytes, as its layer says", name, said)
}

// kept offers a file to keep.
func (l limits) kept(r io.Reader, name string, said int64) (taken bool, err error) {
	if l.keep == nil {
		return false, nil
	}
	// Invariant M11 (host/SECURITY.md): a large module of an image, too, passes through a small buffer.
	content := &kept{Reader: io.LimitReader(r, said+1)}
	taken, err = l.keep(name, said, content)
	switch {
	case content.err != nil && !errors.Is(content.err, io.EOF):
		return false, content.err
	case err != nil:
		return false, &Error{ReasonNotKept, err}
	case taken && content.read != said:
		return false, notSo(name, said)
	}
	return taken, nil
}

// untar reads the files at the root of a layer by the rules for a directory: no names that
// begin with a dot, and no subdirectories.
func (l limits) untar(r io.Reader, compression string) (map[string][]byte, error) {
	plain, end, err := decompress(r, compression)
	if err != nil {
		return nil, invalid("its layer does not decompress: %w", err)
	}
	defer end()
	// Invariant I7 (host/SECURITY.md): unpacking stops at a module's limit, whatever the layer declares.
	all := &io.LimitedReader{R: plain, N: l.layer() + 1}
	files, err := l.entries(tar.NewReader(all))
	if all.N <= 0 {
		return nil, l.tooLarge()
	}
	var known *Error
	if err != nil && !errors.As(err, &known) {
		return nil, invalid("its layer is no tar that can be read: %w", err)
	}
	return files, err
}

func (l limits) entries(r *tar.Reader) (map[string][]byte, error) {
	files, left := map[string][]byte{}, l.layer()
	for range maxFiles {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files, nil
		}
		if err != nil {
			return nil, err
		}
		if err := checkEntry(h); err != nil {
			return nil, err
		}
		name := strings.TrimPrefix(path.Clean("/"+h.Name), "/")
		if h.Typeflag == tar.TypeDir || strings.Contains(name, "/") || strings.HasPrefix(name, ".") || name == "" {
			continue
		}
		if _, ok := files[name]; ok {
			return nil, invalid("%.100q is in its layer twice: leave one", name)
		}
		if left -= h.Size; left < 0 {
			return nil, l.tooLarge()
		}
		if files[name], err = l.file(r, name, h.Size); err != nil {
			return nil, err
		}
	}
	return nil, invalid("its layer has %d entries or more: leave the module, its signature and its configuration", maxFiles)
}

// checkEntry accepts only files and directories, at any depth. An entry that expands beyond
// its bytes in the layer is neither.
func checkEntry(h *tar.Header) error {
	switch {
	// Invariant I7 (host/SECURITY.md): holes read as zeros, so some hundred bytes would become gigabytes.
	case h.Typeflag == tar.TypeGNUSparse || hasHoles(h.PAXRecords):
		return invalid("%.100q in its layer is a sparse file: pack it without holes", h.Name)
	case h.Typeflag != tar.TypeReg && h.Typeflag != tar.TypeDir:
		return invalid("%.100q in its layer is a link or a device: make it a file", h.Name)
	case len(h.Name) > maxName && h.Typeflag == tar.TypeReg && !strings.Contains(h.Name, "/"):
		return invalid("%.100q in its layer is a name of more than %d bytes", h.Name, maxName)
	}
	return nil
}

func hasHoles(records map[string]string) bool {
	for key := range records {
		if strings.HasPrefix(key, sparsePrefix) {
			return true
		}
	}
	return false
}

func (l limits) tooLarge() error {
	return invalid("its layer has more than %d bytes after decompression: raise limits.module of the provider, or make it smaller", l.layer())
}

func decompress(r io.Reader, compression string) (plain io.Reader, end func(), err error) {
	switch compression {
	case "gzip":
		z, err := gzip.NewReader(r)
		return z, func() {}, err
	case "zstd":
		z, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(maxWindow))
		if err != nil {
			return nil, nil, err
		}
		return z, z.Close, nil
	case "":
		return r, func() {}, nil
	}
	return nil, nil, fmt.Errorf("%s is unknown", compression)
}
