package compile

import (
	"fmt"
	"os"
	"syscall"
	"time"
)

// limitProcess limits the running process, for good. Its files may have data beside
// the output.
func limitProcess(l Limits, data uint64) error {
	seconds := uint64((l.CPU + time.Second - 1) / time.Second)
	for _, limit := range []struct {
		name      string
		resource  int
		soft, max uint64
	}{
		// Data is what is allocated. The address space (RLIMIT_AS) is not a
		// measure: Go reserves far more than it uses.
		{"RLIMIT_DATA", syscall.RLIMIT_DATA, l.MemoryBytes, l.MemoryBytes},
		// The kernel sends SIGXCPU at the first, and SIGKILL at the second.
		{"RLIMIT_CPU", syscall.RLIMIT_CPU, seconds, seconds + 1},
		{"RLIMIT_FSIZE", syscall.RLIMIT_FSIZE, l.OutputBytes + data, l.OutputBytes + data},
		{"RLIMIT_NOFILE", syscall.RLIMIT_NOFILE, 64, 64},
		{"RLIMIT_CORE", syscall.RLIMIT_CORE, 0, 0},
	} {
		if err := syscall.Setrlimit(limit.resource, &syscall.Rlimit{Cur: limit.soft, Max: limit.max}); err != nil {
			return fmt.Errorf("%s of %d: %w", limit.name, limit.soft, err)
		}
	}
	// The manager's calls go first: the child is alone in its process group,
	// whose threads are all meant.
	const niceness = 10
	if err := syscall.Setpriority(syscall.PRIO_PGRP, 0, niceness); err != nil {
		return fmt.Errorf("nice %d: %w", niceness, err)
	}
	// When memory runs out, this process is the one to go.
	if err := os.WriteFile("/proc/self/oom_score_adj", []byte("1000"), 0); err != nil {
		return fmt.Errorf("oom_score_adj: %w", err)
	}
	return nil
}

// Self is what runs the program that runs now, also where its file was replaced: an
// Options.Command for a program that is its own child.
func Self() (string, error) { return "/proc/self/exe", nil }

// attributes of the child: a process group of its own, which ends with the
// thread that has started it.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// killGroup ends the child and whatever it has started.
func killGroup(pid int) error { return syscall.Kill(-pid, syscall.SIGKILL) }

// ownedBy tells the user that a file belongs to.
func ownedBy(info os.FileInfo) (uid uint32, known bool) {
	stat, known := info.Sys().(*syscall.Stat_t)
	if !known {
		return 0, false
	}
	return stat.Uid, true
}

// mountedReadOnly reports whether nobody can write to a directory.
func mountedReadOnly(dir string) bool {
	const readOnly = 1 // ST_RDONLY of statfs(2)
	var s syscall.Statfs_t
	return syscall.Statfs(dir, &s) == nil && s.Flags&readOnly != 0
}
