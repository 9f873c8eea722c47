package enginetest

import (
	"context"
	"encoding/binary"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/engine"
)

// The errno of WASI preview 1 that testdata/wat/wasi.wat expects.
const (
	wasiSuccess = 0
	wasiBadf    = 8
	wasiFault   = 21
	wasiInval   = 28
	wasiNosys   = 52
)

const opLongSleep = 7

// longest records the largest single write.
type longest struct{ bytes int }

func (l *longest) Write(p []byte) (int, error) {
	l.bytes = max(l.bytes, len(p))
	return len(p), nil
}

// wasi checks that the guest cannot make a function take unbounded time or memory, and that
// there are no files, sockets or environment.
func (s *suite) wasi(t *testing.T) {
	out := &longest{}
	i := instantiate(t, s.module(t, "wasi.wasm", engine.ModuleConfig{Stdout: out}))
	for op, want := range map[abi.Op]uint32{
		1: wasiInval, 2: wasiSuccess, 3: wasiBadf, 4: wasiFault, 5: wasiFault, // fd_write
		6: wasiNosys,                               // fd_renumber
		8: wasiSuccess, 9: wasiBadf, 10: wasiInval, // poll_oneoff
		11: wasiSuccess, 12: wasiInval, 13: wasiFault, // random_get
		14: wasiBadf, 15: wasiNosys, 16: wasiBadf, 17: wasiBadf, // files and sockets
		18: 0, // environment
		19: 0, // clock
	} {
		got, err := i.Call(t.Context(), op, nil)
		if err != nil {
			t.Fatalf("op %d: %v", op, err)
		}
		if errno := binary.LittleEndian.Uint32(got.Response); errno != want {
			t.Errorf("op %d: errno %d, want %d", op, errno, want)
		}
	}
	if out.bytes == 0 || out.bytes > 64<<10 {
		t.Errorf("%d bytes were written at once", out.bytes)
	}
	if _, err := i.Call(t.Context(), 20, nil); err == nil || !strings.Contains(err.Error(), "exited with status 0") {
		t.Errorf("a guest that exits without an error: %v", err)
	}
}

func (s *suite) wasiSleep(t *testing.T) {
	i := instantiate(t, s.module(t, "wasi.wasm", engine.ModuleConfig{}))
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := i.Call(ctx, opLongSleep, nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v, want the deadline's", err)
	}
}
