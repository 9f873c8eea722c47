package engine

// Bounds of what is known of a crash.
const (
	// MaxFrames bounds Crash.Frames.
	MaxFrames = 30
	// MaxSaidBytes is how much of Crash.Said is kept at least. There may be
	// twice as much of it.
	MaxSaidBytes = 8 << 10
)

// Crash is the error of a Call or an Instantiate in which the guest was ended:
// it trapped, broke the calling convention, or ran out of time.
type Crash struct {
	// Err says why, in one line without what the guest wrote. The context's
	// error is in it where the time was over.
	Err error
	// Frames are the functions that were running, by their index in the module
	// that was compiled, the innermost first. An engine may not know them all.
	Frames []uint32
	// Said is the last of what the guest wrote to its standard output and error
	// in this call, as it came, where ModuleConfig has a writer for it.
	Said []byte
}

// Error says why and nothing more: what the guest wrote is for who scrubs it.
func (c *Crash) Error() string { return c.Err.Error() }

// Unwrap returns why.
func (c *Crash) Unwrap() error { return c.Err }
