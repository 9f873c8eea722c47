package e2e

import (
	"fmt"
	"io"
	"net"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/tools/clientcmd"
)

const (
	reboots = 3
	// servesSoon is from the start of a manager until it serves, on a machine that
	// does other things as well. The lease of one that was killed is in it.
	servesSoon = 30 * time.Second
)

// TestARestartGoesOn ends the manager in order while a good module is observed. The
// next one begins with that module, and its observation goes on and ends well.
func TestARestartGoesOn(t *testing.T) {
	if testing.Short() {
		t.Skip("make test-all runs it")
	}
	t.Parallel() // it has a control plane of its own
	l := newLife(t, "restart", "{observePeriod: 40s}")
	l.settle(t)
	next := l.variant(t, "next")
	l.offer(t, next)
	l.awaitPhase(t, next, "Serving")
	served := time.Now()
	l.cloud.account("a").mark()
	ends(t, l.m)
	l.restart(t)
	l.begins(t, next)
	v := l.awaitPhase(t, next, "Serving", "Kept")
	if v.Phase != "Serving" {
		t.Errorf("after %v it is %v: it has to be observed for 40 s", time.Since(served), v)
	}
	v = l.awaitPhase(t, next, "Kept")
	t.Logf("observed for %.0f s over a restart: %v", time.Since(served).Seconds(), v)
	if lines := l.cloud.account("a").writtenSinceMark(); lines != "" {
		t.Errorf("written at the cloud:\n%s", lines)
	}
	l.initialises(t, "later")
}

// begins checks that the first module that the manager serves with is this one, and
// that this is soon.
func (l *life) begins(t *testing.T, module []byte) {
	t.Helper()
	begun := time.Now()
	var serving string
	l.untilWithin(t.Context(), t, l.m, servesSoon, "something serves", func() (bool, string) {
		text, err := l.m.metrics(l.scrape)
		for line := range strings.Lines(text) {
			if strings.HasPrefix(line, "wasm_ccm_provider_serving{") && strings.HasSuffix(line, " 1\n") {
				serving = line
			}
		}
		return serving != "", fmt.Sprint(err, grep(text, "wasm_ccm_provider_serving"))
	})
	t.Logf("it serves %.1f s after the start", time.Since(begun).Seconds())
	if !strings.Contains(serving, strings.TrimPrefix(digest(module), "sha256:")) {
		t.Fatalf("it begins with %s, want %s; its log says %v", serving, digest(module), phases(l.m))
	}
}

// TestTheNewestTrialIsBlamedAlone kills the manager while it tries a module that was
// offered some seconds after a good one was kept, and while it observes one.
// The new ones are suspected, and nothing else; the good one serves; and the one
// command that is told everywhere lets a suspect be tried again.
func TestTheNewestTrialIsBlamedAlone(t *testing.T) {
	if testing.Short() {
		t.Skip("make test-all runs it")
	}
	t.Parallel() // it has a control plane of its own
	l := newLife(t, "blame", "{observePeriod: 1h}")
	l.offer(t, l.good)
	l.begin(t)
	l.awaitPhase(t, l.good, "Kept")
	bad := l.variant(t, "bad", "configure=slow:25s")
	l.offer(t, bad)
	l.until(t.Context(), t, l.m, "it is tried", func() (bool, string) {
		said := phases(l.m)
		return said[len(said)-1] == "Described", fmt.Sprint(said)
	})
	l.killed(t, l.good, bad)
	l.furnish(t)
	l.inOrder(t)
	l.namesThePromotion(t, bad)

	observed := l.variant(t, "observed")
	l.offer(t, observed)
	l.awaitPhase(t, observed, "Serving")
	l.killed(t, l.good, bad, observed)
	l.ccmctl(t, "rollout", "promote", "a", strings.TrimPrefix(digest(observed), "sha256:")[:12])
	l.awaitPhase(t, observed, "Serving")
	l.serves(t, observed)
}

// killed ends the manager by SIGKILL. The next one serves with what is good, and
// suspects these modules, and no others.
func (l *life) killed(t *testing.T, good []byte, suspects ...[]byte) {
	t.Helper()
	l.m.kill()
	l.restart(t)
	l.begins(t, good)
	l.awaitPhase(t, suspects[len(suspects)-1], "Rejected")
	var want []string
	for _, module := range suspects {
		want = append(want, digest(module))
	}
	got, err := l.suspects(t.Context(), "a")
	if slices.Sort(want); err != nil || !slices.Equal(slices.Sorted(slices.Values(got)), want) {
		t.Fatalf("suspected %v, want %v: %v", got, want, err)
	}
}

// TestRebootsBlameNobody reboots a one-node cluster again and again, within an hour.
// The API server ends first, and the manager in order after it.
func TestRebootsBlameNobody(t *testing.T) {
	if testing.Short() {
		t.Skip("make test-all runs it")
	}
	t.Parallel() // it has a control plane of its own
	l := newLife(t, "reboot", "{observePeriod: 1s}")
	gate := newGate(t, l)
	l.settle(t)
	for n := range reboots {
		gate.shut()
		begun := time.Now()
		ends(t, l.m)
		t.Logf("reboot %d: it ends with %v, %.1f s after SIGTERM", n+1, l.m.cmd.ProcessState, time.Since(begun).Seconds())
		gate.open()
		l.restart(t)
		l.begins(t, l.good)
		l.initialises(t, fmt.Sprintf("later-%d", n))
		if suspects, err := l.suspects(t.Context(), "a"); err != nil || len(suspects) > 0 {
			t.Fatalf("after reboot %d: suspected %v, %v", n+1, suspects, err)
		}
	}
}

// gate is the way to the API server, for the manager alone.
type gate struct {
	target   string // host:port
	listener net.Listener

	mu          sync.Mutex
	isShut      bool
	connections []net.Conn
}

// newGate has the managers of a cluster take it.
func newGate(t *testing.T, l *life) *gate {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	kubeconfig, err := l.cluster.UserKubeconfig(l.m.user, "system:masters")
	if err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.LoadFromFile(kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	g := &gate{listener: listener}
	for _, cluster := range config.Clusters {
		server, err := url.Parse(cluster.Server)
		if err != nil {
			t.Fatal(err)
		}
		g.target, server.Host = server.Host, listener.Addr().String()
		cluster.Server = server.String()
	}
	gated := filepath.Join(l.dir, "gated.kubeconfig")
	if err := clientcmd.WriteToFile(*config, gated); err != nil {
		t.Fatal(err)
	}
	l.flags = append(l.flags, "--kubeconfig="+gated, "--authentication-kubeconfig="+gated, "--authorization-kubeconfig="+gated)
	t.Cleanup(func() {
		_ = listener.Close()
		g.shut()
	})
	go g.serve()
	return g
}

// serve ends with the listener.
func (g *gate) serve() {
	for {
		near, err := g.listener.Accept()
		if err != nil {
			return
		}
		if far := g.through(near); far != nil {
			go func() { _, _ = io.Copy(far, near) }() // both end with shut, or with one side
			go func() { _, _ = io.Copy(near, far) }()
		}
	}
}

// through returns the other side of a connection, nil where the gate is shut.
func (g *gate) through(near net.Conn) net.Conn {
	g.mu.Lock()
	defer g.mu.Unlock()
	far, err := net.Dial("tcp", g.target)
	if err != nil || g.isShut {
		_ = near.Close()
		return nil
	}
	g.connections = append(g.connections, near, far)
	return far
}

// shut cuts what goes through, and lets nothing through any more.
func (g *gate) shut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.isShut = true
	for _, c := range g.connections {
		_ = c.Close()
	}
	g.connections = nil
}

func (g *gate) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.isShut = false
}
