//go:build wasmtime

package wasmtime

import (
	"errors"
	"strconv"
	"strings"

	"github.com/bytecodealliance/wasmtime-go/v44"

	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/engine"
)

// framesOf returns the running functions of the module.
func framesOf(err error) (frames []uint32) {
	var trap *wasmtime.Trap
	if !errors.As(err, &trap) {
		return framesIn(err.Error())
	}
	for _, f := range trap.Frames() {
		if len(frames) == engine.MaxFrames {
			break
		}
		frames = append(frames, f.FuncIndex())
	}
	return frames
}

// framesIn parses the functions from the runtime's text: after a host function has ended the
// guest, the library offers no other form. Modules have no names, so no line is a guest's.
func framesIn(text string) (frames []uint32) {
	for line := range strings.Lines(text) {
		_, rest, found := strings.Cut(line, "!<wasm function ")
		digits, _, ends := strings.Cut(rest, ">")
		index, err := strconv.ParseUint(digits, 10, 32)
		if found && ends && err == nil && len(frames) < engine.MaxFrames {
			frames = append(frames, uint32(index))
		}
	}
	return frames
}
