// Package quota keeps the caches of one directory below one size together. A Pod
// whose volume grows over its limit is evicted, whichever cache has grown.
package quota

import (
	"errors"
	"io/fs"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"
)

// Cache is what has files in the directory.
type Cache interface {
	// Entries are those that may go. Nothing is among them that is in use.
	Entries() []Entry
}

// Entry is what goes as a whole.
type Entry struct {
	// Used is when it was used last.
	Used time.Time
	// Remove removes it, unless it has come into use since. What stays counts on.
	Remove func()
}

// Quota is the size of a directory. Nil is one without a bound. It is safe for
// concurrent use.
type Quota struct {
	dir   string
	limit int64

	mu     sync.Mutex
	caches []Cache
	// reserved are bytes by the path that they are for.
	reserved map[string]int64
}

// New returns the quota of a directory, which need not exist yet, in bytes.
func New(dir string, limit int64) *Quota {
	// Directories and the ends of blocks count on the disk.
	const overhead = 4 << 20
	return &Quota{dir: dir, limit: max(limit-overhead, 0), reserved: map[string]int64{}}
}

// Join lets a cache have its part of the directory.
func (q *Quota) Join(c Cache) {
	if q == nil {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.caches = append(q.caches, c)
}

// Reserve makes room for a number of bytes at a path below the directory. What was
// used least recently goes, of all caches. It returns how many of them there is
// room for beside what is in use. Until release is called, what lies at the path
// counts with this number; after it, with its size.
func (q *Quota) Reserve(path string, bytes int64) (granted int64, release func()) {
	if q == nil {
		return bytes, func() {}
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	granted = min(bytes, q.clear(bytes))
	q.reserved[path] += granted
	return granted, sync.OnceFunc(func() { q.release(path, granted) })
}

func (q *Quota) release(path string, bytes int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.reserved[path] -= bytes; q.reserved[path] <= 0 {
		delete(q.reserved, path)
	}
}

// clear removes entries until a number of bytes is free, and returns how many are.
// It is called with the lock.
func (q *Quota) clear(bytes int64) (free int64) {
	free = q.limit - q.used()
	if free >= bytes {
		return free
	}
	var all []Entry
	for _, c := range q.caches {
		all = append(all, c.Entries()...)
	}
	slices.SortFunc(all, func(a, b Entry) int { return a.Used.Compare(b.Used) })
	for _, e := range all {
		if free = q.limit - q.used(); free >= bytes {
			break
		}
		e.Remove()
	}
	return max(q.limit-q.used(), 0)
}

// used is what lies in the directory, and what is reserved of it.
func (q *Quota) used() (sum int64) {
	for _, bytes := range q.reserved {
		sum += bytes
	}
	// Others come and go meanwhile: what is not there has no size.
	_ = filepath.WalkDir(q.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return nil
		}
		if _, counted := q.reserved[path]; counted {
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		if info, err := d.Info(); err == nil && info.Mode().IsRegular() {
			sum += info.Size()
		}
		return nil
	})
	return sum
}

// Short reports whether an error is of room alone, be it of the quota or of the disk:
// what failed by it is right to try again.
func Short(err error) bool {
	return errors.Is(err, ErrFull) || errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

// ErrFull is of what finds no room beside what is in use.
var ErrFull = errors.New("the directory of compiled modules is full of what is in use; raise --provider-compilation-cache-size (the chart: cache.sizeLimit)")
