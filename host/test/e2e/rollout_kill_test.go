package e2e

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// kill is a rollout in the middle of which the manager is killed.
type kill struct {
	phase string // the last one that is reached
	// rollout is what the HostConfiguration says of it.
	rollout string
	// config is of the candidate. It makes the phase last, or the way to it
	// after the restart, so that what was kept is seen to serve first.
	config string
	// slowCode: the candidate is one that takes long to compile.
	slowCode bool
	// recorded: the manager is killed as soon as its record has the phase, too.
	recorded bool
}

// kills are one in each phase that lasts. Compiled is left out, since it ends
// with describe, which has no configuration; and Shadowed, since the swap
// follows at once.
func kills() []kill {
	// Another module with another configuration serves where that is allowed.
	const observed, quick = "{shadow: Allowed, observePeriod: 1h}", "{shadow: Allowed, observePeriod: 1s}"
	return []kill{
		{phase: "Verified", rollout: observed, slowCode: true},
		{phase: "Described", rollout: observed, config: "configure=slow:20s"},
		{phase: "Configured", rollout: observed, config: "probe=slow:20s"},
		// The replay of what was asked lately takes long. After the restart
		// nothing was asked lately.
		{phase: "Probed", rollout: observed, config: "probe=slow:3s\nmetadata=slow:20s"},
		{phase: "Serving", rollout: observed, config: "probe=slow:3s"},
		{phase: "Kept", rollout: quick, config: "probe=slow:3s"},
		{phase: "Kept", rollout: quick, recorded: true},
		{phase: "Held", rollout: "{shadow: Required, observePeriod: 1h}", recorded: true},
		{phase: "RolledBack", rollout: observed, config: "trap=1", recorded: true},
	}
}

// way are the phases of a rollout, in the words of the log.
var way = []string{"Verified", "Compiled", "Described", "Configured", "Probed", "Shadowed", "Serving", "Kept"}

// name is of its managers, and the zone of its candidate.
func (k kill) name() string {
	if k.recorded {
		return strings.ToLower(k.phase) + "-recorded"
	}
	return strings.ToLower(k.phase)
}

// want are the phases that the log has by then.
func (k kill) want() []string {
	switch i := slices.Index(way, k.phase); {
	case i >= 0:
		return way[:i+1]
	case k.phase == "Held":
		return append(slices.Clone(way[:slices.Index(way, "Shadowed")]), k.phase)
	}
	return append(slices.Clone(way[:slices.Index(way, "Kept")]), k.phase)
}

// TestKillAtEveryPhase ends the manager with SIGKILL in each phase of a rollout
// that lasts. The next manager serves with what was kept last before it does
// anything else, and asks the cloud for no write.
func TestKillAtEveryPhase(t *testing.T) {
	if testing.Short() {
		t.Skip("make test-all runs it")
	}
	t.Parallel() // it has a control plane of its own
	r := newRig(t, "kill")
	ctx := t.Context()
	k := &killer{rig: r, good: r.wasm(t, "faulty.wasm"), config: "count=" + r.url("a") + "\nzone=first"}
	r.put(ctx, t, configMap, k.good, k.config)
	m := k.start(t, "first", kill{rollout: "{observePeriod: 1s}"})
	for i := range 3 {
		r.node(ctx, t, "a", fmt.Sprintf("node-%d", i))
	}
	r.awaitInitialized(ctx, t, m)
	for i := range killServices {
		r.service(ctx, t, r.namespace, fmt.Sprintf("web-%d", i), nil)
	}
	r.awaitRight(ctx, t, m, "a")
	r.awaitRecorded(ctx, t, m, "a", k.good)
	m.kill()
	for _, one := range kills() {
		k.run(ctx, t, one)
	}
}

const killServices = 5

// killer is what goes on from one kill to the next.
type killer struct {
	*rig
	good   []byte // what was kept last
	config string // of it
}

func (k *killer) start(t *testing.T, name string, one kill) *manager {
	t.Helper()
	text := strings.Replace(oneProvider, "{observePeriod: 1s}", one.rollout, 1)
	return k.startManager(t, name, k.hostConfiguration(t, text), "--leader-elect=false", "--node-status-update-frequency=100ms")
}

// run lets a manager begin with the rollout of a candidate, kills it, and
// looks at the next one.
func (k *killer) run(ctx context.Context, t *testing.T, one kill) {
	t.Helper()
	name := one.name()
	next := append(bytes.Clone(k.good), customSection("killed-at", []byte(name))...)
	if one.slowCode {
		next = slowToCompile(t, next)
	}
	config := "count=" + k.url("a") + "\nzone=" + name + "\n" + one.config
	m := k.start(t, name, one)
	k.awaitRestored(ctx, t, m)
	k.awaitServing(ctx, t, m, k.good)
	k.awaitSamples(ctx, t, m)
	k.awaitExamined(ctx, t, m)
	account := k.cloud.account("a")
	account.mark()
	k.offer(ctx, t, next, config)
	k.killAt(ctx, t, m, one, func() bool {
		return !one.recorded || k.refused(ctx, "a", one.phase) || k.recordedAsKept(ctx, next)
	})
	m = k.start(t, "after-"+name, one)
	// Not before: a write of the one that was killed may have been under way.
	if first := k.awaitFirst(ctx, t, m); first == "Serving" && one.phase == "Kept" && k.passed(ctx, next) {
		// Killed between the book and the record: the observation goes on, and ends well again.
		k.good, k.config = next, config
		k.until(ctx, t, m, "it is kept again", func() (bool, string) { return k.recordedAsKept(ctx, next), m.tail(1 << 10) })
	} else if first != "Kept" {
		t.Fatalf("the manager %s begins with %v, and not with what was kept last", m.name, phases(m))
	} else if good := k.keptBy(ctx, "a", "record"); one.phase == "Kept" && k.recordedAsKept(ctx, next) {
		k.good, k.config = next, config // without recorded the kill may be the first
	} else if good != digest(k.good) && one.phase != "Kept" {
		t.Fatalf("a kill at %s leaves %s as the last good one, want %s", one.phase, good, digest(k.good))
	}
	k.checkRestart(ctx, t, m, one)
	k.awaitEnsured(ctx, t, m)
	if lines := account.writtenSinceMark(); lines != "" {
		t.Errorf("after a kill at %s, written at the cloud:\n%s", one.phase, lines)
	}
	m.kill()
	k.offer(ctx, t, k.good, k.config)
}

// recordedAsKept reports whether the record and the book of trials both say so.
// Of what the book still calls a trial, the next manager takes the one before.
func (k *killer) recordedAsKept(ctx context.Context, module []byte) bool {
	return k.keptBy(ctx, "a", "record") == digest(module) && k.passed(ctx, module)
}

// passed reports whether the book of trials has a module as one that passed.
func (k *killer) passed(ctx context.Context, module []byte) bool {
	var book struct{ Passed []struct{ Module string } }
	return k.told(ctx, "a", "trials", &book) == nil &&
		slices.Contains(book.Passed, struct{ Module string }{strings.TrimPrefix(digest(module), "sha256:")})
}

// offer compresses the module, since one of them is larger than a ConfigMap.
func (k *killer) offer(ctx context.Context, t *testing.T, module []byte, config string) {
	t.Helper()
	small, err := compress(module)
	if err != nil {
		t.Fatal(err)
	}
	content := map[string][]byte{"provider.wasm.gz": small, "cloud.conf": []byte(config)}
	if err := putConfigMap(ctx, k.client, k.namespace, configMap, content); err != nil {
		t.Fatal(err)
	}
}

// awaitRestored waits for the first phase in the log of a manager. It has to be
// Kept, of what was kept before the manager began.
func (k *killer) awaitRestored(ctx context.Context, t *testing.T, m *manager) {
	t.Helper()
	if k.awaitFirst(ctx, t, m) != "Kept" {
		t.Fatalf("the manager %s begins with %v, and not with what was kept last", m.name, phases(m))
	}
}

// awaitFirst returns the first phase in the log of a manager.
func (k *killer) awaitFirst(ctx context.Context, t *testing.T, m *manager) string {
	t.Helper()
	k.until(ctx, t, m, "something serves", func() (bool, string) { return len(phases(m)) > 0, m.tail(1 << 10) })
	return phases(m)[0]
}

// awaitExamined waits until what was restored is Kept for the second time, which
// is what this manager has seen of it itself.
func (k *killer) awaitExamined(ctx context.Context, t *testing.T, m *manager) {
	t.Helper()
	k.until(ctx, t, m, "what serves is examined", func() (bool, string) {
		said := phases(m)
		return slices.Equal(said, []string{"Kept", "Kept"}), fmt.Sprint(said)
	})
}

// awaitSamples waits until each Node has been looked at: there is something to
// compare the answers of a candidate with.
func (k *killer) awaitSamples(ctx context.Context, t *testing.T, m *manager) {
	t.Helper()
	k.until(ctx, t, m, "the Nodes are looked at", func() (bool, string) {
		n := k.metrics(t, m).sum(`^wasm_ccm_provider_op_duration_seconds_count\{.*code="ok".*op="instance_metadata"`)
		return n >= 10, fmt.Sprint(n)
	})
}

// awaitEnsured waits until all Services have been looked at once.
func (k *killer) awaitEnsured(ctx context.Context, t *testing.T, m *manager) {
	t.Helper()
	k.until(ctx, t, m, "every Service is looked at", func() (bool, string) {
		n := k.metrics(t, m).sum(`^wasm_ccm_provider_op_duration_seconds_count\{.*code="ok".*op="lb_ensure"`)
		return n >= killServices, fmt.Sprint(n)
	})
}

// killAt ends the manager as soon as its log says the phase and recorded
// reports true, and checks that it had come no further by then.
func (k *killer) killAt(ctx context.Context, t *testing.T, m *manager, one kill, recorded func() bool) {
	t.Helper()
	deadline := time.After(reportPatience)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !slices.Contains(sinceRestored(m), one.phase) || !recorded() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatal(ctx.Err())
		case <-deadline:
			t.Fatalf("the log never says the phase %s, but %v", one.phase, phases(m))
		}
	}
	seen := time.Now()
	m.kill()
	said := sinceRestored(m)
	t.Logf("%s: killed within %v, the log says %v", one.name(), time.Since(seen).Round(time.Millisecond), said)
	if want := one.want(); !slices.Equal(said, want) {
		t.Fatalf("the kill was to be in %s, but the log says %v, want %v", one.phase, said, want)
	}
}

// checkRestart: what was kept last serves, before anything is done about the
// candidate, and a Node gets the zone that it says. What was refused is refused
// still.
func (k *killer) checkRestart(ctx context.Context, t *testing.T, m *manager, one kill) {
	t.Helper()
	k.awaitServing(ctx, t, m, k.good)
	if said := phases(m); slices.Contains(said[1:], "Serving") && said[0] == "Kept" {
		t.Fatalf("after a kill at %s the next manager says %v: the candidate is too quick for what follows", one.phase, said)
	}
	name := "after-" + one.name()
	k.node(ctx, t, "a", name, corev1.LabelNodeExcludeBalancers)
	_, zone, _ := strings.Cut(k.config, "zone=")
	zone, _, _ = strings.Cut(zone, "\n")
	k.until(ctx, t, m, "a new Node is initialised", func() (bool, string) {
		node, err := k.client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		if err != nil || node.Labels[corev1.LabelTopologyZone] == "" {
			return false, fmt.Sprint(err)
		}
		if got := node.Labels[corev1.LabelTopologyZone]; got != zone {
			t.Fatalf("after a kill at %s a Node gets the zone %s, want %s of what was kept last", one.phase, got, zone)
		}
		return true, ""
	})
	if one.recorded && one.phase != "Kept" {
		k.until(ctx, t, m, "it is "+one.phase+" still", func() (bool, string) {
			said := sinceRestored(m)
			others := slices.DeleteFunc(slices.Clone(said), func(phase string) bool { return phase == "Kept" }) // what serves is examined meanwhile
			return slices.Equal(slices.Compact(others), []string{one.phase}) && said[len(said)-1] == one.phase, fmt.Sprint(said)
		})
	}
	t.Logf("%s: a new Node has the zone %s when the next log says %v", one.name(), zone, phases(m))
}

var phaseLine = regexp.MustCompile(`"(?:rollout"(?: \w+="[^"]*")* phase="(\w+)|provider is (serving))"`)

// phases are those that a log says, as far as it is written.
func phases(m *manager) (all []string) {
	for _, found := range phaseLine.FindAllStringSubmatch(readFile(m.logPath), -1) {
		phase := found[1]
		if phase == "" {
			phase = "Serving"
		}
		all = append(all, phase)
	}
	return all
}

// slowFunctions of slowStores each take some seconds to compile.
const (
	slowFunctions = 8000
	slowStores    = 150
)

// slowToCompile adds functions to a module that nobody calls.
func slowToCompile(t *testing.T, module []byte) []byte {
	t.Helper()
	body := []byte{0} // no locals
	for range slowStores {
		body = append(body, 0x41, 0, 0x41, 7, 0x36, 2, 0) // i32.store of 7 at 0
	}
	body = append(body, 0x00, 0x0b) // unreachable, end: fits every type
	body = append(binary.AppendUvarint(nil, uint64(len(body))), body...)
	const functionSection, codeSection = 3, 10
	out := bytes.Clone(module[:8])
	for rest := module[8:]; len(rest) > 0; {
		id := rest[0]
		size, n := binary.Uvarint(rest[1:])
		content := rest[1+n : 1+n+int(size)]
		rest = rest[1+n+int(size):]
		switch id {
		case functionSection:
			content = extend(content, []byte{0}) // of the first type
		case codeSection:
			content = extend(content, body)
		}
		out = append(binary.AppendUvarint(append(out, id), uint64(len(content))), content...)
	}
	return out
}

// extend appends an entry to a vector many times.
func extend(vector, entry []byte) []byte {
	count, n := binary.Uvarint(vector)
	out := append(binary.AppendUvarint(nil, count+slowFunctions), vector[n:]...)
	return append(out, bytes.Repeat(entry, slowFunctions)...)
}

// sinceRestored are the phases after those of what was kept before the manager
// began.
func sinceRestored(m *manager) []string {
	said := phases(m)
	other := slices.IndexFunc(said, func(phase string) bool { return phase != "Kept" })
	if other < 0 {
		return nil
	}
	return said[other:]
}
