// Package enginetest has the tests of the engines: a contract of all, and what is one's own.
package enginetest

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/engine"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/meter"
)

// The ops of testdata/wat/convention.wat.
const (
	opEcho abi.Op = iota + 1
	opTrap
	opSpin
	opTwice
	opOutside
	opSilent
	opFail
	opHostCall
	opGrow
	opExit
	opCount
	opLarge
	opRecurse
	opStdout
	opBeyond
	opReadOutside
	opTwoErrors
	opHostSpin
	opDoubling
	opRoom
	opCallOutside
	opZeroOutside
)

const memoryLimit = 8 * 64 << 10

// host answers host calls with a function.
type host func(ctx context.Context, name string, request []byte) (abi.Code, []byte)

func (h host) HostCall(ctx context.Context, name string, request []byte) (abi.Code, []byte) {
	return h(ctx, name, request)
}

func noHost(context.Context, string, []byte) (abi.Code, []byte) { return abi.CodeDenied, nil }

// contract runs the suite.
func contract(t *testing.T, newEngine func() engine.Engine) {
	s := &suite{newEngine}
	t.Run("answers", s.answers)
	t.Run("broken convention", s.brokenConvention)
	t.Run("deadline", s.deadline)
	t.Run("host call", s.hostCall)
	t.Run("memory limit", s.memoryLimit)
	t.Run("standard output", s.standardOutput)
	t.Run("WASI", s.wasi)
	t.Run("WASI sleep ends with the op", s.wasiSleep)
	t.Run("initialize", s.initialize)
	t.Run("modules are apart", s.modulesAreApart)
	t.Run("instances are apart", s.instancesAreApart)
	t.Run("the same work costs the same", s.fuel)
	t.Run("concurrent instances", s.concurrent)
	t.Run("garbage is refused", s.garbage)
	t.Run("arguments", s.arguments)
	t.Run("traps have the same words", s.traps)
	t.Run("an answer does not survive a trap", s.answerAndTrap)
	t.Run("memory grows after a host call", s.growAfterHostCall)
	t.Run("re-entry", s.reentry)
	t.Run("a guest inside of a host call", s.nested)
	t.Run("a host that panics", s.hostPanics)
	t.Run("a deadline within a host call", s.deadlineInHostCall)
	t.Run("the fuel of a loop", s.loopFuel)
	t.Run("features", s.features)
	t.Run("depth", s.depth)
	t.Run("closed", s.closed)
	t.Run("snapshots", s.snapshots)
	t.Run("snapshots are bounded", s.snapshotsAreBounded)
	t.Run("resuming", s.resuming)
	t.Run("a snapshot in an op", s.snapshotInAnOp)
	t.Run("no snapshot", s.noSnapshot)
	t.Run("a memory that begins with nothing", s.emptyMemory)
	t.Run("snapshots leave nothing", s.snapshotsLeaveNothing)
	t.Run("nothing is left behind", s.leaks)
}

type suite struct {
	newEngine func() engine.Engine
}

// meteredFile reads a module of testdata/wat and meters it.
func meteredFile(tb testing.TB, name string) []byte {
	tb.Helper()
	wasm, err := os.ReadFile(filepath.Join("..", "..", "..", "..", "..", "testdata", "wat", name))
	if err != nil {
		tb.Fatal(err)
	}
	return metered(tb, wasm)
}

func metered(tb testing.TB, wasm []byte) []byte {
	tb.Helper()
	rewritten, err := meter.Rewrite(wasm, meter.Options{
		ImportModule: engine.RefuelModule, ImportName: engine.RefuelName,
		MaxMemoryPages: 1 << 16, MaxTableElements: 1 << 16,
		Resume: abi.ExportResume, Globals: engine.GlobalPrefix,
	})
	if err != nil {
		tb.Fatal(err)
	}
	return rewritten
}

func (s *suite) module(t *testing.T, name string, config engine.ModuleConfig) engine.Module {
	t.Helper()
	return s.compile(t, meteredFile(t, name), config)
}

func (s *suite) compile(t *testing.T, wasm []byte, config engine.ModuleConfig) engine.Module {
	t.Helper()
	if config.Host == nil {
		config.Host = host(noHost)
	}
	config.MemoryLimitBytes = memoryLimit
	e := s.newEngine()
	m, err := e.Compile(t.Context(), wasm, config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(m.Close(context.Background()), e.Close(context.Background())); err != nil {
			t.Error(err)
		}
	})
	return m
}

func (s *suite) instance(t *testing.T, config engine.ModuleConfig) engine.Instance {
	t.Helper()
	return instantiate(t, s.module(t, "convention.wasm", config))
}

func instantiate(t *testing.T, m engine.Module) engine.Instance {
	t.Helper()
	i, err := m.Instantiate(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := i.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return i
}

func (s *suite) answers(t *testing.T) {
	i := s.instance(t, engine.ModuleConfig{})
	for _, test := range []struct {
		op      abi.Op
		request string
		want    engine.Result
	}{
		{opEcho, "hello", engine.Result{Response: []byte("hello")}},
		{opEcho, "", engine.Result{Response: []byte{}}},
		{opSilent, "x", engine.Result{}},
		{opFail, "x", engine.Result{Code: abi.CodeInvalid, Detail: []byte("\x0a\x01a")}},
		{99, "x", engine.Result{Code: abi.CodeNotImplemented}},
		{opBeyond, "", engine.Result{Response: make([]byte, 8)}},
	} {
		got, err := i.Call(t.Context(), test.op, []byte(test.request))
		if err != nil {
			t.Fatalf("op %d: %v", test.op, err)
		}
		if got.Code != test.want.Code || !bytes.Equal(got.Response, test.want.Response) || !bytes.Equal(got.Detail, test.want.Detail) {
			t.Errorf("op %d: %+v, want %+v", test.op, got, test.want)
		}
		if (got.Response == nil) != (test.want.Response == nil) {
			t.Errorf("op %d: an empty response and none must differ", test.op)
		}
	}
}

func (s *suite) brokenConvention(t *testing.T) {
	m := s.module(t, "convention.wasm", engine.ModuleConfig{})
	for op, want := range map[abi.Op]string{
		opTrap:        "unreachable",
		opTwice:       "a second resp_write",
		opOutside:     "outside of its memory",
		opExit:        "exited with status 3",
		opLarge:       "at most",
		opRecurse:     "stack",
		opReadOutside: "outside of its memory",
		opTwoErrors:   "a second err_write",
		opRoom:        "outside of its memory",
		opCallOutside: "outside of its memory",
		opZeroOutside: "outside of its memory",
	} {
		i := instantiate(t, m)
		_, err := i.Call(t.Context(), op, []byte("request"))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("op %d: error %v, want one with %q", op, err, want)
		}
		if err != nil && strings.Contains(err.Error(), "\n") {
			t.Errorf("op %d: the error has more than one line: %v", op, err)
		}
		if _, err := i.Call(t.Context(), opEcho, nil); err == nil {
			t.Errorf("op %d: the failed instance serves again", op)
		}
	}
	if _, err := instantiate(t, m).Call(t.Context(), opEcho, nil); err != nil {
		t.Errorf("a fresh instance after all that: %v", err)
	}
}

func (s *suite) deadline(t *testing.T) {
	m := s.module(t, "convention.wasm", engine.ModuleConfig{})
	for _, op := range []abi.Op{opSpin, opHostSpin, opDoubling} {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		_, err := instantiate(t, m).Call(ctx, op, nil)
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("op %d: error %v, want the deadline's", op, err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	got, err := instantiate(t, m).Call(ctx, opCount, nil)
	if err != nil {
		t.Fatal(err)
	}
	if left := time.Duration(binary.LittleEndian.Uint64(got.Response[4:])); left > time.Hour || left < 59*time.Minute {
		t.Errorf("the guest sees %v left of an hour", left)
	}
}

func (s *suite) hostCall(t *testing.T) {
	type key struct{}
	var kept [][]byte
	answer := func(ctx context.Context, name string, request []byte) (abi.Code, []byte) {
		if name != abi.CapabilityCache || ctx.Value(key{}) != "value" {
			t.Errorf("host call %s with context value %v", name, ctx.Value(key{}))
		}
		kept = append(kept, request)
		return abi.CodeConflict, append([]byte("re:"), request...)
	}
	i := s.instance(t, engine.ModuleConfig{Host: host(answer)})
	ctx := context.WithValue(t.Context(), key{}, "value")
	for _, request := range []string{"first", "second one"} {
		got, err := i.Call(ctx, opHostCall, []byte(request))
		if err != nil {
			t.Fatal(err)
		}
		if code := binary.LittleEndian.Uint32(got.Response[4:]); abi.Code(code) != abi.CodeConflict {
			t.Errorf("the guest saw status %d", code)
		}
		if text := string(got.Response[8:]); text != "re:"+request {
			t.Errorf("the guest read %q", text)
		}
	}
	if string(kept[0]) != "first" {
		t.Errorf("the host's copy of the first request became %q", kept[0])
	}
	got, err := i.Call(ctx, opBeyond, nil)
	if err != nil || binary.LittleEndian.Uint32(got.Response[4:]) != 0 {
		t.Errorf("a result outlived its op: %v, %v", got, err)
	}
}

func (s *suite) memoryLimit(t *testing.T) {
	i := s.instance(t, engine.ModuleConfig{})
	got, err := i.Call(t.Context(), opGrow, nil)
	if err != nil {
		t.Fatal(err)
	}
	if pages := binary.LittleEndian.Uint32(got.Response); pages != memoryLimit>>16 {
		t.Errorf("the guest has %d pages, its limit is %d", pages, memoryLimit>>16)
	}
	if i.MemoryBytes() != memoryLimit {
		t.Errorf("MemoryBytes() = %d", i.MemoryBytes())
	}
}

func (s *suite) standardOutput(t *testing.T) {
	var out bytes.Buffer
	i := s.instance(t, engine.ModuleConfig{Stdout: &out})
	if _, err := i.Call(t.Context(), opStdout, nil); err != nil || out.String() != "standard output\n" {
		t.Errorf("standard output %q, error %v", out.String(), err)
	}
}

func (s *suite) fuel(t *testing.T) {
	m := s.module(t, "convention.wasm", engine.ModuleConfig{})
	used := func() (sum int64) {
		i := instantiate(t, m)
		for range 50_000 {
			got, err := i.Call(t.Context(), opEcho, nil)
			if err != nil {
				t.Fatal(err)
			}
			sum += got.Fuel
		}
		return sum
	}
	if a, b := used(), used(); a != b || a == 0 {
		t.Errorf("the same ops used %d and %d fuel", a, b)
	}
}

func (s *suite) concurrent(t *testing.T) {
	m := s.module(t, "convention.wasm", engine.ModuleConfig{})
	var wg sync.WaitGroup
	for n := range 8 {
		wg.Go(func() {
			i, err := m.Instantiate(t.Context())
			if err != nil {
				t.Error(err)
				return
			}
			defer func() { _ = i.Close(context.Background()) }()
			request := bytes.Repeat([]byte{byte(n)}, 100)
			for range 200 {
				if got, err := i.Call(t.Context(), opEcho, request); err != nil || !bytes.Equal(got.Response, request) {
					t.Errorf("instance %d answered %v, error %v", n, got, err)
					return
				}
			}
		})
	}
	wg.Wait()
}

func (s *suite) garbage(t *testing.T) {
	e := s.newEngine()
	for _, wasm := range []string{"", "\x00asm", "not a module", "(module)", "\x00asm\x01\x00\x00\x00\x01\xff"} {
		if m, err := e.Compile(t.Context(), []byte(wasm), engine.ModuleConfig{MemoryLimitBytes: memoryLimit, Host: host(noHost)}); err == nil {
			t.Errorf("%q was compiled to %v", wasm, m)
		}
	}
}
