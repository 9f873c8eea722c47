package controllers

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	cloudproviderapi "k8s.io/cloud-provider/api"

	"github.com/wasm-ccm/wasm-ccm/host/internal/report"
)

// heardOf returns the Event that upstream makes of an error that was heard.
func heardOf(l *later, object string, err error) *corev1.Event {
	l.heard("ensure", object, err)
	return &corev1.Event{Type: corev1.EventTypeWarning, Message: "Error syncing load balancer: failed to ensure load balancer: " + err.Error()}
}

// isQuiet reports whether there is no Event.
func (l *later) isQuiet(event *corev1.Event) bool {
	how, _ := l.tone(event)
	return how == quiet
}

// A guest cannot hide its failures behind the words of what is put off.
func TestAFailureInTheWordsOfWhatIsPutOffIsTold(t *testing.T) {
	l := newLater()
	later := cloudproviderapi.NewRetryError("lb_ensure default/web: it is being made (retry after 3s)", 3*time.Second)
	if l.isQuiet(&corev1.Event{Type: corev1.EventTypeWarning, Message: later.Error()}) {
		t.Error("a text that was never heard is quiet")
	}
	if !l.isQuiet(heardOf(l, "default/web", later)) {
		t.Error("what is put off is told at once")
	}
	for _, object := range []string{"default/web", "default/api"} {
		failure := fmt.Errorf("lb_ensure %s: the quota is used up: %s", object, later.Error())
		if l.isQuiet(heardOf(l, object, failure)) {
			t.Errorf("quiet: %v", failure)
		}
	}
	if !l.isQuiet(heardOf(l, "default/web", later)) {
		t.Error("what is put off is told after a failure")
	}
}

// Providers say the same words each time, not how long it takes by now.
func TestWhatIsPutOffInTheSameWordsIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, wait := newLater(), cloudproviderapi.NewRetryError("lb_ensure default/web: the load balancer is PENDING_CREATE (retry after 15s)", 15*time.Second)
		for took := time.Duration(0); took < 2*report.DelayedAfter; took += 15 * time.Second {
			want := map[bool]tone{took < report.SlowAfter: quiet, took >= report.SlowAfter && took < report.DelayedAfter: progress, took >= report.DelayedAfter: warning}[true]
			if got, _ := l.tone(heardOf(l, "default/web", wait)); got != want {
				t.Errorf("after %v: %v, must be %v", took, got, want)
			}
			time.Sleep(15 * time.Second)
		}
	})
}

// A cloud that takes minutes makes a Normal Event. The same Event becomes a Warning
// when it takes too long.
func TestProgressIsANormalEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, l := fake.NewClientset(), newLater()
		sink := quietEvents{client.CoreV1().Events("default"), l}
		wait := cloudproviderapi.NewRetryError("lb_ensure default/web: the load balancer is PENDING_CREATE (retry after 15s)", 15*time.Second)
		event := func() *corev1.Event {
			e := heardOf(l, "default/web", wait)
			e.ObjectMeta, e.Reason = metav1.ObjectMeta{Name: "web.1", Namespace: "default"}, "SyncLoadBalancerFailed"
			return e
		}
		look := func() string {
			e, err := client.CoreV1().Events("default").Get(t.Context(), "web.1", metav1.GetOptions{})
			if err != nil {
				return "none"
			}
			return fmt.Sprint(e.Type, " ", e.Reason, " ", e.Count, ": ", e.Message)
		}
		for _, step := range []struct {
			sleep time.Duration
			patch string
			want  string
		}{
			{0, "", "none"},
			{report.SlowAfter, "", "Normal ProviderInProgress 0: " + wait.Error()},
			{time.Minute, `{"count":2}`, "Normal ProviderInProgress 2: " + wait.Error()},
			{report.DelayedAfter, `{"count":3,"message":"Error"}`, "Warning SyncLoadBalancerFailed 3: Error"},
		} {
			time.Sleep(step.sleep)
			var err error
			if step.patch == "" {
				_, err = sink.CreateWithEventNamespace(event())
			} else {
				_, err = sink.PatchWithEventNamespace(event(), []byte(step.patch))
			}
			if got := look(); err != nil || got != step.want {
				t.Errorf("after %v more: %s, %v; want %s", step.sleep, got, err, step.want)
			}
		}
	})
}

// Where there is no room for more texts a failure is told.
func TestTooManyTextsHideNothing(t *testing.T) {
	l := newLater()
	var last error
	for n := range maxTexts + 1 {
		last = cloudproviderapi.NewRetryError(fmt.Sprintf("lb_ensure default/web-%d: later (retry after 3s)", n), 3*time.Second)
		l.heard("ensure", "default/web", last)
	}
	if l.isQuiet(heardOf(l, "default/api", fmt.Errorf("lb_ensure default/api: no: %s", last.Error()))) {
		t.Error("a failure is quiet")
	}
	if len(l.texts) > maxTexts {
		t.Errorf("%d texts are kept", len(l.texts))
	}
}

// What a provider says may be long, and another one each time.
func TestLongTextsTakeLittle(t *testing.T) {
	l, words := newLater(), strings.Repeat("x", 4096)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for n := range 10_000 {
		l.heard("ensure", "default/web", fmt.Errorf("%d %s", n, words))
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if took := int64(after.HeapAlloc) - int64(before.HeapAlloc); took > 8<<20 {
		t.Errorf("10,000 errors take %d MiB", took>>20)
	}
	runtime.KeepAlive(l)
}
