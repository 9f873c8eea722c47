package trials

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/klog/v2"

	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/trial"
)

// endings are where a process notes that it ends as it should: a file in a
// directory that the next process has, too. When a machine is switched off, the
// API server often goes first.
type endings struct{ dir string }

// ending is one of a process.
type ending struct {
	// Began and Last are the least and the greatest number of its attempts.
	Began int64 `json:"began"`
	Last  int64 `json:"last"`
}

// mostAttempts bounds what a note may say: a number far beyond any time, after which
// there are more than enough.
const mostAttempts = math.MaxInt64 / 2

// maxEnding bounds the file, in bytes.
const maxEnding = 1 << 10

func (e endings) file() string { return filepath.Join(e.dir, "ended.json") }

// note replaces that of the process before.
func (e endings) note(began, last int64) error {
	if e.dir == "" {
		return nil
	}
	data, err := json.Marshal(ending{began, last})
	if err != nil {
		return err
	}
	next := e.file() + ".new"
	if err := os.WriteFile(next, data, 0o600); err != nil {
		return fmt.Errorf("noting the orderly end: %w", err)
	}
	return os.Rename(next, e.file())
}

// last is what the process before has noted, the zero one when it has noted nothing
// that can be.
func (e endings) last() (last ending) {
	if e.dir == "" {
		return ending{}
	}
	data, err := readBounded(e.file(), maxEnding)
	if err != nil || json.Unmarshal(data, &last) != nil || last.Last > mostAttempts {
		return ending{}
	}
	return last
}

// without leaves out the marks of a process that has ended as it should.
func (e endings) without(left []trial.Mark) []trial.Mark {
	last := e.last()
	// Invariant M16 (host/SECURITY.md): what a process has noted that was fit.
	return slices.DeleteFunc(left, func(m trial.Mark) bool { return m.ID >= last.Began && m.ID <= last.Last })
}

func readBounded(name string, most int64) ([]byte, error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > most {
		return nil, fmt.Errorf("%s has %d bytes, or is no file", name, info.Size())
	}
	return os.ReadFile(name)
}

// bootID names the time for which this machine is up, "" where nobody says.
func bootID() string {
	data, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(data))
}

// elder is what another manager has left, and which of it explains its end.
type elder struct {
	left   []trial.Mark
	blamed *trial.Mark
}

// guilty tells whether the mark of another manager explains how that one ended:
// of all that it has left, in all books, one is blamed. Where that cannot be
// read, it is this one.
func (t *Trials) guilty(ctx context.Context, m trial.Mark) bool {
	same := func(x trial.Mark) bool { return x.ID == m.ID && x.Subject == m.Subject }
	t.mu.Lock()
	e := t.elders[m.Manager]
	t.mu.Unlock()
	if !slices.ContainsFunc(e.left, same) {
		left, err := t.left(ctx, m.Manager)
		if err != nil {
			klog.FromContext(ctx).Error(err, "What another manager has left is not known", "manager", m.Manager)
			return true
		}
		e = elder{left, trial.Blame(left, t.clock.Now())}
		t.mu.Lock()
		t.elders[m.Manager] = e
		t.mu.Unlock()
	}
	return e.blamed == nil || same(*e.blamed)
}
