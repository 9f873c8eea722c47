package compile

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/wasm-ccm/wasm-ccm/host/internal/quota"
)

// Hold protects machine code in the cache: a restart needs the serving module's. The zero
// value holds nothing. It is safe for concurrent use.
type Hold struct {
	mu      sync.Mutex
	release func()
}

// Release ends the hold. A nil or empty Hold may be released.
func (h *Hold) Release() {
	if h != nil {
		h.take(nil)
	}
}

// take replaces the held machine code.
func (h *Hold) take(release func()) {
	h.mu.Lock()
	before := h.release
	h.release = release
	h.mu.Unlock()
	if before != nil {
		before()
	}
}

// hold protects the machine code under a key until release is called.
func (p *Parent) hold(key string) (release func()) {
	p.accepting.Lock()
	defer p.accepting.Unlock()
	p.held[key]++
	return sync.OnceFunc(func() {
		p.accepting.Lock()
		defer p.accepting.Unlock()
		if p.held[key]--; p.held[key] == 0 {
			delete(p.held, key)
		}
	})
}

func (p *Parent) isHeld(key string) bool { return p.held[key] > 0 }

// Entries are the modules in the cache that nobody holds, and unfinished files of earlier
// managers.
func (p *Parent) Entries() (all []quota.Entry) {
	p.accepting.Lock()
	defer p.accepting.Unlock()
	for _, record := range p.cache.records() {
		if key := keyOf(record); !p.isHeld(key) {
			all = append(all, quota.Entry{Used: record.ModTime(), Remove: func() { p.forgetUnused(key) }})
		}
	}
	left, _ := filepath.Glob(filepath.Join(p.options.CacheDir, stagingPrefix+"*")) // fails only for a bad pattern
	for _, dir := range left {
		if !strings.HasPrefix(filepath.Base(dir), p.staging) {
			all = append(all, quota.Entry{Used: changed(dir), Remove: func() { _ = os.RemoveAll(dir) }})
		}
	}
	return all
}

// changed is a file's modification time; long ago if it is missing.
func changed(file string) time.Time {
	info, err := os.Stat(file)
	if err != nil {
		return time.Time{}
	}
	return info.ModTime()
}

// forgetUnused removes a module unless it is held.
func (p *Parent) forgetUnused(key string) {
	p.accepting.Lock()
	defer p.accepting.Unlock()
	if !p.isHeld(key) {
		p.cache.forget(key)
	}
}

// reserve makes room at a path for a child's files, none larger than the returned limit.
func (p *Parent) reserve(path string, l Limits, files int64) (Limits, func(), error) {
	granted, release := p.options.Quota.Reserve(path, files*int64(l.OutputBytes))
	each := uint64(granted / files)
	switch {
	case each == 0:
		release()
		return Limits{}, nil, quota.ErrFull
	case each < l.OutputBytes:
		l.OutputBytes, l.full = each, true
	}
	return l, release, nil
}
