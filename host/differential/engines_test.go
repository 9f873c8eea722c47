//go:build !wasmtime

package differential_test

import "testing"

// engines are those of this build, wazero first.
func engines(tb testing.TB) []reader { return []reader{newWazero(tb)} }
