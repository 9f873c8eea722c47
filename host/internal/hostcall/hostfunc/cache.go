package hostfunc

import (
	"sync"
	"time"

	"k8s.io/utils/clock"
	"k8s.io/utils/lru"

	"github.com/wasm-ccm/wasm-ccm/abi"
)

// Bounds of a cache.
const (
	MaxCacheKeyBytes   = 256
	MaxCacheValueBytes = 1 << 20
	maxCacheEntries    = 4096
	maxCacheBytes      = 16 << 20
	maxCacheTTL        = 24 * time.Hour
	// cacheOverhead is the approximate cost of an entry beside its key and value.
	cacheOverhead = 128
)

// Cache is the shared memory of one provider's instances: at most 4096 entries and 16 MiB;
// the least recently used ones go first. It is safe for concurrent use.
type Cache struct {
	clock clock.PassiveClock

	mu      sync.Mutex
	entries *lru.Cache
	bytes   int
}

type cacheEntry struct {
	value   []byte
	size    int
	expires time.Time
}

// NewCache returns an empty cache.
func NewCache(clock clock.PassiveClock) *Cache {
	c := &Cache{clock: clock}
	c.entries = lru.NewWithEvictionFunc(maxCacheEntries, func(_ lru.Key, value any) {
		c.bytes -= value.(*cacheEntry).size // under c.mu: only put and get remove entries
	})
	return c
}

// get returns the value, which must not be changed.
func (c *Cache) get(key string) ([]byte, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	value, ok := c.entries.Get(key)
	if !ok {
		return nil, false
	}
	entry := value.(*cacheEntry)
	if !c.clock.Now().Before(entry.expires) {
		c.entries.Remove(key)
		return nil, false
	}
	return entry.value, true
}

// put keeps the value's bytes.
func (c *Cache) put(key string, value *abi.CacheValue) error {
	switch {
	case key == "" || len(key) > MaxCacheKeyBytes:
		return invalid("the key has %d bytes, must have from 1 to %d", len(key), MaxCacheKeyBytes)
	case len(value.Value) > MaxCacheValueBytes:
		return tooLarge("the value has %d bytes, the limit is %d", len(value.Value), MaxCacheValueBytes)
	case value.TtlMs < 1:
		return invalid("ttl_ms is %d, must be at least 1", value.TtlMs)
	}
	ttl := maxCacheTTL
	if value.TtlMs < ttl.Milliseconds() {
		ttl = time.Duration(value.TtlMs) * time.Millisecond
	}
	entry := &cacheEntry{value: value.Value, size: len(key) + len(value.Value) + cacheOverhead, expires: c.clock.Now().Add(ttl)}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.entries.Remove(key)
	c.bytes += entry.size
	c.entries.Add(key, entry)
	for c.bytes > maxCacheBytes {
		c.entries.RemoveOldest()
	}
	return nil
}
