package source

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// A file that cannot be closed is an error, also where it is too small for the store.
func TestAFileThatCannotBeClosed(t *testing.T) {
	store, err := NewStore(t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	b := box{file: func(string) (*os.File, error) {
		f, err := os.Create(filepath.Join(t.TempDir(), "module.wasm"))
		return f, errors.Join(err, f.Close())
	}}
	if _, err := b.module("module.wasm", nil, Limits{Store: store, MaxModule: 1 << 20}); !errors.Is(err, os.ErrClosed) {
		t.Errorf("error %v, want %v", err, os.ErrClosed)
	}
}
