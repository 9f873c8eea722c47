package election

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/record"
)

// A standby leaves the Events about what it sees to the leader.
func TestAStandbyWritesNoEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, written := &Leadership{}, record.NewFakeRecorder(1000)
		events := leadersEvents{written, l}
		about := &corev1.ObjectReference{}
		for n := range 200 {
			events.Eventf(about, corev1.EventTypeNormal, "Old", "%d", n)
		}
		time.Sleep(waitingMemory)
		events.Event(about, corev1.EventTypeNormal, "Kept", "static v1")
		events.AnnotatedEventf(about, map[string]string{"a": "b"}, corev1.EventTypeWarning, "Warned", "%s", "twice")
		if n := len(written.Events); n != 0 {
			t.Fatalf("a standby has written %d Events", n)
		}
		l.Begin() // recent Events are written, since no other manager did
		for _, want := range []string{"Normal Kept static v1", "Warning Warned twice map[a:b]"} {
			if got := <-written.Events; got != want {
				t.Errorf("%q, want %q", got, want)
			}
		}
		events.Event(about, corev1.EventTypeNormal, "Now", "at once")
		if got := <-written.Events; got != "Normal Now at once" || len(written.Events) > 0 {
			t.Errorf("%q", got)
		}
	})
}

func TestWaitingEventsAreBounded(t *testing.T) {
	l, written := &Leadership{}, record.NewFakeRecorder(1000)
	for n := range 10 * maxWaitingEvents {
		leadersEvents{written, l}.Event(&corev1.ObjectReference{}, corev1.EventTypeNormal, "R", fmt.Sprint(n))
	}
	l.Begin()
	if n := len(written.Events); n != maxWaitingEvents {
		t.Errorf("%d Events were kept", n)
	}
}
