package plugin_test

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/abi/manifest"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/engine"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/module"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/plugin"
)

// reader is an engine that compiles nothing.
type reader struct{ engine.Engine }

var errNotCompiled = errors.New("not compiled")

func (reader) Compile(context.Context, []byte, engine.ModuleConfig) (engine.Module, error) {
	return nil, errNotCompiled
}

// BenchmarkVerify is all that is done with a module before it is compiled.
func BenchmarkVerify(b *testing.B) {
	dir := os.Getenv("CCM_BUILD")
	if dir == "" {
		b.Skip("CCM_BUILD is not set")
	}
	for _, name := range []string{"static.wasm", "openstack.wasm", "static-go.wasm"} {
		wasm, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			b.Fatal(err)
		}
		l := &plugin.Loader{
			Engine: reader{}, Limits: testLimits(), Policy: module.Policy{Capabilities: abi.Capabilities()},
			NewHost: func(*manifest.Manifest) (engine.Host, io.Writer, io.Writer) { return nil, nil, nil },
		}
		l.Limits.MaxMemoryBytes, l.Limits.MaxTableElements = 64<<20, 1<<20
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(wasm)))
			for b.Loop() {
				if _, err := l.Prepare(b.Context(), plugin.Bundle{Module: wasm}, func(string) {}); !errors.Is(err, errNotCompiled) {
					b.Fatal(err)
				}
			}
		})
	}
}
