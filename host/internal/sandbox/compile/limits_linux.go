package compile

import (
	"fmt"
	"os"
	"syscall"
	"time"
)

// limitProcess limits the running process, for good. Its files may have data beyond the
// output.
func limitProcess(l Limits, data uint64) error {
	seconds := uint64((l.CPU + time.Second - 1) / time.Second)
	for _, limit := range []struct {
		name      string
		resource  int
		soft, max uint64
	}{
		// Data counts allocations. The address space (RLIMIT_AS) is no measure: Go reserves far more
		// than it uses.
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
	if err := goLast(); err != nil {
		return err
	}
	// When memory runs out, the kernel kills this process first.
	if err := os.WriteFile("/proc/self/oom_score_adj", []byte("1000"), 0); err != nil {
		return fmt.Errorf("oom_score_adj: %w", err)
	}
	return nil
}

// goLast lowers the child's priority below the manager's calls. A manager with a higher
// niceness passes it to the child, which may not lower it.
func goLast() error {
	const niceness = 10
	raw, err := syscall.Getpriority(syscall.PRIO_PROCESS, 0)
	if err != nil {
		return fmt.Errorf("niceness: %w", err)
	}
	if 20-raw >= niceness { // the system call returns 20 less the niceness
		return nil
	}
	// The child is alone in its process group; all its threads are meant.
	if err := syscall.Setpriority(syscall.PRIO_PGRP, 0, niceness); err != nil {
		return fmt.Errorf("nice %d: %w", niceness, err)
	}
	return nil
}

// Self is the running program, even if its file was replaced: an Options.Command for a
// program that is its own child.
func Self() (string, error) { return "/proc/self/exe", nil }

// attributes give the child a process group of its own, which ends with the thread that
// started it.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// killGroup ends the child and its descendants.
func killGroup(pid int) error { return syscall.Kill(-pid, syscall.SIGKILL) }

// ownedBy returns a file's owner.
func ownedBy(info os.FileInfo) (uid uint32, known bool) {
	stat, known := info.Sys().(*syscall.Stat_t)
	if !known {
		return 0, false
	}
	return stat.Uid, true
}

// mountedReadOnly reports whether a directory's file system is read-only.
func mountedReadOnly(dir string) bool {
	const readOnly = 1 // ST_RDONLY of statfs(2)
	var s syscall.Statfs_t
	return syscall.Statfs(dir, &s) == nil && s.Flags&readOnly != 0
}
