package trials

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/trial"
)

// ending is the note of a process that ends in order, in a directory that the
// next process shares. When a machine is switched off, the API server often
// goes first.
type ending struct {
	// Began and Last are the lowest and the highest number of its attempts.
	Began int64 `json:"began"`
	Last  int64 `json:"last"`
}

const (
	endedFile = "ended.json"
	// mostAttempts bounds the numbers in a note: far beyond any time, with
	// sufficient numbers above.
	mostAttempts = math.MaxInt64 / 2
	// maxEnding bounds the file, in bytes.
	maxEnding = 1 << 10
)

// note replaces the previous process's note.
func (e ending) note(dir string) error {
	if dir == "" {
		return nil
	}
	data, err := json.Marshal(e)
	if err != nil {
		return err
	}
	name := filepath.Join(dir, endedFile)
	if err := os.WriteFile(name+".new", data, 0o600); err != nil {
		return fmt.Errorf("noting the orderly end: %w", err)
	}
	return os.Rename(name+".new", name)
}

// noted is the previous process's note, the zero one if it is missing or
// invalid.
func noted(dir string) (e ending) {
	name := filepath.Join(dir, endedFile)
	info, err := os.Stat(name)
	if dir == "" || err != nil || !info.Mode().IsRegular() || info.Size() > maxEnding {
		return ending{}
	}
	data, err := os.ReadFile(name)
	if err != nil || json.Unmarshal(data, &e) != nil || e.Last > mostAttempts {
		return ending{}
	}
	return e
}

// Said is another component's report about the end of a process, such as the
// kubelet's; the zero value: none.
type Said struct {
	// Text is one short line.
	Text string
	// Began is the start of the process, to the second: later marks are its own.
	Began time.Time
	// Orderly: it exited with 0, as a manager does after an orderly end.
	Orderly bool
}

// own reports whether the mark is the process's.
func (s Said) own(m trial.Mark) bool { return !m.Since.Before(s.Began) }

// unexplained drops the marks of processes that ended in order.
func (t *Trials) unexplained(left []trial.Mark) []trial.Mark {
	return slices.DeleteFunc(left, func(m trial.Mark) bool {
		// Invariant M16 (host/SECURITY.md): what a process has noted that was fit.
		// Invariant M43 (host/SECURITY.md): only those of the process that exited with 0.
		return m.ID >= t.before.Began && m.ID <= t.before.Last || t.said.Orderly && t.said.own(m)
	})
}

// bootID identifies this run of the machine, "" if unknown.
func bootID() string {
	data, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(data))
}
