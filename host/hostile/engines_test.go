//go:build !wasmtime

package hostile_test

// engines are the engines that this build has.
func engines() []engineCase { return []engineCase{wazeroEngine()} }
