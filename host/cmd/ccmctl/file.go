package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/source"
)

const (
	// maxModule bounds a module, in bytes, before and after decompression.
	maxModule = 256 << 20
	// maxSmall bounds keys, signatures and configurations, in bytes.
	maxSmall = 1 << 20
)

// readModule returns the module of a file NAME.wasm, NAME.wasm.gz or
// NAME.wasm.zst, decompressed. It follows the rules of package source, so that
// the manager accepts the same files.
func readModule(path string) ([]byte, error) {
	stored, err := readFile(path, maxModule)
	if err != nil {
		return nil, err
	}
	name := filepath.Base(path)
	if !strings.HasSuffix(uncompressedName(name), ".wasm") {
		return nil, fmt.Errorf("%s: the name does not end in .wasm, .wasm.gz or .wasm.zst: rename the file", path)
	}
	limits := source.Limits{MaxModule: maxModule, MaxCompressed: maxModule}
	bundle, err := source.Join(&corev1.ConfigMap{BinaryData: map[string][]byte{name: stored}}, nil, limits)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, withoutOrigin(err))
	}
	return bundle.Module, nil
}

// withoutOrigin removes the name of the ConfigMap, as there is none.
func withoutOrigin(err error) error {
	var failed *source.Error
	if errors.As(err, &failed) {
		if inner := errors.Unwrap(failed.Err); inner != nil {
			return inner
		}
	}
	return err
}

// uncompressedName is the base name of a signature.
func uncompressedName(path string) string {
	return strings.TrimSuffix(strings.TrimSuffix(path, ".gz"), ".zst")
}

// signatureOf is the manager's name for a module's signature.
func signatureOf(path string) string { return uncompressedName(path) + ".sig" }

func readFile(path string, most int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("%w: name a file that can be read", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err // which names the file
	}
	// The room of a file whose size is known is made once.
	var data bytes.Buffer
	if size := info.Size(); size <= most {
		data.Grow(int(size) + bytes.MinRead)
		_, err = data.ReadFrom(io.LimitReader(f, most+1))
	}
	if err != nil {
		return nil, err
	}
	if info.Size() > most || int64(data.Len()) > most {
		return nil, fmt.Errorf("%s has more than %d bytes: name another file", path, most)
	}
	return data.Bytes(), nil
}

// createFile writes a new file, whose mode the umask narrows, and fails if it exists.
func createFile(path string, data []byte, mode os.FileMode) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if errors.Is(err, os.ErrExist) {
		return fmt.Errorf("%s exists: remove it, or choose another name", path)
	}
	if err != nil {
		return fmt.Errorf("%w: choose a directory that can be written", err)
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Close()); err != nil {
		_ = os.Remove(path) // half of it would be in the way of the next one
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}
