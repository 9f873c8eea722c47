package wazero

import (
	"strconv"
	"strings"

	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/engine"
)

// framesOf parses the running functions from the runtime's error, which offers no other
// form: a line ".$INDEX(types)" for each. Modules have no names, so no line is a guest's
// text; text before the heading may be.
func framesOf(err error) (frames []uint32) {
	const heading = "\nwasm stack trace:\n"
	text := err.Error()
	begin := strings.LastIndex(text, heading)
	if begin < 0 {
		return nil
	}
	for line := range strings.Lines(text[begin+len(heading):]) {
		rest, ours := strings.CutPrefix(strings.TrimSpace(line), ".$")
		digits, _, _ := strings.Cut(rest, "(")
		index, err := strconv.ParseUint(digits, 10, 32)
		if !ours || err != nil { // a host function
			continue
		}
		if frames = append(frames, uint32(index)); len(frames) == engine.MaxFrames {
			break
		}
	}
	return frames
}
