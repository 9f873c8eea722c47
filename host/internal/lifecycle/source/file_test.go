package source_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/source"
)

type fileContent struct {
	data []byte
	err  error
}

func TestWatchFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config.yaml")
	write := func(text string) {
		t.Helper()
		next := path + ".next"
		if err := os.WriteFile(next, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(next, path); err != nil {
			t.Fatal(err)
		}
	}
	write("one")
	ctx, cancel := context.WithCancel(t.Context())
	contents, done := make(chan fileContent, 10), make(chan struct{})
	go func() {
		defer close(done)
		watching := source.Watching{Poll: 10 * time.Millisecond, Settle: time.Millisecond}
		source.WatchFile(ctx, path, 8, watching, []byte("one"), func(data []byte, err error) { contents <- fileContent{data, err} })
	}()
	next := func() fileContent {
		t.Helper()
		select {
		case c := <-contents:
			return c
		case <-time.After(20 * time.Second):
			t.Fatal("nothing was handed over")
			return fileContent{}
		}
	}
	write("two")
	if c := next(); c.err != nil || string(c.data) != "two" {
		t.Errorf("after a change: %q, %v", c.data, c.err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if c := next(); c.err == nil {
		t.Errorf("without the file: %q", c.data)
	}
	write("much too long")
	if c := next(); c.err == nil || !strings.Contains(c.err.Error(), "larger than 8 bytes") {
		t.Errorf("too long: %v", c.err)
	}
	write("two")
	if c := next(); c.err != nil || string(c.data) != "two" {
		t.Errorf("back again: %q, %v", c.data, c.err)
	}
	cancel()
	<-done
	if len(contents) > 0 {
		t.Errorf("handed over more: %v", <-contents)
	}
}
