//go:build wasmtime

package wasmtime

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"

	"github.com/bytecodealliance/wasmtime-go/v44"

	engines "github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/engine"
)

const (
	// libraryVersion is wasmtime-go's. The runtime refuses machine code made with another
	// version, configuration or processor features; the name makes that rare.
	libraryVersion = "v44.0.0"
	// maxCachedBytes bounds a read of the cache: machine code is a few times larger than its
	// module.
	maxCachedBytes = 1 << 30
)

// cache keeps machine code in a directory; "" keeps none.
type cache struct {
	dir string
	// only: nothing is compiled.
	only bool
}

// compile returns the module from the directory, or compiles and stores it.
func (c cache) compile(engine *wasmtime.Engine, wasm []byte) (*wasmtime.Module, error) {
	if c.dir == "" && !c.only {
		return newModule(engine, wasm)
	}
	path := c.path(wasm)
	if err := check(path); err == nil {
		// The runtime maps the file: all its users share one copy in memory, which the kernel can
		// take back. Files of the cache are replaced and removed, never changed.
		if m, err := wasmtime.NewModuleDeserializeFile(engine, path); err == nil {
			return m, nil
		}
	}
	if c.only {
		return nil, engines.ErrNotCompiled
	}
	m, err := newModule(engine, wasm)
	if err != nil {
		return nil, err
	}
	code, err := m.Serialize()
	if err == nil {
		err = write(path, code)
	}
	if err != nil {
		m.Close()
		return nil, fmt.Errorf("compilation cache %s: %w", c.dir, err)
	}
	return m, nil
}

// newModule compiles. The runtime's error becomes one line.
func newModule(engine *wasmtime.Engine, wasm []byte) (*wasmtime.Module, error) {
	m, err := wasmtime.NewModule(engine, wasm)
	if err != nil {
		return nil, worded(err)
	}
	return m, nil
}

func (c cache) path(wasm []byte) string {
	sum := sha256.Sum256(wasm)
	folder := fmt.Sprintf("wasmtime-%s-%s-%s", libraryVersion, runtime.GOARCH, runtime.GOOS)
	return filepath.Join(c.dir, folder, hex.EncodeToString(sum[:]))
}

// check verifies a file's checksum, at its end: the runtime trusts its input.
func check(path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	size := info.Size() - sha256.Size
	if size < 0 || size > maxCachedBytes {
		return fmt.Errorf("%s has %d bytes, at least %d and at most %d are read", path, info.Size(), sha256.Size, maxCachedBytes)
	}
	h := sha256.New()
	if _, err := io.CopyN(h, file, size); err != nil {
		return err
	}
	sum := make([]byte, sha256.Size)
	if _, err := io.ReadFull(file, sum); err != nil {
		return err
	}
	if !bytes.Equal(h.Sum(nil), sum) {
		return fmt.Errorf("%s is damaged", path)
	}
	return nil
}

// write replaces the file atomically: another process may be reading it.
func write(path string, code []byte) error {
	folder := filepath.Dir(path)
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return err
	}
	file, err := os.CreateTemp(folder, ".new-*")
	if err != nil {
		return err
	}
	sum := sha256.Sum256(code)
	_, err = file.Write(code)
	if err == nil {
		_, err = file.Write(sum[:])
	}
	err = errors.Join(err, file.Close())
	if err == nil {
		err = os.Rename(file.Name(), path)
	}
	if err == nil {
		return nil
	}
	if gone := os.Remove(file.Name()); !errors.Is(gone, fs.ErrNotExist) {
		err = errors.Join(err, gone)
	}
	return err
}
