//go:build node

package node_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
)

// process is one that goes on until it is ended. The end of the test ends it, too.
type process struct {
	name string
	cmd  *exec.Cmd
	done chan struct{}
}

// launch starts a program that writes to a log.
func launch(t *testing.T, name string, cmd *exec.Cmd) *process {
	t.Helper()
	log, err := os.OpenFile(logFile(name), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p := &process{name: name, cmd: cmd, done: make(chan struct{})}
	go func() {
		defer close(p.done)
		_ = cmd.Wait() // who wants to know looks into the log
	}()
	return p
}

// ended says whether the process is no more, which nobody wanted.
func (p *process) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// kill ends the process as a power failure would.
func (p *process) kill(t *testing.T) {
	t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatalf("%s: %v", p.name, err)
	}
	<-p.done
}

func logFile(name string) string { return filepath.Join(data(), "log", name+".log") }

// tail is the end of a log, for a message.
func tail(path string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-4<<10):])
}
