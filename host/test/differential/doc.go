// Package differential compares three readers of the WebAssembly binary format:
// host/internal/sandbox/wasmbin, which checks modules and decodes them for the
// meter, and the two engines, which run the result. If one of them reads a module
// differently from the others, the module can bypass the meter.
//
// It has only tests: of the specification's suite, and fuzz tests. Their mutator
// knows the format, so that most mutants are nearly valid.
package differential
