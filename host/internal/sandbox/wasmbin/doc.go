// Package wasmbin is the only reader of the WebAssembly binary format: it decodes a module
// (Parse) and the instructions of its functions (Reader.Instruction), and checks that they
// are valid (Validator), within bounds. It writes the decoded instructions
// (Instruction.Append), so that an engine reads nothing else.
//
// It supports WebAssembly 2.0 with one memory, and nothing newer. Where readers of the
// format differ, or could, it accepts only one encoding: opcodes behind a prefix, block
// types, alignments, the count of a select and the flags of segments must have the shortest
// form, and a constant expression is one instruction.
package wasmbin
