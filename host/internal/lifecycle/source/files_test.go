package source

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// writtenWhileLookedAt returns a find function for settled to which the file
// grows for so many times that it is looked at.
func writtenWhileLookedAt(t *testing.T, path string, times int) func() (snapshot, error) {
	return func() (snapshot, error) {
		if times > 0 {
			times--
			f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
			if err != nil {
				t.Fatal(err)
			}
			_, err = f.WriteString("x")
			if err := errors.Join(err, f.Close()); err != nil {
				t.Fatal(err)
			}
		}
		return look([]string{path})
	}
}

func TestFileThatIsBeingWrittenIsWaitedFor(t *testing.T) {
	path := filepath.Join(t.TempDir(), "p.wasm")
	got, err := settled(t.Context(), time.Millisecond, writtenWhileLookedAt(t, path, 10))
	if err != nil || got[path].Size() != 10 {
		t.Errorf("%v, %v, want 10 bytes", got, err)
	}
}

func TestFileThatNeverSettlesIsAnError(t *testing.T) {
	path := filepath.Join(t.TempDir(), "p.wasm")
	if _, err := settled(t.Context(), time.Millisecond, writtenWhileLookedAt(t, path, 1000)); !errors.Is(err, errChanged) {
		t.Errorf("%v, want %v", err, errChanged)
	}
}

func TestReplacedFileIsAChange(t *testing.T) {
	dir := t.TempDir()
	a, b := filepath.Join(dir, "a"), filepath.Join(dir, "b")
	when := time.Unix(1e9, 0)
	for _, path := range []string{a, b} {
		if err := errors.Join(os.WriteFile(path, []byte("same"), 0o600), os.Chtimes(path, when, when)); err != nil {
			t.Fatal(err)
		}
	}
	before, err1 := look([]string{a})
	err2 := os.Rename(b, a)
	after, err3 := look([]string{a})
	if err := errors.Join(err1, err2, err3); err != nil {
		t.Fatal(err)
	}
	if before.equal(after) {
		t.Error("another file with the same size and time is not seen as a change")
	}
}
