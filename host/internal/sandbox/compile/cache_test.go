package compile

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// accepted puts a module into the cache that has one file, and its outline.
func accepted(t *testing.T, c cache, key, file string) {
	t.Helper()
	staging := t.TempDir()
	if err := os.Mkdir(filepath.Join(staging, outlines), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(staging, outline(key)), []byte("outline"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(staging, file), []byte("code of "+file), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := c.accept(key, staging); err != nil {
		t.Fatal(err)
	}
	c.prune(func(held string) bool { return held == key })
}

// aged makes the record older, or newer with a time in the future.
func aged(t *testing.T, c cache, key string, by time.Duration) {
	t.Helper()
	at := time.Now().Add(-by)
	if err := os.Chtimes(c.recordFile(key), at, at); err != nil {
		t.Fatal(err)
	}
}

// Another version of the manager has compiled the same module into the same
// file. The older record goes, the file stays.
func TestAFileOfTwoRecordsStays(t *testing.T) {
	c := cache{dir: t.TempDir()}
	accepted(t, c, "old", "shared")
	aged(t, c, "old", time.Hour)
	for n := range maxRecords - 1 {
		accepted(t, c, fmt.Sprint("other", n), fmt.Sprint("file", n))
	}
	accepted(t, c, "new", "shared")
	if _, err := os.Stat(c.recordFile("old")); err == nil {
		t.Error("the oldest record is there")
	}
	if !c.has("new") {
		t.Error("what was just accepted is gone")
	}
}

// A clock that was ahead has left records of the future.
func TestWhatWasJustAcceptedStays(t *testing.T) {
	c := cache{dir: t.TempDir()}
	for n := range maxRecords {
		key := fmt.Sprint("ahead", n)
		accepted(t, c, key, key)
		aged(t, c, key, -time.Duration(n+1)*time.Hour)
	}
	accepted(t, c, "new", "new")
	if !c.has("new") {
		t.Error("what was just accepted is gone")
	}
}

// What is used is not the oldest, however long ago it was compiled.
func TestWhatIsUsedStays(t *testing.T) {
	c := cache{dir: t.TempDir()}
	accepted(t, c, "serving", "serving")
	aged(t, c, "serving", 24*time.Hour)
	for n := range maxRecords + 2 {
		if !c.has("serving") { // as after a restart
			t.Fatalf("it is gone after %d others", n)
		}
		accepted(t, c, fmt.Sprint("other", n), fmt.Sprint("file", n))
		aged(t, c, fmt.Sprint("other", n), time.Minute)
	}
}
