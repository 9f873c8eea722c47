package main

import (
	"fmt"
	"io"
	"os"

	"golang.org/x/term"

	"github.com/wasm-ccm/wasm-ccm/host/internal/text"
)

// progress shows what a command waits for: on a terminal in one line that is
// overwritten, elsewhere in a line for each change.
type progress struct {
	w        io.Writer
	terminal bool
	last     string
}

func newProgress(w io.Writer) *progress { return &progress{w: w, terminal: isTerminal(w)} }

func isTerminal(w io.Writer) bool {
	file, ok := w.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

// maxProgress bounds a line, in bytes.
const maxProgress = 200

func (p *progress) say(what string) {
	what = text.Line(what, maxProgress)
	if what == "" || what == p.last {
		return
	}
	p.last = what
	if p.terminal {
		fmt.Fprint(p.w, "\r\x1b[K", text.Line(what, p.width()))
		return
	}
	fmt.Fprintln(p.w, "waiting:", what)
}

// width of the terminal, without its last column.
func (p *progress) width() int {
	const fallback = 80
	file, _ := p.w.(*os.File)
	if file == nil {
		return fallback
	}
	width, _, err := term.GetSize(int(file.Fd()))
	if err != nil || width < 2 {
		return fallback
	}
	return width - 1
}

func (p *progress) end() {
	if p.terminal && p.last != "" {
		fmt.Fprint(p.w, "\r\x1b[K")
	}
}
