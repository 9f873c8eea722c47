package enginetest

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/binary"
	"errors"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/engine"
)

//go:embed testdata/arguments.wasm
var argumentsWasm []byte

// The ops of testdata/arguments.wat.
const (
	opArguments abi.Op = iota + 1
	opAnswerAndTrap
	opDeep
	opGrowAfter
	opLoop
	opTrapHow
	opExitAfter
)

// arguments is testdata/arguments.wat, metered.
func arguments(tb testing.TB) []byte {
	tb.Helper()
	return metered(tb, argumentsWasm)
}

func words(words ...uint32) []byte {
	var request []byte
	for _, word := range append(words, make([]uint32, 5)...)[:5] {
		request = binary.LittleEndian.AppendUint32(request, word)
	}
	return request
}

// argumentsTest calls an import with arguments outside of the guest's buffers.
type argumentsTest struct {
	name string
	// which import, and its arguments.
	words []uint32
	// err is a part of the error that ends the guest; if "", errno is the import's result.
	err   string
	errno uint32
}

func argumentsTests() []argumentsTest {
	const outside, most = "outside of its memory", 0xffffffff
	return []argumentsTest{
		{"req_read overflow", []uint32{0, 0, most, 2}, outside, 0},
		{"req_read of everything", []uint32{0, 0, 0, most}, outside, 0},
		{"req_read across the end", []uint32{0, 0, 0xffff, 2}, outside, 0},
		{"req_read at the end, of nothing", []uint32{0, 0, 0x10000, 0}, "", 0},
		{"req_read from beyond", []uint32{0, most, 0, 16}, "", 0},
		{"resp_write overflow", []uint32{1, most, 1}, outside, 0},
		{"resp_write too large", []uint32{1, 0, most}, "at most", 0},
		{"resp_write halves", []uint32{1, 0x80000000, 0x80000000}, "at most", 0},
		{"err_write overflow", []uint32{2, most, 1}, outside, 0},
		{"err_write too large", []uint32{2, 0, 0x10000}, "at most", 0},
		{"result_read overflow", []uint32{3, 0, most - 1, most}, outside, 0},
		{"result_read from beyond", []uint32{3, most, 0, 16}, "", 0},
		{"log overflow", []uint32{4, most, 1}, outside, 0},
		{"log too large", []uint32{4, 0, most}, "at most", 0},
		{"cache overflow", []uint32{5, most, 4}, outside, 0},
		{"cache of everything", []uint32{5, 0, most}, "at most", 0},
		{"cache of nothing", []uint32{5, 0, 0}, "", 0},
		{"fd_write, result outside", []uint32{6, 1, 0, 0, most}, "", wasiFault},
		{"fd_write, list overflow", []uint32{6, 1, most - 3, 1, 0}, "", wasiFault},
		{"fd_write, too many", []uint32{6, 1, 0, 0x20000001, 0}, "", wasiInval},
		{"random_get overflow", []uint32{7, most, 16}, "", wasiFault},
		{"random_get too large", []uint32{7, 0, most}, "", wasiInval},
		{"args_get, list outside", []uint32{8, most, 0}, "", wasiFault},
		{"args_get, text outside", []uint32{8, 0, 0xffff}, "", wasiFault},
		{"args_sizes_get outside", []uint32{9, 0, 0xfffd}, "", wasiFault},
		{"environ_sizes_get outside", []uint32{10, most, 0}, "", wasiFault},
		{"clock_time_get outside", []uint32{11, 1, 0xfff9}, "", wasiFault},
		{"clock_time_get of no clock", []uint32{11, 2, 0}, "", wasiInval},
		{"clock_res_get outside", []uint32{12, 0, most}, "", wasiFault},
		{"clock_res_get of no clock", []uint32{12, 3, 0}, "", wasiInval},
		{"fd_fdstat_get outside", []uint32{13, 1, 0xffff}, "", wasiFault},
		{"poll_oneoff, list overflow", []uint32{14, most - 1, 0, 1, 0}, "", wasiFault},
		{"poll_oneoff of none", []uint32{14, 0, 0, 0, 0}, "", wasiInval},
		{"poll_oneoff, events outside", []uint32{14, 0x8000, most - 8, 1, 0}, "", wasiFault},
	}
}

func (s *suite) arguments(t *testing.T) {
	m := s.compile(t, arguments(t), engine.ModuleConfig{Host: host(func(_ context.Context, _ string, _ []byte) (abi.Code, []byte) {
		return abi.CodeOK, nil
	})})
	for _, test := range argumentsTests() {
		t.Run(test.name, func(t *testing.T) {
			got, err := instantiate(t, m).Call(t.Context(), opArguments, words(test.words...))
			if test.err != "" {
				if err == nil || !strings.Contains(err.Error(), "broke the calling convention") || !strings.Contains(err.Error(), test.err) {
					t.Fatalf("error %v, want one with %q", err, test.err)
				}
				return
			}
			if err != nil || len(got.Response) != 4 {
				t.Fatalf("answer %v, error %v", got, err)
			}
			if errno := binary.LittleEndian.Uint32(got.Response); errno != test.errno {
				t.Errorf("the import returned %d, want %d", errno, test.errno)
			}
		})
	}
}

func (s *suite) traps(t *testing.T) {
	m := s.compile(t, arguments(t), engine.ModuleConfig{})
	for how, want := range map[uint32]string{
		0: "unreachable",
		1: "out of bounds memory access", 2: "out of bounds memory access", 3: "out of bounds memory access",
		4: "invalid table access", 5: "invalid table access", 6: "indirect call type mismatch",
		7: "integer divide by zero", 8: "integer overflow",
		9: "invalid conversion to integer", 10: "integer overflow",
	} {
		_, err := instantiate(t, m).Call(t.Context(), opTrapHow, words(how))
		if want = "the guest trapped: wasm error: " + want; err == nil || err.Error() != want {
			t.Errorf("trap %d: error %v, want %q", how, err, want)
		}
	}
	_, err := instantiate(t, m).Call(t.Context(), opExitAfter, words(7))
	if want := "the guest exited with status 7"; err == nil || err.Error() != want {
		t.Errorf("error %v, want %q", err, want)
	}
}

func (s *suite) answerAndTrap(t *testing.T) {
	i := instantiate(t, s.compile(t, arguments(t), engine.ModuleConfig{}))
	got, err := i.Call(t.Context(), opAnswerAndTrap, words())
	if err == nil || got.Response != nil || got.Code != 0 || got.Fuel != 0 {
		t.Errorf("answer %+v, error %v", got, err)
	}
	if _, err := i.Call(t.Context(), opTrapHow, words()); err == nil || !strings.Contains(err.Error(), "failed before") {
		t.Errorf("the failed instance answers: %v", err)
	}
}

// growAfterHostCall grows the memory, which moves it, between a host call and the reading of
// its result.
func (s *suite) growAfterHostCall(t *testing.T) {
	var heard []byte
	i := instantiate(t, s.compile(t, arguments(t), engine.ModuleConfig{Host: host(
		func(_ context.Context, _ string, request []byte) (abi.Code, []byte) {
			heard = request
			return abi.CodeOK, []byte("result")
		})}))
	got, err := i.Call(t.Context(), opGrowAfter, []byte("last"))
	if err != nil || string(got.Response) != "result" {
		t.Errorf("answer %q, error %v", got.Response, err)
	}
	if string(heard) != "last" {
		t.Errorf("the host heard %q", heard)
	}
	if i.MemoryBytes() != 5*64<<10 {
		t.Errorf("MemoryBytes() = %d", i.MemoryBytes())
	}
}

// loopFuel checks the consumption of a loop of known length: a turn has about ten
// instructions.
func (s *suite) loopFuel(t *testing.T) {
	i := instantiate(t, s.compile(t, arguments(t), engine.ModuleConfig{}))
	const turns = 10_000_000
	got, err := i.Call(t.Context(), opLoop, words(turns))
	if err != nil {
		t.Fatal(err)
	}
	if got.Fuel < 8*turns || got.Fuel > 16*turns || got.Fuel%engine.Tank != 0 {
		t.Errorf("%d turns used %d fuel", turns, got.Fuel)
	}
	if want := loopSum(turns); binary.LittleEndian.Uint32(got.Response) != want {
		t.Errorf("the loop computed %d, want %d", got.Response, want)
	}
}

func loopSum(turns uint32) (sum uint32) {
	for n := turns; n > 0; n-- {
		sum = sum*31 + n
	}
	return sum
}

func (s *suite) deadlineInHostCall(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	i := instantiate(t, s.compile(t, arguments(t), engine.ModuleConfig{Host: host(
		func(ctx context.Context, _ string, _ []byte) (abi.Code, []byte) {
			cancel()
			<-ctx.Done()
			return abi.CodeUnavailable, nil
		})}))
	done := make(chan error, 1)
	go func() {
		_, err := i.Call(ctx, opDeep, words(1))
		// The guest survives this host call; its next one ends it.
		if err == nil {
			_, err = i.Call(ctx, opDeep, words(1))
		}
		done <- err
	}()
	select {
	case err := <-done:
		if !errors.Is(err, context.Canceled) {
			t.Errorf("error %v, want the context's", err)
		}
	case <-time.After(10 * time.Second):
		buffer := make([]byte, 1<<16)
		t.Fatalf("the guest was not ended:\n%s", buffer[:runtime.Stack(buffer, true)])
	}
}

func (s *suite) hostPanics(t *testing.T) {
	for _, panics := range []func(){
		func() { panic(bytes.Repeat([]byte("long\n"), 1000)) },
		func() { panic(errors.New("boom")) },
		func() { var nothing *suite; nothing.newEngine = nil },
	} {
		i := instantiate(t, s.compile(t, arguments(t), engine.ModuleConfig{Host: host(
			func(context.Context, string, []byte) (abi.Code, []byte) {
				panics()
				return abi.CodeOK, nil
			})}))
		_, err := i.Call(t.Context(), opDeep, words(3))
		if err == nil || !strings.Contains(err.Error(), "the host failed in cache") || len(err.Error()) > 400 || strings.Contains(err.Error(), "\n") {
			t.Errorf("error %v", err)
		}
		if _, err := i.Call(t.Context(), opDeep, words(3)); err == nil {
			t.Error("the failed instance serves again")
		}
	}
}
