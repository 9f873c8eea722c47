//go:build node

package node_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
)

// The network of the machines: a bridge in the namespace of the test.
const (
	bridge        = "br0"
	bridgeAddress = "10.77.0.1"
	network       = "/24"
)

// replaced are the directories of which each machine has its own.
func replaced() []string { return []string{"/run", "/var/lib", "/var/log"} }

// furnish prepares the namespaces that this process has got: mounts that
// nobody else sees, its own processes in /proc, and a bridge.
func furnish() error {
	if err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("private mounts: %w", err)
	}
	if err := syscall.Mount("proc", "/proc", "proc", 0, ""); err != nil {
		return fmt.Errorf("/proc: %w", err)
	}
	if err := fixSysctls(); err != nil {
		return err
	}
	for _, dir := range replaced() {
		if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "mode=0755"); err != nil {
			return fmt.Errorf("%s: %w", dir, err)
		}
	}
	for _, args := range [][]string{
		{"link", "set", "lo", "up"},
		{"link", "add", bridge, "type", "bridge"},
		{"addr", "add", bridgeAddress + network, "dev", bridge},
		{"link", "set", bridge, "up"},
	} {
		if err := run(exec.Command("ip", args...)); err != nil {
			return err
		}
	}
	return nil
}

// fixSysctls hides settings of the whole kernel, which a kubelet would change,
// behind files that say what it wants to read.
func fixSysctls() error {
	dir := filepath.Join(data(), "sysctl")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for path, value := range map[string]string{
		"vm/overcommit_memory": "1", "vm/panic_on_oom": "0", "kernel/panic": "10", "kernel/panic_on_oops": "1",
		"kernel/keys/root_maxkeys": "1000000", "kernel/keys/root_maxbytes": "25000000",
	} {
		file := filepath.Join(dir, filepath.Base(path))
		if err := os.WriteFile(file, []byte(value+"\n"), 0o644); err != nil {
			return err
		}
		if err := syscall.Mount(file, "/proc/sys/"+path, "", syscall.MS_BIND, ""); err != nil {
			return fmt.Errorf("/proc/sys/%s: %w", path, err)
		}
	}
	return nil
}

// hold is the process of a machine: it has namespaces of its own until its
// input ends.
func hold(name string) error {
	if err := syscall.Sethostname([]byte(hostname(name))); err != nil {
		return fmt.Errorf("the name of the host: %w", err)
	}
	for _, dir := range replaced() {
		own := filepath.Join(data(), name, filepath.Base(dir))
		if err := os.MkdirAll(own, 0o755); err != nil {
			return err
		}
		if err := syscall.Mount(own, dir, "", syscall.MS_BIND, ""); err != nil {
			return fmt.Errorf("%s: %w", dir, err)
		}
	}
	fmt.Println("ready")
	_, err := io.Copy(io.Discard, os.Stdin)
	return err
}

// hostname of a machine. As in most clouds, it is not the name of the Node, which its
// kubelet has by --hostname-override; the manager's Lease and status have the hostname.
func hostname(machine string) string { return "host-" + machine + ".internal" }

// machine is one computer of the cluster.
type machine struct {
	name, address string
	cgroup        string // of everything that runs on it, below the root of each hierarchy
	holder        *exec.Cmd
}

// newMachine makes a machine with one network interface.
func newMachine(t *testing.T, number int) *machine {
	t.Helper()
	m := &machine{name: fmt.Sprintf("cp-%d", number), address: fmt.Sprintf("10.77.0.1%d", number)}
	var err error
	if m.cgroup, err = machineCgroups(m.name); err != nil {
		t.Fatal(err)
	}
	if m.holder, err = startHolder(m.name); err != nil {
		t.Fatal(err)
	}
	ip := func(args ...string) {
		if err := run(exec.CommandContext(t.Context(), "ip", args...)); err != nil {
			t.Fatal(err)
		}
	}
	ip("link", "add", "v-"+m.name, "type", "veth", "peer", "name", "eth0", "netns", strconv.Itoa(m.holder.Process.Pid))
	ip("link", "set", "v-"+m.name, "master", bridge, "up")
	m.run(t, "ip", "link", "set", "lo", "up")
	m.run(t, "ip", "addr", "add", m.address+network, "dev", "eth0")
	m.run(t, "ip", "link", "set", "eth0", "up")
	m.run(t, "ip", "route", "add", "default", "via", bridgeAddress)
	return m
}

// startHolder starts the process that holds the namespaces until its input ends,
// with this process.
func startHolder(name string) (*exec.Cmd, error) {
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), roleMachine+"="+name)
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWUTS | syscall.CLONE_NEWNS}
	if _, err := cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("machine %s: %w", name, err)
	}
	if _, err := io.ReadFull(out, make([]byte, len("ready\n"))); err != nil {
		return nil, fmt.Errorf("machine %s: %w", name, errors.Join(err, cmd.Wait()))
	}
	return cmd, nil
}

// command runs a program on the machine.
func (m *machine) command(ctx context.Context, name string, args ...string) *exec.Cmd {
	enter := []string{"--target", strconv.Itoa(m.holder.Process.Pid), "--net", "--uts", "--mount", "--", name}
	return exec.CommandContext(ctx, "nsenter", append(enter, args...)...)
}

func (m *machine) run(t *testing.T, name string, args ...string) {
	t.Helper()
	if err := run(m.command(t.Context(), name, args...)); err != nil {
		t.Fatal(err)
	}
}

// file is where the test sees a file of the machine that is below a replaced
// directory.
func (m *machine) file(path string) string {
	for _, dir := range replaced() {
		if rest, err := filepath.Rel(dir, path); err == nil && filepath.IsLocal(rest) {
			return filepath.Join(data(), m.name, filepath.Base(dir), rest)
		}
	}
	panic(path + " is the same on all machines")
}

// run adds to an error what the program has written.
func run(cmd *exec.Cmd) error {
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%v: %w: %s", cmd.Args, err, out)
	}
	return nil
}
