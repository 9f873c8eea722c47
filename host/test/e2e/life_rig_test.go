package e2e

import (
	"bytes"
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	stillNodes    = 3
	stillServices = 2
	// inbornMark and inbornRoom are where a build of guests/faulty has lines of
	// configuration of its own.
	inbornMark = "inborn:"
	inbornRoom = 96
	// told is the longest that a state waits until everybody is told of it.
	told = 15 * time.Second
)

// life is a cluster that nobody touches, and a provider whose builds come and
// go. Its managers have the shipped periods: what is not asked by the host itself
// is not asked while a test lasts.
type life struct {
	*rig
	m      *manager // the one of now
	good   []byte
	config string
	flags  []string
}

// newLife has a manager that waits for the first module of the provider a, whose
// rollout is the YAML text of the HostConfiguration.
func newLife(t *testing.T, namespace, rollout string) *life {
	t.Helper()
	l := &life{rig: newRig(t, namespace)}
	l.good, l.config = l.wasm(t, "faulty.wasm"), "count="+l.url("a")+"\nzone=z1"
	m, usual := l.manager(t, namespace)
	l.flags = append(withoutSource(usual, []string{"--config="}),
		l.hostConfiguration(t, strings.Replace(oneProvider, "{observePeriod: 1s}", rollout, 1)),
		"--node-status-update-frequency=5m", "--node-monitor-period=5s", "--provider-compilation-cache-dir="+t.TempDir())
	l.m = m
	return l
}

// begin starts the first manager.
func (l *life) begin(t *testing.T) {
	t.Helper()
	l.start(t, l.m, l.binary(), l.flags)
}

// restart starts the manager that comes after one that has ended: at the same
// place, as that of a DaemonSet.
func (l *life) restart(t *testing.T) {
	t.Helper()
	before := l.m
	l.m = &manager{name: before.name, user: before.user, secure: before.secure, probe: before.probe, logPath: before.logPath + "+", done: make(chan struct{})}
	l.begin(t)
}

// offer puts a module into the source, with the configuration of all.
func (l *life) offer(t *testing.T, module []byte) {
	t.Helper()
	l.put(t.Context(), t, configMap, module, l.config)
}

// variant is another build of the good module, with lines of configuration that
// only this build has.
func (l *life) variant(t *testing.T, name string, lines ...string) []byte {
	t.Helper()
	text := strings.Join(lines, "\n")
	room := []byte(inbornMark + strings.Repeat(" ", inbornRoom))
	if len(text) > inbornRoom || bytes.Count(l.good, room) != 1 {
		t.Fatalf("no room for %q in faulty.wasm: run make guests-test", text)
	}
	written := []byte(inbornMark + text + strings.Repeat(" ", inbornRoom-len(text)))
	return append(bytes.Replace(l.good, room, written, 1), customSection("build", []byte(name))...)
}

// furnish makes the Nodes and Services, which are right afterwards.
func (l *life) furnish(t *testing.T) {
	t.Helper()
	for i := range stillNodes {
		l.node(t.Context(), t, "a", fmt.Sprintf("node-%d", i))
	}
	for i := range stillServices {
		l.service(t.Context(), t, l.namespace, fmt.Sprintf("web-%d", i), nil)
	}
}

// settle has the good module serve the cluster, and a restart begin with it.
func (l *life) settle(t *testing.T) {
	t.Helper()
	l.offer(t, l.good)
	l.begin(t)
	l.serves(t, l.good)
	l.furnish(t)
	l.inOrder(t)
	l.awaitRecorded(t.Context(), t, l.m, "a", l.good)
}

func (l *life) inOrder(t *testing.T) {
	t.Helper()
	l.awaitInitialized(t.Context(), t, l.m)
	l.awaitRight(t.Context(), t, l.m, "a")
}

func (l *life) serves(t *testing.T, module []byte) {
	t.Helper()
	l.awaitServing(t.Context(), t, l.m, module)
}

// initialises joins a machine, and waits until the provider has initialised it.
func (l *life) initialises(t *testing.T, name string) {
	t.Helper()
	l.node(t.Context(), t, "a", name)
	l.awaitInitialized(t.Context(), t, l.m)
}

// verdict is what the status says of a rollout.
type verdict struct {
	Phase, Reason, Message string
	Generation             int
	Offered, Serving       struct{ Digest string }
}

func (v verdict) String() string { return v.Phase + " " + v.Reason + ": " + v.Message }

// of reports whether it is about a module, and serving whether that serves.
func (v verdict) of(module []byte) bool      { return sameDigest(v.Offered.Digest, module) }
func (v verdict) serving(module []byte) bool { return sameDigest(v.Serving.Digest, module) }

func sameDigest(said string, module []byte) bool {
	return strings.TrimPrefix(said, "sha256:") == strings.TrimPrefix(digest(module), "sha256:")
}

func (l *life) verdict(t *testing.T) (v verdict) {
	if err := l.told(t.Context(), "a", "status", &v); err != nil {
		v.Message = err.Error()
	}
	return v
}

// awaitPhase waits until what is offered is in one of these phases.
func (l *life) awaitPhase(t *testing.T, module []byte, phases ...string) (v verdict) {
	t.Helper()
	l.until(t.Context(), t, l.m, fmt.Sprintf("the module is in a phase of %q", phases), func() (bool, string) {
		v = l.verdict(t)
		return v.of(module) && slices.Contains(phases, v.Phase), v.String()
	})
	return v
}

// awaitRefused waits until a module is out, and fails the test when it serves
// instead. It says how long that took.
func (l *life) awaitRefused(t *testing.T, module []byte) (v verdict, took time.Duration) {
	t.Helper()
	begun := time.Now()
	v = l.awaitPhase(t, module, "Rejected", "Held", "RolledBack", "Serving", "Kept")
	if v.serving(module) {
		t.Errorf("it serves: %v", v)
	}
	return v, time.Since(begun).Round(100 * time.Millisecond)
}

// proven is the message of what is kept where there is something to ask about.
var proven = regexp.MustCompile(`\d+ calls?, 0 failed, [1-9]\d* questions? of the host's own`)

// ccmctl runs a command, and returns what it says.
func (l *life) ccmctl(t *testing.T, args ...string) string {
	t.Helper()
	out, complaint, err := viewer{l.cluster, l.client, l.build, l.namespace, l.dir}.ccmctl(t.Context(), l.m, args)
	if err != nil {
		t.Fatalf("ccmctl %q: %v\n%s%s", args, err, out, complaint)
	}
	return out
}

// namesThePromotion checks that every place that tells of a refusal has the one
// command that lets the module through.
func (l *life) namesThePromotion(t *testing.T, module []byte) {
	t.Helper()
	command := "ccmctl rollout promote a " + strings.TrimPrefix(digest(module), "sha256:")[:12]
	places := map[string]func() string{
		"the status":             func() string { return l.verdict(t).Message },
		"an Event":               func() string { return l.events(t) },
		"ccmctl status":          func() string { return l.ccmctl(t, "status") },
		"ccmctl why":             func() string { return l.ccmctl(t, "why", "provider", "a") },
		"ccmctl rollout history": func() string { return l.ccmctl(t, "rollout", "history", "a") },
	}
	for deadline := time.Now().Add(told); len(places) > 0 && pause(t.Context(), interval); {
		for what, says := range places {
			text := strings.Join(strings.Fields(says()), " ")
			switch {
			case strings.Contains(text, command):
				delete(places, what)
			case time.Now().After(deadline):
				t.Errorf("%s does not say %q:\n%s", what, command, text)
				delete(places, what)
			}
		}
	}
}

// events are the messages of those in the namespace.
func (l *life) events(t *testing.T) string {
	t.Helper()
	list, err := l.client.CoreV1().Events(l.namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	for _, e := range list.Items {
		fmt.Fprintf(&text, "%s %s: %s\n", e.Type, e.Reason, e.Message)
	}
	return text.String()
}

// suspects are the modules that nobody runs, by their digests.
func (r *rig) suspects(ctx context.Context, provider string) (modules []string, err error) {
	var book struct{ Suspects []bookEntry }
	if err := r.told(ctx, provider, "trials", &book); err != nil {
		return nil, err
	}
	for _, s := range book.Suspects {
		modules = append(modules, "sha256:"+s.Module)
	}
	return modules, nil
}
