package compile

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/wasm-ccm/wasm-ccm/host/internal/quota"
	"github.com/wasm-ccm/wasm-ccm/host/internal/text"
)

// run runs one child with a job, and a module behind it.
func run(ctx context.Context, command []string, j job, wasm []byte) (result, error) {
	header, err := json.Marshal(j)
	if err != nil {
		return result{}, fmt.Errorf("compiling apart: %w", err)
	}
	timed, cancel := context.WithTimeout(ctx, j.Limits.Wall)
	defer cancel()
	// The child ends with the thread that has started it.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd := exec.CommandContext(timed, command[0], command[1:]...)
	cmd.Env, cmd.Dir, cmd.SysProcAttr = environment(), "/", attributes()
	cmd.Cancel = func() error { return killGroup(cmd.Process.Pid) }
	cmd.WaitDelay = 5 * time.Second
	cmd.Stdin = io.MultiReader(bytes.NewReader(append(header, '\n')), bytes.NewReader(wasm))
	stdout, stderr := &bounded{limit: maxResultBytes}, &bounded{limit: maxStderrBytes}
	cmd.Stdout, cmd.Stderr = stdout, stderr
	runErr := cmd.Run()
	switch {
	case ctx.Err() != nil:
		return result{}, fmt.Errorf("compiling the module was given up: %w", ctx.Err())
	case timed.Err() != nil:
		return result{}, fmt.Errorf("compiling the module took more than %v; %s", j.Limits.Wall, j.Limits.remedy())
	}
	return j.Limits.outcome(cmd.ProcessState, runErr, stdout.data, stderr.data)
}

// outcome reads the answer of a child that ended by itself.
func (l Limits) outcome(state *os.ProcessState, runErr error, stdout, stderr []byte) (result, error) {
	r := result{}
	unread := json.Unmarshal(stdout, &r)
	if unread == nil && runErr == nil && r.Error == "" {
		return r, nil
	}
	if unread == nil && r.Invalid {
		return result{}, &InvalidError{text.Line(r.Error, maxErrorBytes)}
	}
	if unread == nil && r.Short {
		return result{}, fmt.Errorf("%w: %s; make room on the disk of --provider-compilation-cache-dir", syscall.ENOSPC, text.Line(r.Error, maxErrorBytes))
	}
	if err := l.exceeded(state, r.Error+string(stderr)); err != nil {
		return result{}, err
	}
	if unread == nil && r.Error != "" {
		return result{}, errors.New(text.Line(r.Error, maxErrorBytes))
	}
	// It ended without an answer: the first line is the message of Go's runtime.
	line, _, _ := strings.Cut(string(stderr), "\n")
	if runErr == nil {
		return result{}, fmt.Errorf("the compiling process ended without a result: %q", line)
	}
	return result{}, fmt.Errorf("the compiling process failed: %w: %q; the module may need too much, or the pod has too little memory", runErr, line)
}

// exceeded names the limit that the child has exceeded, from its exit status and output.
func (l Limits) exceeded(state *os.ProcessState, text string) error {
	contains := func(parts ...string) bool {
		return slices.ContainsFunc(parts, func(part string) bool { return strings.Contains(text, part) })
	}
	switch {
	case contains("out of memory", "cannot allocate memory", "failed to create new OS thread"):
		return fmt.Errorf("compiling the module took more than %s of memory; %s", mebibytes(l.MemoryBytes), l.remedy())
	case contains("SIGXFSZ", "file too large"):
		return l.tooLarge()
	case state != nil && state.UserTime()+state.SystemTime() >= l.CPU, contains("SIGXCPU"):
		return fmt.Errorf("compiling the module took more than %v of processor time; %s", l.CPU, l.remedy())
	}
	return nil
}

func (l Limits) tooLarge() error {
	if l.full {
		return fmt.Errorf("the module's machine code is larger than %s: %w", mebibytes(l.OutputBytes), quota.ErrFull)
	}
	return fmt.Errorf("the module's machine code is larger than %s; %s", mebibytes(l.OutputBytes), l.remedy())
}

// check examines a child's machine code. The kernel's bound on its files includes the
// module's data, which is no machine code.
func (l Limits) check(out string) error {
	return filepath.WalkDir(out, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Base(filepath.Dir(path)) == outlines {
			return err
		}
		info, err := d.Info()
		if err == nil && uint64(info.Size()) > l.OutputBytes {
			return l.tooLarge()
		}
		return err
	})
}

// bounded keeps the beginning of its input.
type bounded struct {
	data  []byte
	limit int
}

func (b *bounded) Write(p []byte) (int, error) {
	b.data = append(b.data, p[:min(len(p), b.limit-len(b.data))]...)
	return len(p), nil
}
