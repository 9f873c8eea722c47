//go:build node

package node_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
)

// isolate runs this binary again in namespaces of its own, and removes what is
// left when it has ended.
func isolate() (code int, err error) {
	if err := able(); err != nil {
		return 0, err
	}
	if err := clean(); err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, clean()) }()
	if err := os.MkdirAll(data(), 0o755); err != nil {
		return 0, err
	}
	if err := makeCgroups(); err != nil {
		return 0, err
	}
	// Whoever interrupts make interrupts the test, too: this process has to see
	// its end.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGINT, syscall.SIGTERM)
	// Pdeathsig is the end of the thread that has started the process.
	runtime.LockOSThread()
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), roleTest+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWPID | syscall.CLONE_NEWNS | syscall.CLONE_NEWNET | syscall.CLONE_NEWIPC | syscall.CLONE_NEWUTS,
		Pdeathsig:  syscall.SIGKILL,
	}
	err = cmd.Run()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		return max(1, exit.ExitCode()), nil
	}
	if err != nil {
		return 0, fmt.Errorf("namespaces of its own: %w", err)
	}
	return 0, nil
}

// programs are those that the test calls, and where each comes from.
func programs() map[string]string {
	from := map[string]string{}
	for _, name := range []string{"runc", "iptables", "ip", "nsenter"} {
		from[name] = "a Debian package that make installs"
	}
	for _, name := range []string{"etcd", "kube-apiserver", "kubectl", "helm", "kube-controller-manager", "kube-scheduler", "kubelet", "containerd", "containerd-shim-runc-v2", "ctr"} {
		from[asset(name)] = "built by make"
	}
	from["/usr/lib/cni/bridge"] = "the Debian package containernetworking-plugins"
	for _, name := range []string{"pause", "cloud-controller-manager.oci.tar", "static.wasm", "static-next.wasm"} {
		from[built(name)] = "built by make"
	}
	return from
}

// able says all that this machine lacks.
func able() error {
	if os.Geteuid() != 0 {
		return errors.New("needs root: it makes namespaces, mounts and cgroups")
	}
	var missing []error
	for name, from := range programs() {
		if filepath.IsAbs(name) {
			if _, err := os.Stat(name); err != nil {
				missing = append(missing, fmt.Errorf("%w (%s)", err, from))
			}
		} else if _, err := exec.LookPath(name); err != nil {
			missing = append(missing, fmt.Errorf("%w (%s)", err, from))
		}
	}
	for _, dir := range replaced() {
		if strings.HasPrefix(data(), dir+"/") {
			missing = append(missing, fmt.Errorf("CCM_BUILD is below %s, which the test hides from itself: set it to another place", dir))
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("this machine lacks what a node needs: %w", errors.Join(missing...))
	}
	return nil
}

// clean removes what an earlier run has left, and refuses while one runs.
func clean() error {
	if err := removeCgroups(); err != nil {
		return err
	}
	if err := os.RemoveAll(data()); err != nil {
		return fmt.Errorf("removing the files of a run: %w", err)
	}
	return nil
}

// data is the directory of a run, on a file system on which overlays work.
func data() string { return filepath.Join(build(), "node") }

// build is the directory that make builds into.
func build() string {
	if dir := os.Getenv("CCM_BUILD"); dir != "" {
		return dir
	}
	return repository("build")
}

func built(name string) string { return filepath.Join(build(), name) }

// asset is a program of the cluster.
func asset(name string) string {
	if dir := os.Getenv("KUBEBUILDER_ASSETS"); dir != "" {
		return filepath.Join(dir, name)
	}
	return filepath.Join(build(), "bin", name)
}

// repository is a path below the top of the repository.
func repository(elem ...string) string {
	dir, err := filepath.Abs("../../..")
	if err != nil {
		panic(err) // the working directory is gone
	}
	return filepath.Join(append([]string{dir}, elem...)...)
}
