package wazero_test

import (
	"testing"

	"github.com/wasm-ccm/wasm-ccm/host/engine"
	"github.com/wasm-ccm/wasm-ccm/host/engine/enginetest"
	"github.com/wasm-ccm/wasm-ccm/host/engine/wazero"
)

func TestContract(t *testing.T) {
	enginetest.Run(t, func() engine.Engine { return wazero.New(wazero.Options{}) })
}

func TestContractWithCompilationCache(t *testing.T) {
	dir := t.TempDir()
	enginetest.Run(t, func() engine.Engine { return wazero.New(wazero.Options{CacheDir: dir}) })
}
