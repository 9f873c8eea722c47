//go:build !wasmtime

package differential_test

import "testing"

// engines are those of this build, wazero first.
func engines(tb testing.TB) []reader { return []reader{newWazero(tb)} }

// validators are what BenchmarkValidate compares with our validator.
func validators(tb testing.TB) []reader { return engines(tb) }
