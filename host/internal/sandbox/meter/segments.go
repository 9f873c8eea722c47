package meter

import (
	"errors"

	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/wasmbin"
)

func (m *rewriter) exports() error {
	if len(m.module.Exports) == 0 {
		return nil
	}
	if err := m.checkNames(); err != nil {
		return err
	}
	return m.write(wasmbin.SectionExport, len(m.module.Exports)+len(m.kept), func() {
		for _, e := range m.module.Exports {
			m.name(e.Name)
			m.bytes(byte(e.Kind))
			if e.Kind == wasmbin.KindFunc {
				e.Index = m.moved(e.Index)
			}
			m.u32(e.Index)
		}
		m.exportKept()
	})
}

func (m *rewriter) start() error {
	if m.module.Start == nil {
		return nil
	}
	if m.module.Type(*m.module.Start) != (wasmbin.FuncType{}) {
		return errors.New("the start function takes or returns something")
	}
	return m.section(wasmbin.SectionStart, func() error {
		m.u32(m.moved(*m.module.Start))
		return nil
	})
}

func (m *rewriter) elements() error {
	if len(m.module.Elements) == 0 {
		return nil
	}
	return m.write(wasmbin.SectionElement, len(m.module.Elements), func() {
		for i := range m.module.Elements {
			m.element(&m.module.Elements[i])
		}
	})
}

// The flags of element segments, as the specification numbers them.
const (
	elementPassive     = 1 // or, with elementExplicit, declarative
	elementExplicit    = 2
	elementExpressions = 4
)

func (m *rewriter) element(e *wasmbin.Element) {
	flags := byte(0)
	if len(e.Init) > 0 || e.Type != wasmbin.FuncRef {
		flags = elementExpressions
	}
	switch {
	case e.Mode == wasmbin.Passive:
		flags |= elementPassive
	case e.Mode == wasmbin.Declarative:
		flags |= elementPassive | elementExplicit
	case e.Table != 0 || e.Type != wasmbin.FuncRef:
		flags |= elementExplicit
	}
	m.bytes(flags)
	if e.Mode == wasmbin.Active {
		if flags&elementExplicit != 0 {
			m.u32(e.Table)
		}
		m.constant(e.Offset)
	}
	switch {
	case flags&(elementPassive|elementExplicit) == 0:
	case flags&elementExpressions != 0:
		m.bytes(e.Type)
	default:
		m.bytes(0) // the kind: functions
	}
	m.references(e, flags&elementExpressions != 0)
}

func (m *rewriter) references(e *wasmbin.Element, expressions bool) {
	if !expressions {
		m.u32(uint32(len(e.Functions)))
		for _, index := range e.Functions {
			m.u32(m.moved(index))
		}
		return
	}
	m.u32(uint32(len(e.Init)))
	for _, in := range e.Init {
		m.constant(in)
	}
}

func (m *rewriter) dataCount() error {
	if m.module.DataCount == nil {
		return nil
	}
	return m.section(wasmbin.SectionDataCount, func() error {
		m.u32(*m.module.DataCount)
		return nil
	})
}

func (m *rewriter) data() error {
	if len(m.module.Data) == 0 {
		return nil
	}
	return m.write(wasmbin.SectionData, len(m.module.Data), func() {
		for _, d := range m.module.Data {
			if d.Mode == wasmbin.Passive {
				m.bytes(1)
			} else {
				m.bytes(0)
				m.constant(d.Offset)
			}
			m.name(d.Init)
		}
	})
}

func (m *rewriter) code() error {
	n := len(m.module.Bodies)
	if m.hasBulk() {
		n += 2
	}
	if n == 0 {
		return nil
	}
	return m.section(wasmbin.SectionCode, func() error {
		m.u32(uint32(n))
		for i := range m.module.Bodies {
			if err := m.body.write(uint32(i)); err != nil {
				return err
			}
		}
		if m.hasBulk() {
			m.name(copyBody(m))
			m.name(fillBody(m))
		}
		return nil
	})
}
