package credential

import (
	"bytes"
	"errors"
	"runtime"
	"testing"

	"k8s.io/utils/clock"

	"github.com/wasm-ccm/wasm-ccm/abi"
)

// A cloud that repeats what it is sent can have a short value, as the name of a
// user, stand in an answer more than a million times. Several of those at once
// must not fill the manager.
func TestValuesThatStandEverywhereFillNothing(t *testing.T) {
	s := NewScrubber(clock.RealClock{})
	s.hold(owner{}, "a-credential-with-quite-a-long-name", []byte("admin"))
	data := bytes.Repeat([]byte("admin "), 8<<20/6)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := s.ScrubContext(t.Context(), data)
	runtime.ReadMemStats(&after)
	var e *abi.Error
	if !errors.As(err, &e) || e.Code != abi.CodeTooLarge {
		t.Errorf("error %v", err)
	}
	if n := after.TotalAlloc - before.TotalAlloc; n > 64<<20 {
		t.Errorf("%d bytes allocated", n)
	}
	if out, err := s.ScrubContext(t.Context(), data[:1<<10]); err != nil || bytes.Contains(out, []byte("admin")) {
		t.Errorf("%q, %v", out, err)
	}
	if bytes.Contains(s.Scrub(data), []byte("admin")) {
		t.Error("a value is left")
	}
}
