package compile_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/wasm-ccm/wasm-ccm/host/internal/quota"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/compile"
)

// size is that of all files in a directory.
func size(t *testing.T, dir string) (sum int64) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		sum += info.Size()
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return sum
}

// A cache with a quota takes no more than that: machine code that nobody needs goes,
// what serves stays, and what does not fit beside it is an error.
func TestTheCacheKeepsItsQuota(t *testing.T) {
	dir, limit := filepath.Join(t.TempDir(), "cache"), int64(12<<20)
	p := newParent(t, dir, func(o *compile.Options) { o.Quota = quota.New(dir, limit) })
	left := filepath.Join(dir, ".compiling-of-a-killed-manager")
	if err := os.Mkdir(left, 0o700); err != nil {
		t.Fatal(err)
	}
	load := func(functions int) (*compile.Hold, error) {
		j := job(manyFunctions(functions))
		j.Hold = &compile.Hold{}
		_, err := p.Prepare(t.Context(), j)
		if got := size(t, dir); got > limit {
			t.Errorf("the directory has %d bytes, at most %d are allowed", got, limit)
		}
		return j.Hold, err
	}
	serving, err := load(20000)
	if err != nil {
		t.Fatal(err)
	}
	held := files(t, dir)
	for i := range 3 {
		hold, err := load(20001 + i)
		hold.Release()
		if err != nil {
			t.Error(err)
		}
	}
	if _, err := load(60000); !errors.Is(err, quota.ErrFull) {
		t.Errorf("what is larger than all: %v", err)
	}
	for file := range held {
		if _, err := os.Stat(file); err != nil {
			t.Errorf("what serves is gone: %v", err)
		}
	}
	if _, err := os.Stat(left); err == nil {
		t.Error("what a killed manager has left is there")
	}
	serving.Release()
}

// A child for which the disk is full says so, and not that the module is wrong.
func TestAFullDiskIsNoFaultOfTheModule(t *testing.T) {
	p := newParent(t, t.TempDir(), func(o *compile.Options) { o.Command[1] = "full-child" })
	_, err := p.Prepare(t.Context(), job(emptyModule()))
	if !quota.Short(err) || !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("%v, want an error of the room", err)
	}
	if _, err := newParent(t, t.TempDir(), nil).Prepare(t.Context(), job([]byte("no space left on device"))); err == nil || quota.Short(err) {
		t.Errorf("%v: a module that is none", err)
	}
}
