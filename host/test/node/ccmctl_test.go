//go:build node

package node_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// user is somebody who runs ccmctl, with the rights that his kubeconfig has.
type user struct {
	*cluster
	kubeconfig string
}

// ccmctl runs the program that is released, which finds the manager by itself.
func (u user) ccmctl(t *testing.T, args ...string) (string, error) {
	t.Helper()
	return record(t, u.command(t.Context(), built("ccmctl"), append(args, "--kubeconfig="+u.kubeconfig)...))
}

// says runs ccmctl, which has to succeed, and looks for what it must say.
func (u user) says(t *testing.T, wants []string, args ...string) {
	t.Helper()
	out, err := u.ccmctl(t, args...)
	if err != nil {
		t.Errorf("ccmctl %q: %v", args, err)
	}
	matches(t, out, wants, args)
}

// fails runs ccmctl, which has to say in one short line what is wrong.
func (u user) fails(t *testing.T, want string, args ...string) {
	t.Helper()
	out, err := u.ccmctl(t, args...)
	if err == nil {
		t.Errorf("ccmctl %q succeeds", args)
	}
	matches(t, out, []string{want}, args)
}

func matches(t *testing.T, out string, wants, args []string) {
	t.Helper()
	for _, want := range wants {
		if !regexp.MustCompile(want).MatchString(out) {
			t.Errorf("ccmctl %q does not say %q", args, want)
		}
	}
}

// administrator may do everything.
func (c *cluster) administrator() user { return user{c, c.kubeconfig} }

// testCcmctl asks the manager through its Pod, as the documents say: its port is
// reached through the API server and the kubelet.
func testCcmctl(t *testing.T, c *cluster) {
	u := c.administrator()
	u.says(t, []string{`(?m)^Manager \S+ host-cp-1\S*, up \S+, and leads$`, `(?m)^static +static 0\.1\.0 `}, "status", "--wait", "--timeout=1m")
	u.says(t, []string{`(?m)^node cp-1: Done`, `asked last: instance_`}, "why", "node", "cp-1")
	u.says(t, []string{`(?m)^service default/web: Done`, `lb_ensure`}, "why", "service", "web", "-n", "default")
	u.says(t, []string{`remembers no request since its start at `}, "calls")
	u.says(t, []string{`(?m)^0 errors, `}, "check", "--all")
	u.says(t, []string{`ProviderPaused: `}, "rollout", "pause", providerName)
	u.says(t, []string{`ProviderResumed: `}, "rollout", "pause", providerName, "--resume")
	u.says(t, []string{`ProviderPaused .*\n(.*\n)*.*ProviderResumed `, `(?m)^now: phase \S+.*, serving [0-9a-f]{12}`}, "rollout", "history", providerName)
	u.bundle(t)
}

// bundle has the log of the Pod and what the manager says, and lacks nothing.
func (u user) bundle(t *testing.T) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "bundle.tar.gz")
	u.says(t, []string{regexp.QuoteMeta(file)}, "bundle", "--logs", "-o", file)
	names := archived(t, file)
	for _, want := range []string{"README.md", "status.json", "why.json", "calls.json", "reachability.json", "metrics.txt", "events.json", "lease.json", "pods.json", "providers.json", "workloads.json", "nodes.json", "findings.json"} {
		if !slices.ContainsFunc(names, func(name string) bool { return strings.HasSuffix(name, "/"+want) }) {
			t.Errorf("the bundle has no %s: %q", want, names)
		}
	}
	if !slices.ContainsFunc(names, func(name string) bool { return strings.Contains(name, "/free-text/logs/"+workload) }) {
		t.Errorf("the bundle has no log: %q", names)
	}
}

// archived are the names of the files of a tar.gz.
func archived(t *testing.T, file string) (names []string) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	unzipped, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	for r := tar.NewReader(unzipped); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return names
		}
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, header.Name)
	}
}

// testCcmctlRights gives a person less and less: each time ccmctl names the right
// that is missing.
func testCcmctlRights(t *testing.T, c *cluster) {
	u := user{c, c.authority.kubeconfig(t, "helper", "helper")}
	u.fails(t, `cannot list resource "pods" .*namespace "kube-system"`, "status")
	c.kubectl(t, "-n", namespace, "create", "role", "some", "--verb=get,list", "--resource=pods")
	c.kubectl(t, "-n", namespace, "create", "rolebinding", "some", "--role=some", "--user=helper")
	u.fails(t, `cannot create resource "serviceaccounts/token"`, "status")
	c.kubectl(t, "-n", namespace, "create", "role", "token", "--verb=create", "--resource=serviceaccounts/token")
	c.kubectl(t, "-n", namespace, "create", "rolebinding", "token", "--role=token", "--user=helper")
	for _, args := range [][]string{{"status"}, {"why", "node", "cp-1"}, {"calls"}, {"calls", "--watch"}, {"dashboard"}} {
		u.fails(t, `cannot create resource "pods/portforward"`, args...)
	}
	c.kubectl(t, "-n", namespace, "delete", "role,rolebinding", "some", "token")

	c.kubectl(t, "-n", namespace, "create", "rolebinding", "helper", "--role=wasm-ccm:ccmctl", "--user=helper")
	u.says(t, []string{`, and leads\n`}, "status")
	u.says(t, []string{`(?m)^node cp-1: Done`}, "why", "node", "cp-1")
	u.says(t, []string{`(?m)^service default/web: Done`}, "why", "service", "web", "-n", "default")
	u.says(t, []string{`remembers no request since its start at `}, "calls")
	u.says(t, []string{`cannot list resource "nodes"`, `(?m)^ok +Provider `}, "check", "--all")
	u.fails(t, `cannot get resource "configmaps"`, "rollout", "history", providerName)
	u.fails(t, `cannot get resource "configmaps"`, "rollout", "pause", providerName)
	file := filepath.Join(t.TempDir(), "bundle.tar.gz")
	u.says(t, []string{`configmaps`, `pods/log`}, "bundle", "--logs", "-o", file)
	u.fails(t, `cannot get resource "configmaps"`, "dev", providerName, built("static-next.wasm"), "--once")

	c.kubectl(t, "delete", "clusterrolebinding", "wasm-ccm:viewer")
	u.fails(t, `\(403\).*wasm-ccm:viewer`, "status")
	c.helm(t, "upgrade", "--reuse-values") // which gives it back
	u.says(t, []string{`, and leads\n`}, "status")
	c.kubectl(t, "-n", namespace, "delete", "rolebinding", "helper")
}

// testCcmctlNobody asks while no manager runs.
func testCcmctlNobody(t *testing.T, c *cluster) {
	u := c.administrator()
	for _, args := range [][]string{{"status"}, {"why", "node", "cp-1"}, {"calls"}, {"calls", "--watch"}, {"dashboard"}, {"dev", providerName, built("static-next.wasm"), "--once", "--timeout=3s"}} {
		u.fails(t, `no manager is installed in namespace kube-system`, args...)
	}
	u.says(t, []string{`NotInstalled`}, "check")
	u.says(t, []string{`no manager is installed`}, "bundle", "-o", filepath.Join(t.TempDir(), "bundle.tar.gz"))
	u.says(t, []string{`now: phase `}, "rollout", "history", providerName)
	u.fails(t, `the manager has not answered yet`, "rollout", "pause", providerName, "--timeout=2s")
	u.fails(t, `the manager has not answered yet`, "rollout", "pause", providerName, "--resume", "--timeout=2s")
}
