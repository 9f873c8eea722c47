package wasmbin

import "fmt"

// Validator checks the instructions of one function after the other, by the
// algorithm in the appendix of the specification. It is not safe for
// concurrent use.
type Validator struct {
	module *Module
	// locals are the parameters and the declared locals.
	locals   []ValueType
	operands []ValueType
	blocks   []block
	pushed   uint64
	// steps is the remaining number of locals and operands to examine. A call of two bytes can
	// have a thousand.
	steps int
	err   error
}

// stepsPerByte is far above compilers' need, about one.
const (
	stepsPerByte = 32
	freeSteps    = 1 << 20
)

// block is an open block.
type block struct {
	op              Opcode
	params, results string
	// height is the number of operands at its beginning.
	height int
	// unreachable: the rest of it is unreachable, so that its operands have any type.
	unreachable bool
}

// unknown is the type of an unreachable operand.
const unknown ValueType = 0

// NewValidator returns a validator of the module's functions.
func NewValidator(m *Module) *Validator {
	v := &Validator{module: m, steps: freeSteps}
	for i := range m.Bodies {
		v.steps += stepsPerByte * len(m.Bodies[i].Data)
	}
	return v
}

// Enter begins with body i and opens it.
func (v *Validator) Enter(i uint32, locals []Locals) (*Reader, []Locals) {
	t := v.module.Type(v.module.ImportedFunctions + i)
	r, locals := v.module.Bodies[i].Open(len(t.Params), locals)
	v.locals = append(v.locals[:0], t.Params...)
	for _, l := range locals {
		for range l.Count {
			v.locals = append(v.locals, l.Type)
		}
	}
	v.operands, v.blocks, v.pushed, v.err = v.operands[:0], v.blocks[:0], 0, nil
	v.look(len(v.locals))
	v.enter(OpBlock, "", t.Results)
	return r, locals
}

// look charges for examining n locals or operands.
func (v *Validator) look(n int) {
	// Invariant M22 (host/SECURITY.md): the time of the check is proportional to the bytes of
	// the code.
	if v.steps -= n; v.steps < 0 {
		v.fail("the functions have more than %d locals and operands for each byte of code; pass values through memory", stepsPerByte)
	}
}

// Locals are the types of the function's parameters and locals.
func (v *Validator) Locals() []ValueType { return v.locals }

// Depth is the number of open blocks, including the function's own; 0 after its end.
func (v *Validator) Depth() int { return len(v.blocks) }

// Pushed is the size of all operands pushed so far, in bytes: an upper bound of what an
// engine could keep of them.
func (v *Validator) Pushed() uint64 { return v.pushed }

// BlockType returns the parameters and results of the type of a block.
func (v *Validator) BlockType(t BlockType) (params, results string) {
	switch {
	case t.Value == Void:
		return "", ""
	case t.Value != 0:
		return "", string(rune(t.Value))
	case uint64(t.Index) >= uint64(len(v.module.Types)):
		v.fail("type %d does not exist", t.Index)
		return "", ""
	}
	f := v.module.Types[t.Index]
	return f.Params, f.Results
}

// Next checks the next instruction.
func (v *Validator) Next(in *Instruction) error {
	if len(v.blocks) == 0 {
		v.fail("an instruction behind the end of the function")
		return v.err
	}
	v.instruction(in)
	if v.err != nil {
		return fmt.Errorf("%s: %w", in.Spec.Name, v.err)
	}
	return nil
}

func (v *Validator) fail(format string, args ...any) {
	if v.err == nil {
		v.err = fmt.Errorf(format, args...)
	}
}

func (v *Validator) enter(op Opcode, params, results string) {
	if len(v.blocks) > maxBlockDepth {
		v.fail("blocks nest deeper than %d", maxBlockDepth)
	}
	v.blocks = append(v.blocks, block{op: op, params: params, results: results, height: len(v.operands)})
	v.push(params)
}

// leave ends the innermost block, which must leave exactly its results.
func (v *Validator) leave() block {
	b := v.blocks[len(v.blocks)-1]
	v.pop(b.results)
	if len(v.operands) != b.height {
		v.fail("%d operands too many at the end of a block", len(v.operands)-b.height)
	}
	v.blocks = v.blocks[:len(v.blocks)-1]
	return b
}

func (v *Validator) push(types string) {
	v.look(len(types))
	for i := range len(types) {
		v.pushOne(types[i])
	}
}

func (v *Validator) pushOne(t ValueType) {
	v.pushed += SizeOf(t)
	v.operands = append(v.operands, t)
}

func (v *Validator) pop(types string) {
	v.look(len(types))
	for i := len(types) - 1; i >= 0 && v.err == nil; i-- {
		v.popOne(types[i])
	}
}

// popOne pops an operand of a type, or of any if unknown, and returns its type.
func (v *Validator) popOne(want ValueType) ValueType {
	b := &v.blocks[len(v.blocks)-1]
	if len(v.operands) == b.height {
		if !b.unreachable {
			v.fail("an operand is missing")
		}
		return want
	}
	got := v.operands[len(v.operands)-1]
	v.operands = v.operands[:len(v.operands)-1]
	if got == unknown {
		return want
	}
	if want != unknown && got != want {
		v.fail("an operand is of type %s, must be %s", TypeName(got), TypeName(want))
	}
	return got
}

// unreachable marks the rest of the innermost block.
func (v *Validator) unreachable() {
	b := &v.blocks[len(v.blocks)-1]
	v.operands = v.operands[:b.height]
	b.unreachable = true
}

// label returns the types of a branch's operands.
func (v *Validator) label(depth uint32) string {
	if uint64(depth) >= uint64(len(v.blocks)) {
		v.fail("label %d does not exist", depth)
		return ""
	}
	b := &v.blocks[len(v.blocks)-1-int(depth)]
	if b.op == OpLoop {
		return b.params
	}
	return b.results
}
