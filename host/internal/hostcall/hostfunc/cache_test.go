package hostfunc_test

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/host/internal/hostcall/hostfunc"
)

func cachePut(t *testing.T, h *hostfunc.Host, key string, value []byte, ttl time.Duration) error {
	t.Helper()
	return call(t.Context(), t, h, abi.CapabilityCache, &abi.CacheRequest{Key: key, Put: &abi.CacheValue{Value: value, TtlMs: ttl.Milliseconds()}}, &abi.CacheResponse{})
}

func cacheGet(t *testing.T, h *hostfunc.Host, key string) (string, bool) {
	t.Helper()
	var got abi.CacheResponse
	if err := call(t.Context(), t, h, abi.CapabilityCache, &abi.CacheRequest{Key: key}, &got); err != nil {
		t.Fatal(err)
	}
	return string(got.Value), got.Found
}

func newCacheHost(t *testing.T) (*hostfunc.Host, *clocktesting.FakePassiveClock) {
	clock := clocktesting.NewFakePassiveClock(time.Unix(1e9, 0))
	options := granted(t)
	options.Cache = hostfunc.NewCache(clock)
	return hostfunc.New(options), clock
}

func TestCacheLifetime(t *testing.T) {
	h, clock := newCacheHost(t)
	start := clock.Now()
	for key, ttl := range map[string]time.Duration{"a": time.Second, "long": time.Duration(math.MaxInt64)} {
		if err := cachePut(t, h, key, []byte("1"), ttl); err != nil {
			t.Fatal(err)
		}
	}
	clock.SetTime(start.Add(time.Second - 1))
	if got, ok := cacheGet(t, h, "a"); !ok || got != "1" {
		t.Errorf("before its end: %q, %v", got, ok)
	}
	if err := cachePut(t, h, "b", nil, time.Second); err != nil {
		t.Fatal(err)
	}
	if got, ok := cacheGet(t, h, "b"); !ok || got != "" {
		t.Errorf("an empty value: %q, %v", got, ok)
	}
	clock.SetTime(start.Add(time.Second))
	if got, ok := cacheGet(t, h, "a"); ok {
		t.Errorf("after its end: %q", got)
	}
	clock.SetTime(start.Add(25 * time.Hour))
	if _, ok := cacheGet(t, h, "long"); ok {
		t.Error("a value lived for more than a day")
	}
}

func TestCacheRefuses(t *testing.T) {
	h, _ := newCacheHost(t)
	want(t, cachePut(t, h, "", nil, time.Second), abi.CodeInvalid, "key")
	want(t, cachePut(t, h, strings.Repeat("k", 257), nil, time.Second), abi.CodeInvalid, "key")
	want(t, cachePut(t, h, "k", nil, 0), abi.CodeInvalid, "ttl_ms")
	want(t, cachePut(t, h, "k", nil, -time.Second), abi.CodeInvalid, "ttl_ms")
	want(t, cachePut(t, h, "k", make([]byte, 1<<20+1), time.Second), abi.CodeTooLarge, "limit")
}

func TestCacheIsBounded(t *testing.T) {
	for name, test := range map[string]struct{ entries, size, kept int }{
		"by bytes":   {40, 1 << 20, 15},
		"by entries": {5000, 1, 4096},
	} {
		t.Run(name, func(t *testing.T) {
			h, _ := newCacheHost(t)
			value := make([]byte, test.size)
			for i := range test.entries {
				// Twice: replacing must not count twice.
				for range 2 {
					if err := cachePut(t, h, fmt.Sprint(i), value, time.Hour); err != nil {
						t.Fatal(err)
					}
				}
				cacheGet(t, h, "0") // stays in use, so it is kept
			}
			kept := 0
			for i := range test.entries {
				if _, ok := cacheGet(t, h, fmt.Sprint(i)); ok {
					kept++
				}
			}
			if _, ok := cacheGet(t, h, "0"); !ok || kept != test.kept {
				t.Errorf("%d entries are left, want %d; the one in use is there: %v", kept, test.kept, ok)
			}
		})
	}
}
