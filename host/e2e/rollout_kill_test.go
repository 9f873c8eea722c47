package e2e

import (
	"bytes"
	"context"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"
)

// TestKillAtEveryPhase ends the manager with SIGKILL in the middle of a rollout,
// as soon as its log says that a phase is reached. The next manager serves with
// what was kept last, and asks the cloud for no write.
func TestKillAtEveryPhase(t *testing.T) {
	r := newRig(t, "kill")
	ctx := t.Context()
	config := "count=" + r.url("a")
	flags := []string{r.hostConfiguration(t, oneProvider), "--leader-elect=false"}
	guest := r.wasm(t, "faulty.wasm")
	r.put(ctx, t, configMap, guest, config)
	m := r.startManager(t, "first", flags...)
	for i := range 3 {
		r.node(ctx, t, "a", fmt.Sprintf("node-%d", i))
	}
	r.awaitInitialized(ctx, t, m)
	for i := range 5 {
		r.service(ctx, t, r.namespace, fmt.Sprintf("web-%d", i), nil)
	}
	r.awaitRight(ctx, t, m, "a")
	r.awaitKept(ctx, t, m, "a", guest)

	k := &killer{rig: r, flags: flags, config: config, good: guest, manager: m}
	for _, phase := range []string{"Verified", "Compiled", "Described", "Configured", "Probed", "Shadowed", "Serving", "Kept"} {
		next := append(bytes.Clone(guest), customSection("killed-at", []byte(phase))...)
		k.kill(ctx, t, phase, next)
	}
}

// killer is what goes on from one kill to the next.
type killer struct {
	*rig
	flags   []string
	config  string
	good    []byte // what was kept last
	manager *manager
}

// kill ends the manager at a phase of the rollout of the next module, and
// starts another one.
func (k *killer) kill(ctx context.Context, t *testing.T, phase string, next []byte) {
	t.Helper()
	account := k.cloud.account("a")
	account.mark()
	from := len(readFile(k.manager.logPath))
	k.put(ctx, t, configMap, next, k.config)
	killAt(ctx, t, k.manager, phase, from)
	status, good := k.phase(ctx, "a"), k.kept(ctx, "a")
	said := phaseLine.FindAllStringSubmatch(readFile(k.manager.logPath), -1)
	m := k.startManager(t, "after-"+strings.ToLower(phase), k.flags...)
	first := firstPhase(ctx, t, k.rig, m)
	t.Logf("%s: killed when the log said %s at last and the status %s; the next one begins with what was kept last: %v",
		phase, said[len(said)-1][1], status, first == "Kept")
	if good != digest(k.good) && (phase != "Kept" || good != digest(next)) {
		t.Fatalf("a kill at %s leaves %s as the last good one, want %s", phase, good, digest(k.good))
	}
	if first != "Kept" {
		t.Fatalf("after a kill at %s the next manager begins with the phase %s, and not with what was kept last", phase, first)
	}
	// It comes as far as it can now, and all has been looked at once.
	k.awaitServing(ctx, t, m, next)
	k.awaitKept(ctx, t, m, "a", next)
	k.until(ctx, t, m, "every Service is looked at", func() (bool, string) {
		n := k.metrics(t, m).sum(`^wasm_ccm_provider_op_duration_seconds_count\{.*code="ok".*op="lb_ensure"`)
		return n >= 5, fmt.Sprint(n)
	})
	if lines := account.writtenSinceMark(); lines != "" {
		t.Errorf("after a kill at %s, written at the cloud:\n%s", phase, lines)
	}
	k.good, k.manager = next, m
}

// killAt ends the manager when its log says the phase, behind from.
func killAt(ctx context.Context, t *testing.T, m *manager, phase string, from int) {
	t.Helper()
	pattern := `"rollout" phase="` + phase + `"`
	if phase == "Serving" {
		pattern = `"provider is serving"`
	}
	re := regexp.MustCompile(pattern)
	deadline := time.After(reportPatience)
	for tick := time.NewTicker(time.Millisecond); ; {
		text := readFile(m.logPath)
		if line := re.FindString(text[min(from, len(text)):]); line != "" {
			m.kill()
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatal(ctx.Err())
		case <-deadline:
			t.Fatalf("the log never says the phase %s:\n%s", phase, text[min(from, len(text)):])
		}
	}
}

var phaseLine = regexp.MustCompile(`"rollout" phase="(\w+)"`)

// firstPhase is the first one that the log says: Kept, when a generation was
// restored, before what the source offers is even looked at.
func firstPhase(ctx context.Context, t *testing.T, r *rig, m *manager) (phase string) {
	t.Helper()
	r.until(ctx, t, m, "a rollout begins", func() (bool, string) {
		found := phaseLine.FindStringSubmatch(readFile(m.logPath))
		if found == nil {
			return false, m.tail(1 << 10)
		}
		phase = found[1]
		return true, ""
	})
	return phase
}
