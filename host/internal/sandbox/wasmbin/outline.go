package wasmbin

import (
	"crypto/sha256"
	"fmt"
)

// outlineBody is the body of a function without locals that traps: valid for
// every type.
const outlineBody = "\x03\x00\x00\x0b"

// Outline returns a module with the same contents, in the same order and under the same
// numbers, except for the bodies of its functions: each traps. A custom section holds the
// SHA-256 of the module, so that two modules never share an outline. The module must be one
// written by this project; the result shares no memory with it.
func Outline(wasm []byte) ([]byte, error) {
	if err := checkHeader(wasm); err != nil {
		return nil, err
	}
	r := &Reader{Data: wasm, Pos: len(header)}
	// Invariant M25 (host/SECURITY.md): an engine names machine code by its input bytes.
	of := sha256.Sum256(wasm)
	out := appendSection(Header(), sectionCustom, append(append([]byte{byte(len(outlineName))}, outlineName...), of[:]...))
	for r.More() {
		id := r.Byte()
		content := r.Part(r.U32())
		if id != SectionCode {
			out = appendSection(out, id, content.Data)
			continue
		}
		n := content.Count("function bodies", MaxFunctions+maxOwnFunctions)
		bodies := AppendU32(make([]byte, 0, 5+int(n)*len(outlineBody)), n)
		for range n {
			bodies = append(bodies, outlineBody...)
		}
		out, r.Err = appendSection(out, id, bodies), content.Err
	}
	if err := r.Done("sections"); err != nil {
		return nil, fmt.Errorf("the outline of a module: %w", err)
	}
	return out, nil
}

// outlineName is that of the custom section.
const outlineName = "ccm.outline"

// maxOwnFunctions is more than the meter adds.
const maxOwnFunctions = 16

func appendSection(out []byte, id byte, content []byte) []byte {
	return append(AppendU32(append(out, id), uint32(len(content))), content...)
}
