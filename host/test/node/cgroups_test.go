//go:build node

package node_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

const (
	cgroupMount = "/sys/fs/cgroup"
	// cgroupName is below the root of each hierarchy.
	cgroupName = "wasm-ccm-node"
)

// hierarchies are the directories of cgroup v2, or of v1, that the kubelet needs.
func hierarchies() ([]string, error) {
	if _, err := os.Stat(cgroupMount + "/cgroup.controllers"); err == nil {
		return []string{cgroupMount}, nil
	}
	var found []string
	for _, name := range []string{"cpu", "cpuacct", "cpuset", "memory", "pids", "devices", "blkio", "freezer", "systemd"} {
		if _, err := os.Stat(filepath.Join(cgroupMount, name)); err == nil {
			found = append(found, filepath.Join(cgroupMount, name))
		}
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("no cgroups in %s: is it mounted, and writable?", cgroupMount)
	}
	return found, nil
}

// makeCgroups makes the cgroup of a run in every hierarchy.
func makeCgroups() error {
	all, err := hierarchies()
	if err != nil {
		return err
	}
	for _, root := range all {
		if err := makeCgroup(filepath.Join(root, cgroupName)); err != nil {
			return err
		}
	}
	return nil
}

// makeCgroup makes one directory usable for the kubelet: a new cpuset of v1 is
// empty, and v2 hands down only the controllers that are named.
func makeCgroup(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("a cgroup: %w", err)
	}
	if filepath.Dir(dir) == cgroupMount {
		const control = "cgroup.subtree_control"
		if err := os.WriteFile(filepath.Join(dir, control), []byte("+cpu +cpuset +memory +pids"), 0o644); err != nil {
			return fmt.Errorf("cgroup v2: %w (%s/%s has to name these controllers)", err, cgroupMount, control)
		}
	}
	for _, name := range []string{"cpuset.cpus", "cpuset.mems"} {
		value, err := os.ReadFile(filepath.Join(filepath.Dir(dir), name))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, name), value, 0o644); err != nil {
			return fmt.Errorf("a cgroup: %w", err)
		}
	}
	return nil
}

// machineCgroups makes the cgroup of a machine and returns its name.
func machineCgroups(machine string) (string, error) {
	all, err := hierarchies()
	if err != nil {
		return "", err
	}
	for _, root := range all {
		if err := makeCgroup(filepath.Join(root, cgroupName, machine)); err != nil {
			return "", err
		}
	}
	return "/" + cgroupName + "/" + machine, nil
}

// removeCgroups removes what a run has made. Processes in it are of a run that
// has not ended: nobody ends them here.
func removeCgroups() error {
	all, err := hierarchies()
	if err != nil {
		return err
	}
	// runc makes directories beside v1, too, which only systemd would use.
	for _, root := range append(all, cgroupMount+"/unified") {
		if err := removeCgroup(filepath.Join(root, cgroupName)); err != nil {
			return err
		}
	}
	return nil
}

func removeCgroup(dir string) error {
	var dirs []string
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil || !entry.IsDir() {
			return err
		}
		dirs = append(dirs, path)
		processes, err := os.ReadFile(filepath.Join(path, "cgroup.procs"))
		if ids := strings.Fields(string(processes)); err == nil && len(ids) > 0 {
			return fmt.Errorf("another run has not ended: processes %v are in %s", ids, path)
		}
		return nil
	})
	if err != nil {
		return err
	}
	// The deepest first. The kernel lets go of the last process a little later.
	for _, dir := range slices.Backward(dirs) {
		for try := 0; ; try++ {
			if err = os.Remove(dir); err == nil || try == 100 {
				break
			}
			time.Sleep(10 * time.Millisecond)
		}
		if err != nil {
			return fmt.Errorf("removing a cgroup: %w", err)
		}
	}
	return nil
}
