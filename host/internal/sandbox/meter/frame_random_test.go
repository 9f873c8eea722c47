package meter_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// TestFramesOfRandomFunctions is TestFramesAreNoLargerThanCounted for functions
// that nobody thought of.
func TestFramesOfRandomFunctions(t *testing.T) {
	for seed := range uint64(60) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			r := randomRecursion(rand.New(rand.NewPCG(seed, 0)))
			checkFrame(t, r.wasm())
		})
	}
}

// randomFunction is made of nested blocks, in which locals are set and read
// and values are kept. Half-way the function calls itself. Each statement is
// reached: the branches are never taken, which an engine does not see.
type randomFunction struct {
	*rand.Rand
	code, locals []byte
	// left is how many statements are yet to come, callAt the number of those
	// that follow the call, depth how many blocks are open.
	left, callAt, depth int
}

func randomRecursion(random *rand.Rand) recursion {
	f := &randomFunction{Rand: random, left: 2 + random.IntN(2<<random.IntN(11))}
	f.callAt = f.left / 2
	for range 1 + random.IntN(2<<random.IntN(8)) {
		f.locals = append(f.locals, globalTypes[random.IntN(len(globalTypes))])
	}
	for f.left > 0 {
		f.statement()
	}
	return recursion{locals: f.locals, before: f.code, call: []byte{}}
}

func (f *randomFunction) add(code ...byte) { f.code = append(f.code, code...) }

// value puts a value on the stack.
func (f *randomFunction) value(t byte) {
	for range 5 { // a local of the type, if one is found
		if i := f.IntN(len(f.locals)); f.locals[i] == t && f.IntN(2) == 0 {
			f.add(get(i)...)
			return
		}
	}
	if t == typeI32 && f.IntN(2) == 0 {
		f.value(t)
		f.add(append([]byte{0x41, 0, 0x71, 0x28, 2}, leb(f.IntN(1000))...)...) // and with 0, load
		return
	}
	if t == typeI64 && f.IntN(2) == 0 {
		f.add(append([]byte{0x42}, leb(f.IntN(64))...)...)
		return
	}
	f.add(global(t, f.IntN(globalsEach))...)
}

func (f *randomFunction) statement() {
	if f.left--; f.left == f.callAt {
		f.add(0x10, 1)
	}
	local := f.IntN(len(f.locals))
	t := f.locals[local]
	switch n := f.IntN(20); {
	case n < 7:
		f.value(t)
		f.add(set(local)...)
	case n < 11:
		f.add(append(get(local), sink(t)...)...)
	case n < 13:
		f.add(0x10, 2)
	case n < 14:
		f.value(typeI32)
		f.add(0x41, 0, 0x71) // and with 0
		f.value(typeV128)
		f.add(append([]byte{0xfd, 11, 0}, leb(f.IntN(1000))...)...)
	case n < 16 && f.depth > 0:
		f.add(append([]byte{0x41, 0}, indexed(0x0d, f.IntN(f.depth))...)...)
	case f.depth < 40:
		f.nested()
	}
}

// nested opens a block, or keeps values over what follows.
func (f *randomFunction) nested() {
	statements := func() {
		for range f.IntN(30) {
			if f.left > 0 {
				f.statement()
			}
		}
	}
	if f.IntN(2) == 0 {
		t, n := globalTypes[f.IntN(len(globalTypes))], f.IntN(10)
		for range n {
			f.value(t)
		}
		statements()
		f.add(sinks(t, n)...)
		return
	}
	f.depth++
	switch f.IntN(3) {
	case 0:
		f.add(0x02, 0x40)
	case 1:
		f.add(0x03, 0x40)
	case 2:
		f.add(append(global(typeI32, f.IntN(globalsEach)), 0x04, 0x40)...)
	}
	statements()
	f.add(0x0b)
	f.depth--
}
