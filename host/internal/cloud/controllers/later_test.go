package controllers

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	cloudproviderapi "k8s.io/cloud-provider/api"
)

// heardOf returns the Event that upstream makes of an error that was heard.
func heardOf(l *later, object string, err error) *corev1.Event {
	l.heard("ensure", object, err)
	return &corev1.Event{Type: corev1.EventTypeWarning, Message: "Error syncing load balancer: failed to ensure load balancer: " + err.Error()}
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
		for took := time.Duration(0); took < 3*longAfter; took += 15 * time.Second {
			if got, want := l.isQuiet(heardOf(l, "default/web", wait)), took < longAfter; got != want {
				t.Errorf("after %v: quiet %v, must be %v", took, got, want)
			}
			time.Sleep(15 * time.Second)
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
