package source

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/klauspost/compress/zstd"
)

// poll and settle are in the bubble's time: a test waits for neither.
const (
	testPoll   = 50 * time.Millisecond
	testSettle = 200 * time.Millisecond
)

// published is what a directory without events, as image volumes are, is seen
// to hold while change goes on in it.
func published(t *testing.T, dir string, change func(ctx context.Context)) (modules []string, errs []error) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		d := NewDir(dir, Limits{}, Watching{Poll: testPoll, Settle: testSettle})
		var wg sync.WaitGroup
		look := func() {
			bundle, fresh, err := d.read(t.Context())
			switch {
			case fresh && err != nil:
				errs = append(errs, err)
			case fresh:
				modules = append(modules, string(bundle.Module))
			}
		}
		wg.Go(func() {
			for ctx.Err() == nil {
				look()
				_ = pause(ctx, testPoll)
			}
		})
		change(ctx)
		_ = pause(ctx, 2*testSettle)
		cancel()
		wg.Wait()
		look() // it holds now what it will go on to hold
	})
	return modules, errs
}

// writeSlowly writes a file in place, in pieces, with a pause before each.
func writeSlowly(ctx context.Context, t *testing.T, path string, data []byte, pieces int, wait func() time.Duration) {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	size := max(len(data)/pieces, 1)
	for at := 0; at < len(data) && err == nil; at += size {
		_ = pause(ctx, wait())
		_, err = f.Write(data[at:min(at+size, len(data))])
	}
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
}

func fill(b byte) []byte { return bytes.Repeat([]byte{b}, 4096) }

// onlyWhole fails unless the modules are among the allowed, and the last is
// the last of them.
func onlyWhole(t *testing.T, modules []string, allowed ...[]byte) {
	t.Helper()
	for _, module := range modules {
		whole := false
		for _, a := range allowed {
			whole = whole || module == string(a)
		}
		if !whole {
			t.Fatalf("%d bytes were published, beginning with %.8q", len(module), module)
		}
	}
	if len(modules) == 0 || modules[len(modules)-1] != string(allowed[len(allowed)-1]) {
		t.Errorf("%d modules were published, the last is not the last that was written", len(modules))
	}
}

func TestSlowWriterInPlace(t *testing.T) {
	for _, seed := range []uint64{1, 2, 3, 4, 5, 6, 7, 8} {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 0))
			// Longer than a poll, shorter than what must be quiet; 60 of them
			// are longer than the tries that one look takes.
			wait := func() time.Duration {
				return testPoll + time.Duration(random.Int64N(int64(testSettle-testPoll)-1e6))
			}
			path := filepath.Join(t.TempDir(), "p.wasm")
			modules, _ := published(t, filepath.Dir(path), func(ctx context.Context) {
				for b := byte('a'); b < 'd'; b++ {
					writeSlowly(ctx, t, path, fill(b), 60, wait)
					if b == 'b' {
						_ = pause(ctx, 3*testSettle) // this one is seen
					}
				}
			})
			onlyWhole(t, modules, fill('a'), fill('b'), fill('c'))
			if len(modules) < 2 {
				t.Errorf("%d modules were published, want at least b and c", len(modules))
			}
		})
	}
}

// What is checked by itself need not be quiet: neither compression nor digests
// let through what is not whole.
func TestSlowerWriterOfWhatIsChecked(t *testing.T) {
	module := make([]byte, 4096)
	_, _ = rand.NewChaCha8([32]byte{}).Read(module)
	var gz bytes.Buffer
	z := gzip.NewWriter(&gz)
	_, err := z.Write(module)
	if err := errors.Join(err, z.Close()); err != nil {
		t.Fatal(err)
	}
	zst, err := Packing{Bytes: mebibyte, Parts: 1, Level: zstd.SpeedDefault}.Pack(module)
	if err != nil {
		t.Fatal(err)
	}
	index := []byte(fmt.Sprintf(`{"digest":%q,"parts":[{"configMap":"a","key":"a.part","digest":%[1]q}]}`, digestOf(module)))
	for name, files := range map[string]map[string][]byte{
		"gzip":                 {"p.wasm.gz": gz.Bytes()},
		"zstd":                 {"p.wasm.zst": zst[0]},
		"index after the part": {"a.part": module, "p.wasm.parts": index},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			modules, errs := published(t, dir, func(ctx context.Context) {
				for name, data := range files { // in any order
					writeSlowly(ctx, t, filepath.Join(dir, name), data, 20, func() time.Duration { return 3 * testSettle })
				}
			})
			onlyWhole(t, modules, module)
			if len(errs) == 0 {
				t.Error("the writer was not as slow as the test means it to be")
			}
		})
	}
}

func TestReplacedFiles(t *testing.T) {
	path := filepath.Join(t.TempDir(), "p.wasm")
	modules, _ := published(t, filepath.Dir(path), func(ctx context.Context) {
		hidden := filepath.Join(filepath.Dir(path), ".p.wasm.tmp")
		for b := byte('a'); b < 'd'; b++ {
			writeSlowly(ctx, t, hidden, fill(b), 4, func() time.Duration { return 3 * testSettle })
			if err := os.Rename(hidden, path); err != nil {
				t.Fatal(err)
			}
		}
	})
	onlyWhole(t, modules, fill('a'), fill('b'), fill('c'))
	if len(modules) != 3 {
		t.Errorf("%d modules were published, want all 3", len(modules))
	}
}

func TestDirectoryThatIsRemovedAndMadeAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "dir", "p.wasm")
	modules, errs := published(t, filepath.Dir(path), func(ctx context.Context) {
		for b := byte('a'); b < 'd'; b++ {
			if err := errors.Join(os.RemoveAll(filepath.Dir(path)), os.Mkdir(filepath.Dir(path), 0o700)); err != nil {
				t.Fatal(err)
			}
			writeSlowly(ctx, t, path, fill(b), 10, func() time.Duration { return testSettle - time.Millisecond })
			_ = pause(ctx, 3*testSettle)
			if b == 'b' {
				if err := os.RemoveAll(filepath.Dir(path)); err != nil {
					t.Fatal(err)
				}
				_ = pause(ctx, 3*testSettle)
			}
		}
	})
	onlyWhole(t, modules, fill('a'), fill('b'), fill('c'))
	if len(modules) != 3 || len(errs) == 0 {
		t.Errorf("%d modules and %d errors were published", len(modules), len(errs))
	}
}

// Archives bring times along, and a file system gives a number again: what
// remains is the time of the change itself.
func TestFileOfTheSameSizeAndTimeIsAChange(t *testing.T) {
	path := filepath.Join(t.TempDir(), "p.wasm")
	when := time.Unix(0, 0)
	modules, _ := published(t, filepath.Dir(path), func(ctx context.Context) {
		for b := byte('a'); b < 'c'; b++ {
			if err := errors.Join(os.WriteFile(path, fill(b), 0o600), os.Chtimes(path, when, when)); err != nil {
				t.Fatal(err)
			}
			_ = pause(ctx, 3*testSettle)
		}
	})
	onlyWhole(t, modules, fill('a'), fill('b'))
	if len(modules) != 2 {
		t.Errorf("%d modules were published, want 2", len(modules))
	}
}
