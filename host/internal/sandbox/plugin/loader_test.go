package plugin_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/compile"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/engine"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/meter"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/plugin"
)

// preparing is a plugin.Compiler.
type preparing func(ctx context.Context, wasm []byte) error

func (p preparing) Prepare(ctx context.Context, j compile.Job) ([]byte, error) {
	if err := p(ctx, j.Wasm); err != nil {
		return nil, err
	}
	metered, err := meter.Rewrite(j.Wasm, j.Meter)
	j.Metered()
	return metered, err
}

func TestModuleIsCompiledApartFirst(t *testing.T) {
	l, _ := realLoader(testLimits())
	var prepared int
	l.Compiler = preparing(func(_ context.Context, wasm []byte) error {
		prepared = len(wasm)
		return nil
	})
	module := realModule(t)
	g, err := l.Load(t.Context(), plugin.Bundle{Module: module})
	if err != nil {
		t.Fatal(err)
	}
	if err := g.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if prepared <= len(module)/2 {
		t.Errorf("%d bytes were compiled apart, of a module of %d", prepared, len(module))
	}
}

// named is an engine that has a name alone.
type named struct{ engine.Engine }

func (named) Name() string { return "named" }

func TestModuleThatIsNotCompiledApartIsNotCompiledHere(t *testing.T) {
	l, _ := realLoader(testLimits())
	bomb := errors.New("compiling the module took more than 512 MiB of memory")
	l.Compiler = preparing(func(context.Context, []byte) error { return bomb })
	l.Engine = named{} // would panic
	_, err := l.Load(t.Context(), plugin.Bundle{Module: realModule(t)})
	var refused *plugin.LoadError
	if !errors.As(err, &refused) || refused.Phase != plugin.PhaseCompile || !strings.Contains(err.Error(), bomb.Error()) {
		t.Errorf("error %v, want %v in the phase %v", err, bomb, plugin.PhaseCompile)
	}
}

// gone is an engine that finds no machine code so many times.
type gone struct {
	engine.Engine
	times int
}

func (g *gone) Compile(ctx context.Context, wasm []byte, config engine.ModuleConfig) (engine.Module, error) {
	if g.times > 0 {
		g.times--
		return nil, engine.ErrNotCompiled
	}
	return g.Engine.Compile(ctx, wasm, config)
}

// What was compiled apart is gone when the engine looks for it: it is compiled
// apart once more, and never here.
func TestWhatIsGoneIsCompiledApartAgain(t *testing.T) {
	for times, want := range map[int]int{0: 1, 1: 2, 5: 2} {
		l, _ := realLoader(testLimits())
		prepared := 0
		l.Compiler = preparing(func(context.Context, []byte) error { prepared++; return nil })
		l.Engine = &gone{l.Engine, times}
		g, err := l.Load(t.Context(), plugin.Bundle{Module: realModule(t)})
		if found := err == nil; found != (times < 2) || !found && !errors.Is(err, engine.ErrNotCompiled) {
			t.Errorf("gone %d times: %v", times, err)
		}
		if err == nil {
			if err := g.Close(t.Context()); err != nil {
				t.Error(err)
			}
		}
		if prepared != want {
			t.Errorf("gone %d times: compiled apart %d times, want %d", times, prepared, want)
		}
	}
}
