package manager

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"

	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/provenance"
	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/rollout"
	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/source"
	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/status"
	"github.com/wasm-ccm/wasm-ccm/host/internal/manager/metrics"
	"github.com/wasm-ccm/wasm-ccm/host/internal/report"
	"github.com/wasm-ccm/wasm-ccm/host/status/v1alpha1"
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

// The command that lets a module serve stays complete after any message.
func TestALongMessageKeepsItsCommand(t *testing.T) {
	r, events := newTestReporter(t)
	r.provider, r.object.Namespace = "static", strings.Repeat("n", 63)
	serving := &v1alpha1.Module{Name: "static", Version: "0.1.0"}
	for _, phase := range []rollout.Phase{rollout.Held, rollout.RolledBack, rollout.Rejected} {
		r.Report(rollout.Report{Phase: phase, Reason: rollout.ReasonShadowDiffers, Message: strings.Repeat("a differs from b; ", 100),
			Promotable: true, Serving: serving, Offered: &v1alpha1.Module{Digest: offeredDigest}})
		if got := <-events; !strings.Contains(got, "ccmctl rollout promote static "+offeredDigest[:12]+" --manager-namespace "+r.object.Namespace) {
			t.Errorf("%s: the Event does not have the command: %q", phase, got)
		}
	}
}

// newTestReporter reports a provider to a channel of Events and to a status
// that is never written.
func newTestReporter(t *testing.T) (*providerReporter, <-chan string) {
	t.Helper()
	recorder := record.NewFakeRecorder(100)
	recorder.IncludeObject = true
	return &providerReporter{
		provider:   "main",
		teller:     teller{events: recorder, object: &corev1.ObjectReference{APIVersion: "v1", Kind: "ConfigMap", Name: "wasm-ccm-provider-test"}},
		metrics:    metrics.New().Provider("test").Rollout(),
		status:     &statusWriter{object: status.New(fake.NewClientset(), "kube-system", "test", clock.RealClock{})},
		generation: new(atomic.Int64),
		replaced:   func() {}, reconfigured: func() {}, configured: func() string { return "" },
	}, recorder.Events
}

const offeredDigest = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

// Each Event of a rollout has a text, even if only the digest of the module is
// known.
func TestNoEventOfARolloutIsEmpty(t *testing.T) {
	serving := &v1alpha1.Module{Name: "static", Version: "0.1.0", Digest: strings.Repeat("a", 64), Revision: "1"}
	for _, phase := range []rollout.Phase{rollout.Verified, rollout.Compiled, rollout.Described, rollout.Configured, rollout.Probed, rollout.Shadowed, rollout.Kept, rollout.Held, rollout.RolledBack, rollout.Rejected} {
		r, events := newTestReporter(t)
		r.Report(rollout.Report{Phase: phase, Serving: serving, Offered: &v1alpha1.Module{Digest: offeredDigest}})
		text := <-events
		_, message, _ := strings.Cut(text, report.OfPhase(string(phase))+" ")
		if !strings.Contains(message, offeredDigest[:12]) {
			t.Errorf("%s: the Event does not name what is offered: %q", phase, text)
		}
		if !strings.Contains(message, meaning(phase)) {
			t.Errorf("%s: the Event does not say what the phase has shown: %q", phase, text)
		}
	}
}

// A serving module that would not be loaded any more is reported at once, and
// once.
func TestAServingModuleThatIsNotAdmittedIsTold(t *testing.T) {
	r, events := newTestReporter(t)
	policy, err := provenance.New([]string{"sha256:" + strings.Repeat("0", 64)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	refused := policy.Check([]byte("module"), nil)
	r.admits = func() error { return refused }
	report := rollout.Report{Phase: rollout.Loading, Serving: &v1alpha1.Module{Name: "static", Version: "0.1.0"}}
	r.Report(report)
	r.Report(report)
	serving := func() *metav1.Condition {
		return meta.FindStatusCondition(r.status.status.Conditions, v1alpha1.ConditionServing)
	}
	if c := serving(); c.Status != metav1.ConditionTrue || c.Reason != eventNotAdmitted || !strings.Contains(c.Message, "serves until the manager restarts: DigestNotPinned: the module's digest") {
		t.Errorf("the condition is %+v", c)
	}
	if len(events) != 1 {
		t.Fatalf("%d Events", len(events))
	}
	if got := <-events; !strings.Contains(got, eventNotAdmitted+" the serving module would not be admitted now") {
		t.Errorf("the Event is %q", got)
	}
	refused = nil
	r.Report(report)
	if c := serving(); c.Reason == eventNotAdmitted || c.Message != "" || len(events) > 0 {
		t.Errorf("when it is mended the condition is %+v, and there are %d Events", c, len(events))
	}
}

// The control loops are notified only of another serving configuration: neither
// of the first one, nor of another module or other terms. A private
// configuration has no reported digest.
func TestTheLoopsHearOfAnotherConfiguration(t *testing.T) {
	r, _ := newTestReporter(t)
	heard := 0
	r.reconfigured = func() { heard++ }
	configs := map[*v1alpha1.Module]string{}
	version := func(module, config string) *v1alpha1.Module {
		v := &v1alpha1.Module{Name: "static", Version: "0.1.0", Digest: strings.Repeat(module, 64)}
		configs[v] = config
		return v
	}
	for i, step := range []struct {
		phase   rollout.Phase
		serving *v1alpha1.Module
		want    int
	}{
		{rollout.Loading, nil, 0},
		{rollout.Kept, version("a", "1"), 0},
		{rollout.Kept, version("b", "1"), 0},
		{rollout.Configured, version("b", "1"), 0},
		{rollout.Kept, version("b", "2"), 1},
		{rollout.Kept, version("b", "2"), 1},
		{rollout.RolledBack, version("b", "1"), 2},
	} {
		r.configured = func() string { return configs[step.serving] }
		r.Report(rollout.Report{Phase: step.phase, Serving: step.serving, Generation: int64(i)})
		if heard != step.want {
			t.Errorf("step %d: heard %d times, want %d", i, heard, step.want)
		}
	}
}

// A mistake in a configuration is an Event on its object, too; a mistake in the
// module is not.
func TestABrokenConfigurationIsAnEventOnItsObject(t *testing.T) {
	r, events := newTestReporter(t)
	bundle := source.Bundle{
		Ref:       &corev1.ObjectReference{Kind: "ConfigMap", Name: "module"},
		ConfigRef: &corev1.ObjectReference{Kind: "Secret", Name: "configuration", UID: "u"},
	}
	for _, reason := range []string{source.ReasonModuleKeyMissing, source.ReasonConfigMapNotFound, source.ReasonConfigNotFound, "ConfigurationInvalid"} {
		r.Report(rollout.Report{Phase: rollout.Rejected, Reason: reason, Message: "line 1", Bundle: bundle})
		want := 1
		if strings.HasPrefix(reason, "ConfigN") || strings.HasPrefix(reason, "Configuration") {
			want = 2
		}
		if len(events) != want {
			t.Fatalf("%d Events about %s, want %d", len(events), reason, want)
		}
		for range want - 1 {
			<-events
		}
		if last := <-events; want == 2 && (!strings.Contains(last, "kind=Secret") || !strings.Contains(last, eventRejected+" "+reason+": line 1")) {
			t.Errorf("the Event is %q", last)
		}
	}
}

func TestDifferencesAreToldOnce(t *testing.T) {
	r, events := newTestReporter(t)
	r.Report(rollout.Report{Phase: rollout.Shadowed, Allowed: true, Message: "1 of 2 answers are the same", Offered: &v1alpha1.Module{Digest: offeredDigest}})
	if n := len(events); n != 1 {
		t.Errorf("%d Events", n)
	}
	if text := <-events; !strings.HasPrefix(text, "Warning "+eventDifference) {
		t.Error(text)
	}
}

// The status distinguishes the offered and the serving module.
func TestTheStatusTellsWhatIsOfferedFromWhatServes(t *testing.T) {
	r, events := newTestReporter(t)
	serving := &v1alpha1.Module{Name: "static", Version: "0.1.0", Digest: strings.Repeat("a", 64), Revision: "1"}
	r.Report(rollout.Report{
		Phase: rollout.Rejected, Reason: "ModuleInvalid", Message: "it is text", Err: errors.New("it is text"),
		Offered: &v1alpha1.Module{Digest: offeredDigest}, Serving: serving, Good: serving, Generation: 2,
	})
	if text := <-events; !strings.Contains(text, "ModuleInvalid (offered: sha256:"+offeredDigest[:12]+"): it is text; static 0.1.0 continues to serve") {
		t.Error(text)
	}
	s := r.status.status
	if s.Offered == nil || s.Offered.Digest != offeredDigest || s.Serving == nil || s.Serving.Digest == offeredDigest {
		t.Errorf("%+v", s)
	}
	if c := meta.FindStatusCondition(s.Conditions, v1alpha1.ConditionServing); c == nil || c.Status != "True" || c.Reason != "Kept" {
		t.Errorf("the condition about what serves says %+v", c)
	}
}

// A rollback also restores the earlier configuration, which is not in the
// source: the Event says so.
func TestARollbackTellsOfTheConfiguration(t *testing.T) {
	r, events := newTestReporter(t)
	serving := &v1alpha1.Module{Name: "static", Version: "0.1.0", Digest: strings.Repeat("a", 64), ConfigDigest: strings.Repeat("b", 64), Revision: "1"}
	r.Report(rollout.Report{Phase: rollout.RolledBack, Reason: rollout.ReasonByOperator, Serving: serving, Good: serving, Offered: &v1alpha1.Module{Digest: offeredDigest, ConfigDigest: strings.Repeat("c", 64)}})
	if text := <-events; !strings.Contains(text, offeredDigest+", configuration sha256:cccccccccccc: ") || !strings.Contains(text, "static 0.1.0 serves again with its previous configuration, sha256:bbbbbbbbbbbb") {
		t.Error(text)
	}
	r.Report(rollout.Report{Phase: rollout.RolledBack, Reason: rollout.ReasonErrorBudget, Serving: serving, Good: serving, Offered: &v1alpha1.Module{Digest: offeredDigest}, Promotable: true})
	if text := <-events; !strings.Contains(text, "to let it serve anyway: ccmctl rollout promote main "+offeredDigest[:12]) {
		t.Error(text)
	}
	private := *serving
	private.ConfigDigest = ""
	r.Report(rollout.Report{Phase: rollout.RolledBack, Reason: rollout.ReasonByOperator, Serving: &private, Good: &private, Offered: &v1alpha1.Module{Digest: strings.Repeat("c", 64)}, Message: "private"})
	if text := <-events; !strings.Contains(text, "static 0.1.0 serves again with its previous configuration") {
		t.Error(text)
	}
}

// Reports of people's commands are whole sentences, even without a value.
func TestCommandsAreTold(t *testing.T) {
	r, events := newTestReporter(t)
	r.Commanded(rollout.Command{Kind: rollout.CommandPause, By: "kubectl-annotate at 15:04"}, nil)
	r.Commanded(rollout.Command{Kind: rollout.CommandResume}, nil)
	r.Commanded(rollout.Command{Kind: "wasm-ccm.dev/rolback", By: "kubectl-annotate at 15:04"}, errUnread)
	for _, want := range []string{"Pause, by kubectl-annotate", "Resume, by the removal of the annotation wasm-ccm.dev/pause", "wasm-ccm.dev/rolback by kubectl-annotate at 15:04: the manager does not know this annotation; it knows wasm-ccm.dev/pause, wasm-ccm.dev/promote, wasm-ccm.dev/rollback"} {
		if text := <-events; !strings.Contains(text, want) {
			t.Errorf("%q does not say %q", text, want)
		}
	}
}
