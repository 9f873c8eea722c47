package imports

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/engine"
	"github.com/wasm-ccm/wasm-ccm/host/internal/text"
)

// ErrExports says that a module is not a guest. Modules are checked before, so
// no guest sees it.
var ErrExports = fmt.Errorf("the module does not export %s, %s and %s", abi.ExportMemory, abi.ExportInitialize, abi.ExportCall)

// Call is the state of one op in one instance. It is not safe for concurrent
// use, as an instance is not.
type Call struct {
	guest *Guest
	// inOp is false in _initialize, where there is no request to read and
	// nothing to answer.
	inOp     bool
	request  []byte
	result   []byte // of the last host call
	held     int64  // of the guest's room, by result
	response []byte
	detail   []byte
	fuel     int64
	// said is the end of what was written to standard output and error.
	said []byte
}

// Outside starts a call outside of an op: only log and the clock answer.
func (c *Call) Outside(guest *Guest) {
	c.End()
	*c = Call{guest: guest}
}

// Op starts an op with this request, which it does not change.
func (c *Call) Op(guest *Guest, request []byte) {
	c.End()
	*c = Call{guest: guest, inOp: true, request: request}
}

// End drops the call and its data.
//
// Invariant M10 (host/SECURITY.md): after an op the host has nothing of what its host calls were
// given or answered.
func (c *Call) End() {
	c.dropResult()
	*c = Call{}
}

// Answer is the answer of the guest, with the code that its export returned.
func (c *Call) Answer(code uint32) engine.Result {
	return engine.Result{Code: abi.Code(code), Response: c.response, Detail: c.detail, Fuel: c.fuel}
}

// End is why a function ended the guest.
type End struct {
	text  string
	cause error
}

// Error returns one line.
func (e *End) Error() string { return e.text }

// Unwrap returns the context's error where the time was over.
func (e *End) Unwrap() error { return e.cause }

// broken says that the guest broke the calling convention.
func broken(format string, args ...any) error {
	return &End{text: "the guest broke the calling convention: " + fmt.Sprintf(format, args...)}
}

func outOfTime(cause error) *End {
	return &End{text: "the guest was ended: " + cause.Error(), cause: cause}
}

// Crash returns the error of a call in which the guest was ended, an
// *engine.Crash: see Ended for why. Frames are the runtime's.
func (c *Call) Crash(ctx context.Context, err error, frames []uint32) error {
	return &engine.Crash{Err: Ended(ctx, err), Frames: frames[:min(len(frames), engine.MaxFrames)], Said: c.said}
}

// hear keeps the end of what a guest writes: TinyGo's panics go to standard
// output, those of others to standard error.
func (c *Call) hear(text []byte) {
	const most = engine.MaxSaidBytes
	text = text[max(0, len(text)-most):]
	if len(c.said)+len(text) > 2*most { // so that small writes cost little
		c.said = append(c.said[:0], c.said[len(c.said)-most:]...)
	}
	c.said = append(c.said, text...)
}

// maxTrapBytes bounds what a runtime says of a trap.
const maxTrapBytes = 1 << 10

// Ended returns why an op failed: the time that is over, or
// why a function ended the guest (an *End in err), or that the guest trapped,
// with the first line of the runtime's err. The result is one line, fit for a
// log and an Event.
func Ended(ctx context.Context, err error) error {
	var end *End
	switch {
	case errors.As(err, &end) && end.cause != nil:
		return end
	case ctx.Err() != nil:
		return outOfTime(ctx.Err())
	case end != nil:
		return end
	}
	line, _, _ := strings.Cut(err.Error(), "\n")
	return fmt.Errorf("the guest trapped: %s", text.Line(line, maxTrapBytes))
}

// checkTime ends the guest when the op's time is over. It looks at the clock
// itself: a context's timer needs a processor to fire.
func checkTime(ctx context.Context) error {
	err := ctx.Err()
	if end, ok := ctx.Deadline(); err == nil && ok && !time.Now().Before(end) {
		err = context.DeadlineExceeded
	}
	if err != nil {
		return outOfTime(err)
	}
	return nil
}
