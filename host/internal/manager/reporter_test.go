package manager

import (
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"

	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/rollout"
	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/source"
	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/status"
	"github.com/wasm-ccm/wasm-ccm/host/internal/manager/metrics"
)

func TestLongEventsAreCutBetweenCharacters(t *testing.T) {
	recorder := record.NewFakeRecorder(1)
	r := &teller{events: recorder}
	bundle := source.Bundle{Ref: &corev1.ObjectReference{Kind: "ConfigMap", Name: "provider"}}
	r.event(bundle, corev1.EventTypeWarning, eventRejected, strings.Repeat("ä", maxEventBytes))
	got := strings.TrimPrefix(<-recorder.Events, corev1.EventTypeWarning+" "+eventRejected+" ")
	if !utf8.ValidString(got) || len(got) > maxEventBytes || !strings.HasSuffix(got, "...") {
		t.Errorf("%d bytes, valid UTF-8 %v: %q", len(got), utf8.ValidString(got), got)
	}
}

// newTestReporter tells of a provider to the channel of Events and to a status
// that nobody writes.
func newTestReporter(t *testing.T) (*providerReporter, <-chan string) {
	t.Helper()
	recorder := record.NewFakeRecorder(100)
	recorder.IncludeObject = true
	return &providerReporter{
		teller:   teller{events: recorder, object: &corev1.ObjectReference{APIVersion: "v1", Kind: "ConfigMap", Name: "wasm-ccm-provider-test"}},
		metrics:  metrics.New().Provider("test").Rollout(),
		status:   &statusWriter{object: status.New(fake.NewClientset(), "kube-system", "test", clock.RealClock{})},
		replaced: func() {},
	}, recorder.Events
}

const offeredDigest = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

// Each Event of a rollout says something, also while nothing but the digest of
// the module is known.
func TestNoEventOfARolloutIsEmpty(t *testing.T) {
	serving := &rollout.Version{Name: "static", Version: "0.1.0", Digest: strings.Repeat("a", 64), Revision: "1"}
	for _, phase := range []rollout.Phase{rollout.Verified, rollout.Compiled, rollout.Described, rollout.Configured, rollout.Probed, rollout.Shadowed, rollout.Kept, rollout.Held, rollout.RolledBack, rollout.Rejected} {
		r, events := newTestReporter(t)
		r.Report(rollout.Report{Phase: phase, Serving: serving, Offered: &rollout.Version{Digest: offeredDigest}})
		text := <-events
		_, message, _ := strings.Cut(text, eventPrefix+string(phase)+" ")
		if !strings.Contains(message, offeredDigest[:12]) {
			t.Errorf("%s: the Event does not name what is offered: %q", phase, text)
		}
		if !strings.Contains(message, meaning(phase)) {
			t.Errorf("%s: the Event does not say what the phase has shown: %q", phase, text)
		}
	}
}

// A phase that is allowed to fail, and does, is one Event.
func TestDifferencesAreToldOnce(t *testing.T) {
	r, events := newTestReporter(t)
	r.Report(rollout.Report{Phase: rollout.Shadowed, Allowed: true, Message: "1 of 2 answers are the same", Offered: &rollout.Version{Digest: offeredDigest}})
	if n := len(events); n != 1 {
		t.Errorf("%d Events", n)
	}
	if text := <-events; !strings.HasPrefix(text, "Warning "+eventDifference) {
		t.Error(text)
	}
}

// The status tells apart what is offered and what serves.
func TestTheStatusTellsWhatIsOfferedFromWhatServes(t *testing.T) {
	r, events := newTestReporter(t)
	serving := &rollout.Version{Name: "static", Version: "0.1.0", Digest: strings.Repeat("a", 64), Revision: "1"}
	r.Report(rollout.Report{
		Phase: rollout.Rejected, Reason: "ModuleInvalid", Message: "it is text", Err: errors.New("it is text"),
		Offered: &rollout.Version{Digest: offeredDigest}, Serving: serving, Good: serving, Generation: 2,
	})
	if text := <-events; !strings.Contains(text, "ModuleInvalid (offered: sha256:"+offeredDigest[:12]+"): it is text; static 0.1.0 goes on serving") {
		t.Error(text)
	}
	s := r.status.status
	if s.Offered == nil || s.Offered.Digest != offeredDigest || s.Serving == nil || s.Serving.Digest == offeredDigest {
		t.Errorf("%+v", s)
	}
	if c := meta.FindStatusCondition(s.Conditions, conditionServing); c == nil || c.Status != "True" || c.Reason != "Kept" {
		t.Errorf("the condition about what serves says %+v", c)
	}
}

// A rollback brings the configuration of then back, too, which the source does
// not hold: the Event says so.
func TestARollbackTellsOfTheConfiguration(t *testing.T) {
	r, events := newTestReporter(t)
	serving := &rollout.Version{Name: "static", Version: "0.1.0", Digest: strings.Repeat("a", 64), ConfigDigest: strings.Repeat("b", 64), Revision: "1"}
	r.Report(rollout.Report{Phase: rollout.RolledBack, Reason: rollout.ReasonByOperator, Serving: serving, Good: serving, Offered: &rollout.Version{Digest: offeredDigest}})
	if text := <-events; !strings.Contains(text, "static 0.1.0 serves again, with its configuration of then, sha256:bbbbbbbbbbbb;") {
		t.Error(text)
	}
}

// What people command is told in whole sentences, also where there is no value.
func TestCommandsAreTold(t *testing.T) {
	r, events := newTestReporter(t)
	r.Commanded(rollout.Command{Kind: rollout.CommandPause, By: "kubectl-annotate at 15:04"}, nil)
	r.Commanded(rollout.Command{Kind: "wasm-ccm.dev/rolback", By: "kubectl-annotate at 15:04"}, errUnread)
	for _, want := range []string{"Pause, by kubectl-annotate", "wasm-ccm.dev/rolback by kubectl-annotate at 15:04: nobody reads this annotation here; there are wasm-ccm.dev/pause, wasm-ccm.dev/promote, wasm-ccm.dev/rollback"} {
		if text := <-events; !strings.Contains(text, want) {
			t.Errorf("%q does not say %q", text, want)
		}
	}
}
