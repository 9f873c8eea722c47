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

func (s *suite) initialize(t *testing.T) {
	bad := s.module(t, "bad_init.wasm", engine.ModuleConfig{})
	if _, err := bad.Instantiate(t.Context()); err == nil || !strings.Contains(err.Error(), "req_read outside of an op") {
		t.Errorf("error %v", err)
	}
	noOp := s.module(t, "host_init.wasm", engine.ModuleConfig{})
	if _, err := noOp.Instantiate(t.Context()); err == nil || !strings.Contains(err.Error(), "deadline outside of an op") {
		t.Errorf("error %v", err)
	}
	s.logInInitialize(t)
	endless := s.module(t, "spin_init.wasm", engine.ModuleConfig{})
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := endless.Instantiate(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v, want the deadline's", err)
	}
}

func (s *suite) logInInitialize(t *testing.T) {
	logged := ""
	log := host(func(_ context.Context, name string, request []byte) (abi.Code, []byte) {
		logged += name + " " + string(request)
		return abi.CodeOK, nil
	})
	instantiate(t, s.module(t, "log_init.wasm", engine.ModuleConfig{Host: log}))
	if logged != "log hello" {
		t.Errorf("the host heard %q", logged)
	}
}

// Modules that fail to compile or to instantiate, and closed ones, leave the others of the
// engine alone.
func (s *suite) modulesAreApart(t *testing.T) {
	ctx, e := t.Context(), s.newEngine()
	config := engine.ModuleConfig{MemoryLimitBytes: memoryLimit, Host: host(noHost)}
	good, err := e.Compile(ctx, meteredFile(t, "convention.wasm"), config)
	if err != nil {
		t.Fatal(err)
	}
	i, err := good.Instantiate(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.Compile(ctx, []byte("garbage"), config); err == nil {
		t.Error("garbage was compiled")
	}
	bad, err := e.Compile(ctx, meteredFile(t, "bad_init.wasm"), config)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := bad.Instantiate(ctx); err == nil {
		t.Error("a module that cannot be instantiated was")
	}
	if err := bad.Close(ctx); err != nil {
		t.Error(err)
	}
	if got, err := i.Call(ctx, opEcho, []byte("still here")); err != nil || string(got.Response) != "still here" {
		t.Errorf("the good instance answers %q, %v", got.Response, err)
	}
	if err := errors.Join(i.Close(ctx), good.Close(ctx), e.Close(ctx)); err != nil {
		t.Error(err)
	}
}

func (s *suite) instancesAreApart(t *testing.T) {
	m := s.module(t, "convention.wasm", engine.ModuleConfig{})
	one, other := instantiate(t, m), instantiate(t, m)
	for range 3 {
		if _, err := one.Call(t.Context(), opEcho, nil); err != nil {
			t.Fatal(err)
		}
	}
	got, err := other.Call(t.Context(), opCount, nil)
	if err != nil || binary.LittleEndian.Uint32(got.Response) != 1 {
		t.Errorf("the other instance counts %v calls, error %v; want 1", got.Response, err)
	}
}
