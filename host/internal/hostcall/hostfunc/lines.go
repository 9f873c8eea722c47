package hostfunc

import (
	"bytes"
	"sync"
)

// maxOutputLine is the length at which a line of stdout or stderr is broken.
const maxOutputLine = 4 << 10

// lineWriter passes its input on line by line, and keeps at most one unfinished line. The
// slice for emit is valid during the call only.
type lineWriter struct {
	emit func(line []byte)

	mu      sync.Mutex
	partial []byte
}

// Write takes all of p.
func (w *lineWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := len(p)
	for len(p) > 0 {
		room := maxOutputLine - len(w.partial)
		end := bytes.IndexByte(p[:min(len(p), room)], '\n')
		switch {
		case end >= 0:
			w.flush(p[:end])
			p = p[end+1:]
		case len(p) >= room:
			w.flush(p[:room])
			p = p[room:]
		default:
			w.partial = append(w.partial, p...)
			p = nil
		}
	}
	return n, nil
}

// flush passes the unfinished line with its rest on; empty lines are dropped.
func (w *lineWriter) flush(rest []byte) {
	line := rest
	if len(w.partial) > 0 {
		w.partial = append(w.partial, rest...)
		line = w.partial
	}
	if len(line) > 0 {
		w.emit(line)
	}
	w.partial = w.partial[:0]
}
