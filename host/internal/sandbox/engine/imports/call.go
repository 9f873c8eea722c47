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

// ErrExports is the error of a module that is not a guest. Modules are checked before, so it
// never occurs.
var ErrExports = fmt.Errorf("the module does not export %s, %s and %s", abi.ExportMemory, abi.ExportInitialize, abi.ExportCall)

// Call is the state of one op in one instance. Like an instance it is not safe for
// concurrent use.
type Call struct {
	guest *Guest
	// inOp is false in _initialize, which has neither a request nor an answer.
	inOp     bool
	request  []byte
	result   []byte // of the last host call
	held     int64  // of the guest's room, by result
	response []byte
	detail   []byte
	fuel     int64
	// said is the end of the standard output and error.
	said []byte
}

// Outside starts a call outside of an op, with only log and the clock.
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
// Invariant M10 (host/SECURITY.md): after an op the host keeps no data of its host calls.
func (c *Call) End() {
	c.dropResult()
	*c = Call{}
}

// Answer is the guest's answer with the code that its export returned.
func (c *Call) Answer(code uint32) engine.Result {
	return engine.Result{Code: abi.Code(code), Response: c.response, Detail: c.detail, Fuel: c.fuel}
}

// End is a function's reason for ending the guest.
type End struct {
	text  string
	cause error
}

// Error returns one line.
func (e *End) Error() string { return e.text }

// Unwrap returns the context's error after a timeout.
func (e *End) Unwrap() error { return e.cause }

// broken says that the guest broke the calling convention.
func broken(format string, args ...any) error {
	return &End{text: "the guest broke the calling convention: " + fmt.Sprintf(format, args...)}
}

func outOfTime(cause error) *End {
	return &End{text: "the guest was ended: " + cause.Error(), cause: cause}
}

// Crash returns the *engine.Crash of a call in which the guest was ended: see Ended for the
// reason. Frames are the runtime's.
func (c *Call) Crash(ctx context.Context, err error, frames []uint32) error {
	return &engine.Crash{Err: Ended(ctx, err), Frames: frames[:min(len(frames), engine.MaxFrames)], Said: c.said}
}

// hear keeps the end of a guest's output: TinyGo's panics go to standard output, others' to
// standard error.
func (c *Call) hear(text []byte) {
	const most = engine.MaxSaidBytes
	text = text[max(0, len(text)-most):]
	if len(c.said)+len(text) > 2*most { // keeps small writes cheap
		c.said = append(c.said[:0], c.said[len(c.said)-most:]...)
	}
	c.said = append(c.said, text...)
}

// maxTrapBytes bounds a runtime's description of a trap.
const maxTrapBytes = 1 << 10

// Ended returns why an op failed: a timeout, a function's reason (an *End in err), or a trap
// with the first line of the runtime's err. The result is one line, fit for a log and an
// Event.
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

// checkTime ends the guest after the op's deadline. It reads the clock itself: a context's
// timer needs a free processor to fire.
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
