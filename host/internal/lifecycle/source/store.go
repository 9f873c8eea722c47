package source

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"
	"weak"

	"github.com/wasm-ccm/wasm-ccm/host/internal/quota"
)

const (
	// largeModule is the size from which a module goes to the Store.
	largeModule = 16 * mebibyte
	// maxStored bounds the files of a Store: the serving module, the tried one, and those for a
	// rollback.
	maxStored = 16

	storedSuffix  = ".wasm"
	storingPrefix = ".storing-"
)

// Store keeps modules too large for memory as files in a directory that only this user may
// write to, each under its digest, also across restarts. The oldest go first, except held
// and open ones. It is safe for concurrent use.
type Store struct {
	dir   string
	quota *quota.Quota
	mu    sync.Mutex
	// held are the held digests by owner.
	held map[string][]string
	// open are the files in use, by digest.
	open map[string]weak.Pointer[File]
}

// NewStore makes the directory, under a shared quota unless that is nil, and removes the
// unfinished files of a killed manager.
func NewStore(dir string, q *quota.Quota) (*Store, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("large modules: %w", err)
	}
	left, err := filepath.Glob(filepath.Join(dir, storingPrefix+"*"))
	if err != nil {
		return nil, fmt.Errorf("large modules: %w", err)
	}
	for _, one := range left {
		if err := os.Remove(one); err != nil {
			return nil, fmt.Errorf("large modules: %w", err)
		}
	}
	s := &Store{dir: dir, quota: q, held: map[string][]string{}, open: map[string]weak.Pointer[File]{}}
	q.Join(s)
	return s, nil
}

// Hold protects modules from removal, in place of those that the owner held before: a
// restart's module may be older than modules tried since.
func (s *Store) Hold(owner string, digests ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held[owner] = digests
}

// Put stores the content, at most that many bytes; more is errTooLarge, or quota.ErrFull.
func (s *Store) Put(r io.Reader, most int64) (_ *File, err error) {
	out, err := os.CreateTemp(s.dir, storingPrefix)
	if err != nil {
		return nil, fmt.Errorf("large modules: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, out.Close(), os.Remove(out.Name()))
		}
	}()
	room, release := s.quota.Reserve(out.Name(), most)
	defer release()
	sum := sha256.New()
	size, err := io.Copy(io.MultiWriter(out, sum), io.LimitReader(r, room+1))
	switch {
	case err != nil:
		return nil, err
	case size > most:
		return nil, errTooLarge
	case size > room:
		return nil, fmt.Errorf("large modules: %w", quota.ErrFull)
	}
	f := &File{file: out, size: size, digest: hex.EncodeToString(sum.Sum(nil))}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := os.Rename(out.Name(), s.path(f.digest)); err != nil {
		return nil, fmt.Errorf("large modules: %w", err)
	}
	s.open[f.digest] = weak.Make(f)
	return f, s.prune()
}

func (s *Store) path(digest string) string { return filepath.Join(s.dir, digest+storedSuffix) }

// Open returns a stored module by the hexadecimal digits of its SHA-256. The error is
// fs.ErrNotExist if it is missing; a file with another digest is removed, and an error.
func (s *Store) Open(digest string) (_ *File, err error) {
	if raw, err := hex.DecodeString(digest); err != nil || len(raw) != sha256.Size {
		return nil, fmt.Errorf("%q is no digest of a module", digest)
	}
	file, err := os.Open(s.path(digest))
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, file.Close(), os.Remove(s.path(digest)))
		}
	}()
	sum := sha256.New()
	size, err := io.Copy(sum, file)
	if err != nil {
		return nil, err
	}
	if hex.EncodeToString(sum.Sum(nil)) != digest {
		return nil, fmt.Errorf("%s is damaged", file.Name())
	}
	now := time.Now()
	_ = os.Chtimes(s.path(digest), now, now) // at worst it is removed early
	f := &File{file: file, size: size, digest: digest}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open[digest] = weak.Make(f)
	return f, nil
}

// prune removes the oldest files above maxStored, except those in use. The caller holds the
// lock.
func (s *Store) prune() error {
	all, err := s.files()
	if err != nil {
		return fmt.Errorf("large modules: %w", err)
	}
	if len(all) <= maxStored {
		return nil
	}
	runtime.GC() // finds out which files are still in use
	slices.SortFunc(all, func(a, b os.FileInfo) int { return b.ModTime().Compare(a.ModTime()) })
	for _, info := range all[maxStored:] {
		if s.inUse(storedDigest(info)) {
			continue
		}
		if err := os.Remove(filepath.Join(s.dir, info.Name())); err != nil {
			return fmt.Errorf("large modules: %w", err)
		}
	}
	return nil
}

// Entries are the modules neither in use nor held.
func (s *Store) Entries() (entries []quota.Entry) {
	runtime.GC() // finds out which files are still in use; called only when room is short
	s.mu.Lock()
	defer s.mu.Unlock()
	all, _ := s.files() // without a list nothing can be removed
	for _, info := range all {
		if digest := storedDigest(info); !s.inUse(digest) {
			entries = append(entries, quota.Entry{Used: info.ModTime(), Remove: func() { s.removeUnused(digest) }})
		}
	}
	return entries
}

func (s *Store) removeUnused(digest string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.inUse(digest) {
		_ = os.Remove(s.path(digest)) // what stays is still counted
	}
}

// files are the modules. The caller holds the lock.
func (s *Store) files() (all []os.FileInfo, err error) {
	entries, err := os.ReadDir(s.dir)
	for _, e := range entries {
		if info, err := e.Info(); err == nil && strings.HasSuffix(e.Name(), storedSuffix) {
			all = append(all, info)
		}
	}
	return all, err
}

func storedDigest(file os.FileInfo) string { return strings.TrimSuffix(file.Name(), storedSuffix) }

// inUse reports whether a module is held or in use: a removed file would keep its room on
// the disk until its use ends. The caller holds the lock.
func (s *Store) inUse(digest string) bool {
	if open, ok := s.open[digest]; ok && open.Value() == nil {
		delete(s.open, digest)
	}
	return s.open[digest].Value() != nil || slices.Contains(slices.Concat(slices.Collect(maps.Values(s.held))...), digest)
}

// File is a module in a Store. It exists while it is in use, whatever happens to the Store.
// It is safe for concurrent use.
type File struct {
	file   *os.File
	size   int64
	digest string
}

// View calls use with the content, which is mapped until use returns.
func (f *File) view(use func(content []byte) error) error {
	content, unmap, err := mapped(f.file, f.size)
	if err != nil {
		return fmt.Errorf("a large module: %w", err)
	}
	defer runtime.KeepAlive(f)
	defer unmap()
	return use(content)
}

// View calls use with the module, which must not be kept.
func (b Bundle) View(use func(module []byte) error) error {
	if b.File != nil {
		return b.File.view(use)
	}
	return use(b.Module)
}

// HasModule reports whether there is a module.
func (b Bundle) HasModule() bool { return len(b.Module) > 0 || b.File != nil }

// ModuleBytes is the size of the module.
func (b Bundle) ModuleBytes() int64 {
	if b.File != nil {
		return b.File.size
	}
	return int64(len(b.Module))
}

// ModuleDigest returns the lowercase hexadecimal SHA-256 of the module.
func (b Bundle) ModuleDigest() string {
	if b.File != nil {
		return b.File.digest
	}
	sum := sha256.Sum256(b.Module)
	return hex.EncodeToString(sum[:])
}
