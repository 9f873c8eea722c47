package source_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
	corev1 "k8s.io/api/core/v1"

	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/source"
	"github.com/wasm-ccm/wasm-ccm/host/internal/quota"
)

func newStore(t *testing.T) (*source.Store, string) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "modules")
	s, err := source.NewStore(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	return s, dir
}

// largeNoise is a module that is too large for memory, and no smaller compressed.
func largeNoise() []byte {
	noise := make([]byte, 20<<20)
	r := rand.New(rand.NewPCG(1, 2))
	for i := range noise {
		noise[i] = byte(r.Uint32())
	}
	return noise
}

// viewed is a copy of a bundle's module.
func viewed(t *testing.T, b source.Bundle) (all []byte) {
	t.Helper()
	if err := b.View(func(module []byte) error { all = bytes.Clone(module); return nil }); err != nil {
		t.Fatal(err)
	}
	return all
}

// With a store, a large module is in no memory of the process, however it comes.
func TestLargeModulesAreHeldInFiles(t *testing.T) {
	noise := largeNoise()
	compressed := packed(t, noise)
	join := func(key string, data []byte, s *source.Store) (source.Bundle, error) {
		return source.Join(&corev1.ConfigMap{BinaryData: map[string][]byte{key: data}}, nil, source.Limits{MaxModule: 64 << 20, MaxCompressed: 64 << 20, Store: s})
	}
	for name, test := range map[string]func(*testing.T, *source.Store) (source.Bundle, error){
		"gzip": func(_ *testing.T, s *source.Store) (source.Bundle, error) {
			return join("a.wasm.gz", gzipped(t, noise), s)
		},
		"zstd": func(_ *testing.T, s *source.Store) (source.Bundle, error) { return join("a.wasm.zst", compressed, s) },
		"zstd of a pipe, which says no size": func(t *testing.T, s *source.Store) (source.Bundle, error) {
			return join("a.wasm.zst", piped(t, noise), s)
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, _ := newStore(t)
			bundle, err := test(t, s)
			if err != nil {
				t.Fatal(err)
			}
			checkLarge(t, bundle, noise)
			held, err := join("a.wasm.zst", compressed, nil)
			if err != nil || held.Revision != bundle.Revision || held.ModuleDigest() != bundle.ModuleDigest() {
				t.Errorf("in memory it is revision %s of digest %s, in a file %s of %s: %v", held.Revision, held.ModuleDigest(), bundle.Revision, bundle.ModuleDigest(), err)
			}
		})
	}
}

// piped compresses as zstd does what it reads from a pipe.
func piped(t *testing.T, data []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	z, err := zstd.NewWriter(&out, zstd.WithEncoderLevel(zstd.SpeedFastest))
	if err == nil {
		_, err = io.Copy(z, bytes.NewReader(data))
	}
	if err == nil {
		err = z.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func checkLarge(t *testing.T, bundle source.Bundle, want []byte) {
	t.Helper()
	sum := sha256.Sum256(want)
	if bundle.Module != nil || bundle.File == nil || bundle.ModuleBytes() != int64(len(want)) || bundle.ModuleDigest() != hex.EncodeToString(sum[:]) {
		t.Errorf("%d bytes are held in memory, %d in all, with the digest %s", len(bundle.Module), bundle.ModuleBytes(), bundle.ModuleDigest())
	}
	if !bytes.Equal(viewed(t, bundle), want) {
		t.Error("it is another module")
	}
}

// A file of a directory goes into the store as it is, without being read into
// memory.
func TestALargeFileOfADirectoryIsNotHeld(t *testing.T) {
	noise := largeNoise()
	s, _ := newStore(t)
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "provider.wasm"), noise, 0o600); err != nil {
		t.Fatal(err)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	offers := run(t, source.NewDir(dir, source.Limits{MaxModule: 64 << 20, Store: s}, polled))
	got := next(t, offers)
	runtime.ReadMemStats(&after)
	if got.err != nil {
		t.Fatal(got.err)
	}
	if taken := after.TotalAlloc - before.TotalAlloc; taken > 4<<20 {
		t.Errorf("%d bytes are allocated", taken)
	}
	checkLarge(t, got.bundle, noise)
	small := next(t, run(t, source.NewDir(dir, source.Limits{MaxModule: 18 << 20, Store: s}, polled)))
	checkError(t, small.err, source.ReasonModuleTooLarge, "more than 18874368 bytes")
}

// The store has a module after a restart, unless somebody has damaged it.
func TestStoredModulesAreThereAfterARestart(t *testing.T) {
	s, dir := newStore(t)
	put, err := s.Put(bytes.NewReader([]byte("module")), 100)
	if err != nil {
		t.Fatal(err)
	}
	digest := source.Bundle{File: put}.ModuleDigest()
	if err := os.WriteFile(filepath.Join(dir, ".storing-1"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	again, err := source.NewStore(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	f, err := again.Open(digest)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, digest+".wasm"), []byte("mischief"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := again.Open(digest); err == nil {
		t.Error("a damaged module is opened")
	}
	if left, _ := os.ReadDir(dir); len(left) > 0 {
		t.Errorf("left are %v", left)
	}
	if _, err := again.Open(digest); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a module that is not there: %v", err)
	}
	if _, err := again.Open("../" + digest); err == nil {
		t.Error("what is no digest is opened")
	}
	if got := (source.Bundle{File: f}).ModuleBytes(); got != 6 {
		t.Errorf("it has %d bytes", got)
	}
}

// What is held stays, however much is tried after it, until another one is held.
func TestWhatIsHeldStays(t *testing.T) {
	s, dir := newStore(t)
	at := time.Now().Add(-time.Hour)
	put := func(content string) string {
		f, err := s.Put(strings.NewReader(content), 100)
		if err != nil {
			t.Fatal(err)
		}
		digest := source.Bundle{File: f}.ModuleDigest()
		at = at.Add(time.Second)
		if err := os.Chtimes(filepath.Join(dir, digest+".wasm"), at, at); err != nil {
			t.Fatal(err)
		}
		return digest
	}
	first, second := put("kept"), put("kept next")
	s.Hold("provider", first)
	for i := range 20 {
		put(strconv.Itoa(i))
	}
	there := func(digest string) bool {
		_, err := os.Stat(filepath.Join(dir, digest+".wasm"))
		return err == nil
	}
	if !there(first) {
		t.Error("what is held is gone")
	}
	if there(second) {
		t.Error("what nobody holds is there")
	}
	s.Hold("provider", put("kept next"))
	for i := range 20 {
		put("more " + strconv.Itoa(i))
	}
	if there(first) || !there(second) {
		t.Error("what is not held any more is there")
	}
}

// The oldest modules go, but none that somebody has.
func TestAStoreIsBounded(t *testing.T) {
	s, dir := newStore(t)
	var first *source.File
	for i := range 20 {
		f, err := s.Put(bytes.NewReader([]byte{byte(i)}), 100)
		if err != nil {
			t.Fatal(err)
		}
		if first == nil {
			first = f
		}
		at := time.Now().Add(time.Duration(i-60) * time.Minute)
		if err := os.Chtimes(filepath.Join(dir, (source.Bundle{File: f}).ModuleDigest()+".wasm"), at, at); err != nil {
			t.Fatal(err)
		}
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 16+1 {
		t.Errorf("%d modules are left: %v", len(left), err)
	}
	if _, err := s.Open(source.Bundle{File: first}.ModuleDigest()); err != nil {
		t.Errorf("what somebody has is gone: %v", err)
	}
	if got := viewed(t, source.Bundle{File: first}); !bytes.Equal(got, []byte{0}) {
		t.Errorf("the first is %v", got)
	}
}

// What finds no room beside what is in use is an error, and leaves nothing.
func TestAStoreKeepsItsQuota(t *testing.T) {
	dir := t.TempDir()
	s, err := source.NewStore(filepath.Join(dir, "modules"), quota.New(dir, 14<<20))
	if err != nil {
		t.Fatal(err)
	}
	put := func(content byte, bytes int64) (source.Bundle, error) {
		f, err := s.Put(io.LimitReader(same(content), bytes), 6<<20)
		return source.Bundle{File: f}, err
	}
	serving, err := put('s', 5<<20)
	if err != nil {
		t.Fatal(err)
	}
	for content := range byte(5) { // each pushes out the one before
		if _, err := put(content, 4<<20); err != nil {
			t.Errorf("the module %d: %v", content, err)
		}
	}
	if _, err := put('l', 6<<20); !errors.Is(err, quota.ErrFull) {
		t.Errorf("what is too large for the room: %v", err)
	}
	if _, err := s.Open(serving.ModuleDigest()); err != nil {
		t.Errorf("what serves is gone: %v", err)
	}
	if left, err := os.ReadDir(filepath.Join(dir, "modules")); err != nil || len(left) > 2 {
		t.Errorf("left are %v: %v", left, err)
	}
	runtime.KeepAlive(serving)
}

// same reads as the same byte for ever.
type same byte

func (b same) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = byte(b)
	}
	return len(p), nil
}
