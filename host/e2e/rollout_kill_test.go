//go:build pending

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
	r.awaitPhase(ctx, t, m, "a", "Kept")

	good := guest
	for _, phase := range []string{"Loading", "Verified", "Compiled", "Described", "Configured", "Probed", "Shadowed", "Serving", "Kept"} {
		t.Run(phase, func(t *testing.T) {
			next := append(bytes.Clone(guest), customSection("killed-at", []byte(phase))...)
			r.cloud.account("a").mark()
			from := len(readFile(m.logPath))
			r.put(ctx, t, configMap, next, config)
			killAt(ctx, t, m, phase, from)
			t.Logf("killed when the status said %s", r.phase(ctx, "a"))
			m = r.startManager(t, "after-"+strings.ToLower(phase), flags...)
			first := firstServing(ctx, t, r, m)
			if first != digest(good) && (phase != "Kept" || first != digest(next)) {
				t.Errorf("after a kill at %s it begins with %s, the last good is %s", phase, first, digest(good))
			}
			// It comes as far as it can now, and all has been looked at once.
			r.awaitServing(ctx, t, m, next)
			r.awaitPhase(ctx, t, m, "a", "Kept")
			r.until(ctx, t, m, "every Service is looked at", func() (bool, string) {
				n := r.metrics(t, m).sum(`^wasm_ccm_provider_op_duration_seconds_count\{.*code="ok".*op="lb_ensure"`)
				return n >= 5, fmt.Sprint(n)
			})
			if lines := r.cloud.account("a").writtenSinceMark(); lines != "" {
				t.Errorf("written at the cloud:\n%s", lines)
			}
			good = next
		})
	}
}

// killAt ends the manager when its log says the phase, behind from.
func killAt(ctx context.Context, t *testing.T, m *manager, phase string, from int) {
	t.Helper()
	re := regexp.MustCompile(`(?m)^.*(Provider` + phase + `\b|phase="?` + phase + `\b).*$`)
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

var servingLine = regexp.MustCompile(`(?m)^.*(?i:serving).*?(sha256:[0-9a-f]{64})`)

// firstServing is the digest that the log says first of one that serves.
func firstServing(ctx context.Context, t *testing.T, r *rig, m *manager) (digest string) {
	t.Helper()
	r.until(ctx, t, m, "something serves", func() (bool, string) {
		found := servingLine.FindStringSubmatch(readFile(m.logPath))
		if found == nil {
			return false, m.tail(1 << 10)
		}
		digest = found[1]
		return true, ""
	})
	return digest
}
