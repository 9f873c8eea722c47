package imports_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"testing"

	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/engine"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/engine/imports"
)

// say writes a text to a file descriptor, as a guest does.
func say(t *testing.T, call *imports.Call, fd uint64, text string) {
	t.Helper()
	data := make([]byte, 64+len(text))
	binary.LittleEndian.PutUint32(data, 64)
	binary.LittleEndian.PutUint32(data[4:], uint32(len(text)))
	copy(data[64:], text)
	for _, f := range imports.Functions() {
		if f.Name != "fd_write" {
			continue
		}
		stack := []uint64{fd, 0, 1, 16}
		if err := f.Run(t.Context(), call, memory{data}, stack); err != nil || stack[0] != 0 {
			t.Fatalf("fd_write: %v, %d", err, stack[0])
		}
	}
}

func said(t *testing.T, call *imports.Call) string {
	t.Helper()
	var crash *engine.Crash
	if err := call.Crash(t.Context(), errors.New("unreachable"), nil); !errors.As(err, &crash) || err.Error() != "the guest trapped: unreachable" {
		t.Fatalf("%v", err)
	}
	return string(crash.Said)
}

// TestTheEndOfWhatWasSaid: of both streams and of this op only, within bounds,
// and nothing where nobody listens.
func TestTheEndOfWhatWasSaid(t *testing.T) {
	guest := imports.NewGuest(engine.ModuleConfig{Stdout: io.Discard, Stderr: io.Discard})
	call := &imports.Call{}
	call.Op(guest, nil)
	say(t, call, 1, "one\n")
	say(t, call, 2, "two\n")
	if got := said(t, call); got != "one\ntwo\n" {
		t.Errorf("%q", got)
	}
	for range 100 {
		say(t, call, 2, string(bytes.Repeat([]byte("x"), 1000)))
	}
	say(t, call, 1, string(bytes.Repeat([]byte("y"), 40<<10))+"end")
	got := said(t, call)
	if len(got) < engine.MaxSaidBytes || len(got) > 2*engine.MaxSaidBytes || got[len(got)-4:] != "yend" {
		t.Errorf("%d bytes that end with %q", len(got), got[len(got)-4:])
	}
	call.End()
	call.Op(guest, nil)
	if got := said(t, call); got != "" {
		t.Errorf("of the op before: %q", got)
	}
	call.Op(imports.NewGuest(engine.ModuleConfig{}), nil)
	say(t, call, 1, "secret")
	say(t, call, 2, "secret")
	if got := said(t, call); got != "" {
		t.Errorf("nobody listens, but %q", got)
	}
}

// TestATimeThatIsOverStaysOne, whatever else is known of it.
func TestATimeThatIsOverStaysOne(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	call := &imports.Call{}
	frames := make([]uint32, 100)
	err := call.Crash(ctx, errors.New("unreachable"), frames)
	var crash *engine.Crash
	if !errors.Is(err, context.Canceled) || !errors.As(err, &crash) || len(crash.Frames) != engine.MaxFrames {
		t.Errorf("%v", err)
	}
}
