//go:build wasmtime

package wasmtime

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"

	"github.com/bytecodealliance/wasmtime-go/v44"

	engines "github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/engine"
)

const (
	// libraryVersion is that of wasmtime-go. The runtime refuses what another
	// version of it, another configuration or other processor features made;
	// the name makes that rare.
	libraryVersion = "v44.0.0"
	// maxCachedBytes bounds what is read back: machine code has a few times the
	// size of its module.
	maxCachedBytes = 1 << 30
)

// cache keeps machine code in a directory; "" keeps none.
type cache struct {
	dir string
	// only: nothing is compiled.
	only bool
}

// compile returns the module that the directory holds, or compiles it and
// keeps it there.
func (c cache) compile(engine *wasmtime.Engine, wasm []byte) (*wasmtime.Module, error) {
	if c.dir == "" && !c.only {
		return newModule(engine, wasm)
	}
	path := c.path(wasm)
	if code, err := read(path); err == nil {
		if m, err := wasmtime.NewModuleDeserialize(engine, code); err == nil {
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

// newModule compiles. The runtime's error is one line.
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

// read returns the machine code of a file, which starts with its checksum:
// the runtime trusts what it is given.
func read(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if info.Size() > maxCachedBytes {
		return nil, fmt.Errorf("%s has %d bytes, at most %d are read", path, info.Size(), maxCachedBytes)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	if len(data) < sha256.Size {
		return nil, fmt.Errorf("%s is truncated", path)
	}
	sum, code := data[:sha256.Size], data[sha256.Size:]
	if got := sha256.Sum256(code); !bytes.Equal(got[:], sum) {
		return nil, fmt.Errorf("%s is damaged", path)
	}
	return code, nil
}

// write replaces the file at once: another process may be reading it.
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
	_, err = file.Write(sum[:])
	if err == nil {
		_, err = file.Write(code)
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
