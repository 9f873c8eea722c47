//go:build node

package node_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// remote is the provider whose calls ccmctl shows: that of the other steps has no cloud.
const remote = "remote"

// testCcmctlLeader watches while the leader's Pod is deleted, and while a leader is
// killed: what ccmctl was showing goes on with the manager that leads then.
func testCcmctlLeader(t *testing.T, c *cluster) {
	c.withCloud(t)
	u := c.administrator()
	c.kubectl(t, "create", "service", "loadbalancer", "seen", "--tcp=80:8080")
	u.leads(t)
	c.await(t, "Service seen has a load balancer", patience, func(ctx context.Context) bool { return c.address(ctx, t, "seen") != "" })
	u.says(t, []string{`(?m)^20\S+ +remote +lb_ensure +PUT +10\.77\.0\.1:\d+ +\S+ +200 `}, "calls")
	watch := u.goesOn(t, "calls-watch", "calls", "--watch", "-o", "wide")
	watch.shows(t, c, `lb_ensure +PUT .* Service default/seen `)
	dashboard := u.goesOn(t, "dashboard", "dashboard")
	address := strings.TrimSpace(dashboard.shows(t, c, `http://127\.0\.0\.1:\d+/\S+`))
	module := written(t, "developed.wasm", string(readFile(t, built("faulty.wasm"))))
	dev := u.goesOn(t, "dev", "dev", remote, module, "--service=default/seen")
	dev.shows(t, c, `it serves already`)

	for round, replace := range []func(t *testing.T, n *node){
		func(t *testing.T, n *node) {
			t.Helper()
			c.kubectl(t, "-n", namespace, "delete", "pod", c.pod(t.Context(), t, n).Name, "--wait=false")
		},
		func(t *testing.T, n *node) {
			t.Helper()
			// Before that, a manager that is killed suspects them.
			c.tried(t, providerName, built("static.wasm"))
			c.tried(t, remote, module)
			if err := syscall.Kill(n.process(t), syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
		},
	} {
		before, holder := c.leader(t), c.holder(t)
		c.page(t, address, before)
		replace(t, before)
		// It may be the manager in the Pod that replaces this one.
		c.await(t, "another leads", patience, func(context.Context) bool { now := c.holder(t); return now != "" && now != holder })
		u.leads(t)
		after := c.leader(t)
		service := fmt.Sprintf("after-%d", round)
		c.kubectl(t, "create", "service", "loadbalancer", service, "--tcp=80:8080")
		watch.shows(t, c, `# another manager answers: `+hostname(after.name))
		watch.shows(t, c, `lb_ensure +PUT .* Service default/`+service+` `)
		c.page(t, address, after)
		if err := os.WriteFile(module, append(readFile(t, module), 0, 3, 1, 'n', byte(round)), 0o600); err != nil { // a custom section
			t.Fatal(err)
		}
		dev.shows(t, c, fmt.Sprintf(`(?s)(serves after .*){%d}first op after .*: ok, took`, round+1))
		c.running(t, "the manager that was ended is ready", before, anyPod)
	}
}

// leads asks for the status until a manager leads. Meanwhile ccmctl says in one line
// what it waits for, or which manager stands by.
func (u user) leads(t *testing.T) {
	t.Helper()
	u.await(t, "ccmctl status shows a leader", patience, func(context.Context) bool {
		out, err := u.ccmctl(t, "status")
		if err != nil && strings.Count(out, "\n") != 1 {
			t.Errorf("the error is not one line: %q", out)
		}
		return err == nil && strings.Contains(out, ", and leads\n")
	})
}

// tried waits until a module of a provider has passed its trial.
func (c *cluster) tried(t *testing.T, provider, module string) {
	t.Helper()
	digest := fmt.Sprintf("%x", sha256.Sum256(readFile(t, module)))
	c.await(t, "the module of provider "+provider+" is trusted", patience, func(context.Context) bool {
		out, err := c.quietly(t, "-n", namespace, "get", "configmap", "wasm-ccm-provider-"+provider, "-o", "jsonpath={.data.trials}")
		var book struct{ Passed []struct{ Module string } }
		return err == nil && json.Unmarshal([]byte(out), &book) == nil &&
			slices.ContainsFunc(book.Passed, func(s struct{ Module string }) bool { return s.Module == digest })
	})
}

// holder is who leads, NODE_UID, "" while nobody does.
func (c *cluster) holder(t *testing.T) string {
	t.Helper()
	out, err := c.quietly(t, "-n", namespace, "get", "lease", workload, "-o", "jsonpath={.spec.holderIdentity}")
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// withCloud installs the manager by the chart, with a provider for Nodes, and one for
// Services that has a cloud.
func (c *cluster) withCloud(t *testing.T) {
	t.Helper()
	c.kubectl(t, "-n", namespace, "delete", "daemonset", workload, "--cascade=foreground", "--ignore-not-found")
	c.kubectl(t, "delete", "--ignore-not-found", "-k", manifests(t))
	c.kubectl(t, "delete", "services", "--field-selector=spec.type=LoadBalancer", "--wait=false")
	cloud := newCloud(t)
	c.offer(t, "replace", module("static.wasm"))
	c.kubectl(t, "-n", namespace, "create", "configmap", "cloud-provider-"+remote, "--from-file=provider.wasm="+built("faulty.wasm"))
	text := "providers:\n" +
		"- name: " + providerName + "\n  routing: {nodes: {ask: true}}\n  config: |\n    " + strings.ReplaceAll(strings.TrimSpace(inventory(2)), "\n", "\n    ") + "\n" +
		"- name: " + remote + "\n  routing: {services: {default: true}}\n  rollout: {observePeriod: 1s}\n  config: count=http://" + cloud.address + "\n" +
		"  grants:\n  - {scheme: http, host: " + bridgeAddress + ", port: " + cloud.port() + ", pathPrefix: /}\n"
	c.helm(t, "install", "--values", written(t, "values.yaml", text))
	c.rolledOut(t)
}

// page loads the status page through ccmctl dashboard until it is that of this node's
// manager, as somebody does who loads it again.
func (c *cluster) page(t *testing.T, address string, leader *node) {
	t.Helper()
	c.await(t, "the dashboard shows the manager of "+leader.name, patience, func(ctx context.Context) bool {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
		if err != nil {
			t.Fatal(err)
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatalf("ccmctl dashboard has ended: %v", err)
		}
		defer response.Body.Close()
		page, err := io.ReadAll(response.Body)
		return err == nil && response.StatusCode == http.StatusOK && bytes.Contains(page, []byte(hostname(leader.name)+":10258"))
	})
}

// going is a command that goes on until the test ends.
type going struct{ *process }

// goesOn starts ccmctl, which ends well by Ctrl-C at the end of the test.
func (u user) goesOn(t *testing.T, name string, args ...string) going {
	t.Helper()
	p := launch(t, "ccmctl-"+name, u.command(context.Background(), built("ccmctl"), append(args, "--kubeconfig="+u.kubeconfig)...))
	t.Cleanup(func() {
		t.Logf("$ ccmctl %s\n%s", strings.Join(args, " "), readFile(t, logFile(p.name)))
		if err := p.cmd.Process.Signal(os.Interrupt); err != nil {
			t.Errorf("ccmctl %q: %v", args, err)
		}
		select {
		case <-p.done:
		case <-time.After(patience):
			t.Errorf("ccmctl %q does not end by Ctrl-C", args)
			p.kill(t)
		}
		if code := p.cmd.ProcessState.ExitCode(); code != 0 {
			t.Errorf("ccmctl %q ends with %d", args, code)
		}
	})
	return going{p}
}

// shows waits until the command has said something, which it returns.
func (g going) shows(t *testing.T, c *cluster, pattern string) (found string) {
	t.Helper()
	re := regexp.MustCompile(pattern)
	c.await(t, g.name+" shows "+pattern, patience, func(context.Context) bool {
		found = re.FindString(string(readFile(t, logFile(g.name))))
		return found != "" || g.ended()
	})
	if found == "" {
		t.Fatalf("%s has ended without %q:\n%s", g.name, pattern, tail(logFile(g.name)))
	}
	return found
}
