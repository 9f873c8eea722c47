package sdk

import (
	"time"

	"github.com/wasm-ccm/wasm-ccm/abi"
)

// Cache is shared by the instances of one generation of the provider in one manager.
// A value may vanish at any time: never keep the only copy of anything in it.
type Cache struct{ op *Op }

// Cache needs the capability cache.
func (op *Op) Cache() Cache { return Cache{op} }

// Get returns the value of a key, and whether it exists.
func (c Cache) Get(key string) (value []byte, found bool, err error) {
	var resp abi.CacheResponse
	err = c.op.call(abi.CapabilityCache, importCache, &abi.CacheRequest{Key: key}, &resp)
	return resp.Value, resp.Found, err
}

// Put keeps a value for at most ttl, which is rounded up to milliseconds.
func (c Cache) Put(key string, value []byte, ttl time.Duration) error {
	ms := max(int64((ttl+time.Millisecond-1)/time.Millisecond), 1)
	req := abi.CacheRequest{Key: key, Put: &abi.CacheValue{Value: value, TtlMs: ms}}
	return c.op.call(abi.CapabilityCache, importCache, &req, nil)
}
