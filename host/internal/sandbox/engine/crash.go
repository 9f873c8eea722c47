package engine

// Bounds of a crash report.
const (
	// MaxFrames bounds Crash.Frames.
	MaxFrames = 30
	// MaxSaidBytes is how much of Crash.Said is kept at least; at most twice as much.
	MaxSaidBytes = 8 << 10
)

// Crash is the error of a Call or an Instantiate in which the guest was ended: it trapped,
// broke the calling convention, or ran out of time.
type Crash struct {
	// Err is the reason in one line, without the guest's output. It wraps the context's error
	// after a timeout.
	Err error
	// Frames are the running functions, by their index in the compiled module, the innermost
	// first. An engine may not know them all.
	Frames []uint32
	// Said is the end of the guest's standard output and error in this call, unscrubbed, if
	// ModuleConfig has a writer for it.
	Said []byte
}

// Error returns only the reason: the guest's output must be scrubbed first.
func (c *Crash) Error() string { return c.Err.Error() }

// Unwrap returns the reason.
func (c *Crash) Unwrap() error { return c.Err }
