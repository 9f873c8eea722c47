// Package differential compares three readers of the WebAssembly binary format:
// host/internal/sandbox/wasmbin, by which modules are checked and metered, and the two
// engines that run what comes out. A module that one of them reads in another
// way than the others is a way around the meter.
//
// It has tests only: of the specification's suite, and fuzz tests, whose
// mutator knows the format, so that most mutants are nearly valid. It may
// import everything of the host but its commands.
package differential
