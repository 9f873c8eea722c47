package plugin

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/engine"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/meter"
	"github.com/wasm-ccm/wasm-ccm/host/internal/text"
)

// Bounds of a crash report: an Event has room for 1 KiB.
const (
	maxSaidBytes  = 1 << 10
	maxStack      = 12
	maxFrameBytes = 120
)

// Crash is the error of an op that ended the guest: a trap, a breach of the calling
// convention, or a deadline.
type Crash struct {
	// Err is the reason, in one line.
	Err error
	// Said is the end of the guest's standard output and error during the op, or its panic's
	// text: scrubbed, 1 KiB at most, one line.
	Said string
	// Stack are the running functions, the innermost first, by name if the module has names: the
	// last 12, of the 30 that are known.
	Stack []string
}

// Error returns one line, fit for a log and an Event.
func (c *Crash) Error() string {
	text := c.Err.Error()
	if c.Said != "" {
		text += `; it wrote "` + c.Said + `"`
	}
	if len(c.Stack) > 0 {
		text += "; in " + strings.Join(c.Stack, " < ")
	}
	return text
}

// Unwrap returns the reason.
func (c *Crash) Unwrap() error { return c.Err }

// crashes explains the crashes of one module. It is safe for concurrent use.
type crashes struct {
	symbols *meter.Symbols
	// scrub is Loader.Scrub.
	scrub func(string) string
}

// explain adds the known facts to a crash's error.
func (c crashes) explain(err error) error {
	crash, ok := errors.AsType[*engine.Crash](err)
	if !ok {
		return err
	}
	told := &Crash{Err: err, Said: c.words(crash.Said), Stack: c.stack(crash.Frames)}
	// Errors are kept, in results and tallies; unscrubbed output must not be.
	crash.Said, crash.Frames = nil, nil
	return told
}

// words are the guest's output, for people.
//
// Invariant S6 (host/SECURITY.md): it is scrubbed as a whole, before it is cut; without a
// scrubber, as for a signer, it is not told.
func (c crashes) words(said []byte) string {
	if c.scrub == nil || len(said) == 0 {
		return ""
	}
	return text.Line(lastWords(c.scrub(string(said))), maxSaidBytes)
}

// lastWords returns a panic from its first line on, or else as many of the last lines as
// fit.
func lastWords(text string) string {
	text = strings.TrimSpace(text)
	for start := 0; start < len(text); {
		line, _, _ := strings.Cut(text[start:], "\n")
		if strings.HasPrefix(line, "panic: ") || strings.HasPrefix(line, "fatal error: ") || strings.Contains(line, " panicked at ") {
			return text[start:]
		}
		start += len(line) + 1
	}
	if len(text) <= maxSaidBytes {
		return text
	}
	text = text[len(text)-maxSaidBytes:]
	if _, whole, found := strings.Cut(text, "\n"); found {
		return whole
	}
	return text
}

// stack names the functions; a recursive one once, with a count.
func (c crashes) stack(frames []uint32) (names []string) {
	for len(frames) > 0 {
		same := 1
		for same < len(frames) && frames[same] == frames[0] {
			same++
		}
		name := text.Line(shorten(c.symbols.Name(frames[0])), maxFrameBytes)
		frames = frames[same:]
		switch {
		case name == "":
			continue
		case len(names) == maxStack:
			return append(names, "...")
		case same > 1:
			name = fmt.Sprintf("%s (%d times)", name, same)
		}
		names = append(names, name)
	}
	return names
}

// shorten drops the paths of packages from a name, as "(*example.com/cloud/api.Client).Get"
// to "(*api.Client).Get".
func shorten(name string) string {
	var out strings.Builder
	for name != "" {
		end := strings.IndexFunc(name, func(r rune) bool { return strings.ContainsRune("/()[]{}<>*, ", r) })
		if end < 0 {
			end = len(name) - 1
		}
		if name[end] != '/' {
			out.WriteString(name[:end+1])
		}
		name = name[end+1:]
	}
	return out.String()
}

// explained is an engine.Module with explained crashes.
type explained struct {
	engine.Module
	crashes crashes
}

// Instantiate is engine.Module's.
func (m explained) Instantiate(ctx context.Context) (engine.Instance, error) {
	i, err := m.Module.Instantiate(ctx)
	if err != nil {
		return nil, m.crashes.explain(err)
	}
	return explainedInstance{i, m.crashes}, nil
}

type explainedInstance struct {
	engine.Instance
	crashes crashes
}

// Snapshot is engine.Snapshotter's, if the engine's instance is one.
func (i explainedInstance) Snapshot() (engine.Snapshot, error) {
	instance, ok := i.Instance.(engine.Snapshotter)
	if !ok {
		return nil, engine.ErrNoSnapshot
	}
	s, err := instance.Snapshot()
	if err != nil {
		return nil, err
	}
	return explainedSnapshot{s, i.crashes}, nil
}

type explainedSnapshot struct {
	engine.Snapshot
	crashes crashes
}

// Instantiate is engine.Snapshot's.
func (s explainedSnapshot) Instantiate(ctx context.Context) (engine.Instance, error) {
	i, err := s.Snapshot.Instantiate(ctx)
	if err != nil {
		return nil, s.crashes.explain(err)
	}
	return explainedInstance{i, s.crashes}, nil
}

// Call is engine.Instance's.
func (i explainedInstance) Call(ctx context.Context, op abi.Op, request []byte) (engine.Result, error) {
	result, err := i.Instance.Call(ctx, op, request)
	return result, i.crashes.explain(err)
}
