package meter

import (
	"fmt"

	"github.com/wasm-ccm/wasm-ccm/host/internal/wasmbin"
)

// data checks the data segments, which stay as they are: engines make room for
// what a segment says it holds before they look whether it is there.
func (m *rewriter) data() error {
	r, n := m.section(sectionData, "data segments", maxDataSegments)
	for range n {
		m.dataSegment(r)
	}
	if err := r.Done("data section"); err != nil {
		return err
	}
	if m.sections[sectionDataCount] == nil {
		return nil
	}
	c := &wasmbin.Reader{Data: m.sections[sectionDataCount]}
	if counted := c.U32(); counted != n {
		return fmt.Errorf("data count section: %d segments, the data section has %d", counted, n)
	}
	return c.Done("data count section")
}

func (m *rewriter) dataSegment(r *wasmbin.Reader) {
	switch kind := r.U32(); kind {
	case 0: // active
		m.constant(r, nil)
	case 1: // passive
	case 2: // active, in a memory by number
		r.U32()
		m.constant(r, nil)
	default:
		r.Fail("data segment of the unknown kind %d", kind)
	}
	r.Bytes(r.U32())
}
