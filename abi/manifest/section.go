package manifest

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/wasm-ccm/wasm-ccm/abi"
)

// header is the magic number and version of a WebAssembly core module.
const header = "\x00asm\x01\x00\x00\x00"

const customSectionID = 0

// Section returns a copy of the content of the module's manifest section and
// whether there is one. It reads the frames of the sections only, so it is
// cheap and safe on hostile input. A module that is truncated, is not a core
// WebAssembly module, has two manifest sections or a too large one is an error.
func Section(module []byte) (section []byte, found bool, err error) {
	err = walk(module, func(s span) error {
		if !s.isManifest {
			return nil
		}
		if found {
			return fmt.Errorf("offset %d: a second section %s, append the manifest once to the finished module", s.start, abi.ManifestSection)
		}
		if n := s.end - s.content; n > abi.MaxManifestBytes {
			return fmt.Errorf("section %s has %d bytes, shorten it to at most %d", abi.ManifestSection, n, abi.MaxManifestBytes)
		}
		section, found = bytes.Clone(module[s.content:s.end]), true
		return nil
	})
	if err != nil {
		return nil, false, err
	}
	return section, found, nil
}

// Append checks the manifest and returns a copy of the module with it as the
// last section, in place of every manifest section that the module had. White
// space that means nothing is removed from the manifest.
func Append(module, manifestJSON []byte) ([]byte, error) {
	if _, err := Parse(manifestJSON); err != nil {
		return nil, err
	}
	out := append(make([]byte, 0, len(module)+len(manifestJSON)+32), header...)
	err := walk(module, func(s span) error {
		if !s.isManifest {
			out = append(out, module[s.start:s.end]...)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return appendSection(out, manifestJSON)
}

func appendSection(out, manifestJSON []byte) ([]byte, error) {
	payload := binary.AppendUvarint(nil, uint64(len(abi.ManifestSection)))
	buffer := bytes.NewBuffer(append(payload, abi.ManifestSection...))
	if err := json.Compact(buffer, manifestJSON); err != nil {
		return nil, fmt.Errorf("manifest: %w", err)
	}
	out = append(out, customSectionID)
	out = binary.AppendUvarint(out, uint64(buffer.Len()))
	return append(out, buffer.Bytes()...), nil
}

// span is one section of a module, as offsets into it.
type span struct {
	start, end int // with its identifier and size
	isManifest bool
	content    int // of a manifest section: behind its name
}

// walk calls visit for each section in order.
func walk(module []byte, visit func(span) error) error {
	if len(module) < len(header) || string(module[:4]) != header[:4] {
		return errors.New("not a WebAssembly module: it does not start with \\0asm, give the .wasm file")
	}
	if string(module[:len(header)]) != header {
		return fmt.Errorf("not a WebAssembly core module: version field % x, want 01 00 00 00 (a component is not supported)", module[4:8])
	}
	for at := len(header); at < len(module); {
		s, err := readSpan(module, at)
		if err != nil {
			return err
		}
		if err := visit(s); err != nil {
			return err
		}
		at = s.end
	}
	return nil
}

func readSpan(module []byte, at int) (span, error) {
	id := module[at]
	size, n := readU32(module[at+1:])
	if n == 0 {
		return span{}, fmt.Errorf("offset %d: the module is truncated or the size of section %d is malformed, build it again", at, id)
	}
	start := at + 1 + n
	if uint64(size) > uint64(len(module)-start) {
		return span{}, fmt.Errorf("offset %d: the module is truncated: section %d says %d bytes, %d are left", at, id, size, len(module)-start)
	}
	s := span{start: at, end: start + int(size)}
	if id != customSectionID {
		return s, nil
	}
	nameLen, n := readU32(module[start:s.end])
	if n == 0 || uint64(nameLen) > uint64(s.end-start-n) {
		return span{}, fmt.Errorf("offset %d: the name of a custom section is truncated, build the module again", at)
	}
	s.content = start + n + int(nameLen)
	s.isManifest = slices.Equal(module[start+n:s.content], []byte(abi.ManifestSection))
	return s, nil
}

// readU32 reads WebAssembly's u32 in LEB128: at most 5 bytes and 32 bits. n is
// 0 when there is none.
func readU32(data []byte) (value uint32, n int) {
	v, n := binary.Uvarint(data[:min(len(data), 5)])
	if n <= 0 || v > 1<<32-1 {
		return 0, 0
	}
	return uint32(v), n
}
