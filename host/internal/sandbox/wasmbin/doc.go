// Package wasmbin is the one reader of the WebAssembly binary format: it
// decodes a module (Parse), the instructions of its functions (Reader.Instruction),
// and checks that they are valid (Validator), within bounds. It writes what it
// has decoded (Instruction.Append), so that an engine reads nothing but that.
//
// It knows WebAssembly 2.0 with one memory, and nothing that came after it.
// Where readers of the format are known to differ, or could, it takes one
// encoding only and refuses the others: opcodes behind a prefix, block types,
// alignments, the count of a select and the flags of segments have to be as
// short as can be, and a constant expression is one instruction.
//
// Of this project it imports abi only, for the name of the manifest section.
package wasmbin
