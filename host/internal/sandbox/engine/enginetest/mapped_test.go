package enginetest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/engine"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/engine/wazero"
)

// The machine code of a large module is a file's, compiled as well as from the
// cache, and the module does what it does otherwise.
func TestLargeCodeIsMapped(t *testing.T) {
	dir := t.TempDir()
	for _, cachedOnly := range []bool{false, true} {
		t.Run(fmt.Sprint(cachedOnly), func(t *testing.T) {
			runStockGo(t, mapping{wazero.New(wazero.Options{CacheDir: dir, CachedOnly: cachedOnly}), dir})
		})
	}
}

// mapping is an engine that makes no module whose machine code is in memory.
type mapping struct {
	engine.Engine
	dir string
}

func (e mapping) Compile(ctx context.Context, wasm []byte, config engine.ModuleConfig) (engine.Module, error) {
	m, err := e.Engine.Compile(ctx, wasm, config)
	if err != nil {
		return nil, err
	}
	maps, err := os.ReadFile("/proc/self/maps")
	if err == nil && !hasCodeOf(string(maps), e.dir) {
		err = fmt.Errorf("no machine code is a file's:\n%s", maps)
	}
	if err != nil {
		return nil, errors.Join(err, m.Close(ctx))
	}
	return m, nil
}

// hasCodeOf tells whether machine code is mapped from a file of the directory that
// has no name.
func hasCodeOf(maps, dir string) bool {
	for line := range strings.Lines(maps) {
		if strings.Contains(line, " r-xp ") && strings.Contains(line, dir) && strings.Contains(line, "(deleted)") {
			return true
		}
	}
	return false
}
