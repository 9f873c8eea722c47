package election

import (
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/record"
)

// Leadership tells the leader's parts whether this manager leads. The zero
// value does not lead. It is safe for concurrent use.
type Leadership struct {
	mu      sync.Mutex
	leads   bool
	waiting []waitingEvent
}

// waitingEvent is written when this manager begins to lead.
type waitingEvent struct {
	since time.Time
	write func()
}

// Bounds of waiting Events. A starting manager leads after some seconds and
// then reports the meantime. Older Events of a standby were already reported by
// the leader.
const (
	maxWaitingEvents = 64
	waitingMemory    = time.Minute
)

// do writes an Event, or keeps it until this manager leads.
func (l *Leadership) do(write func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.leads {
		write()
		return
	}
	l.waiting = append(l.waiting, waitingEvent{time.Now(), write})
	l.waiting = l.waiting[max(0, len(l.waiting)-maxWaitingEvents):]
}

// Begin writes the waiting Events.
func (l *Leadership) Begin() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.leads = true
	for _, e := range l.waiting {
		if time.Since(e.since) < waitingMemory {
			e.write()
		}
	}
	l.waiting = nil
}

// Leads reports whether this manager leads.
func (l *Leadership) Leads() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.leads
}

// Recorder returns a recorder that writes Events only while this manager leads.
func (l *Leadership) Recorder(r record.EventRecorder) record.EventRecorder {
	return leadersEvents{r, l}
}

// leadersEvents is an EventRecorder of the leader: all managers see the same
// module, and would write the same Events.
type leadersEvents struct {
	record.EventRecorder
	leadership *Leadership
}

// Event implements record.EventRecorder.
func (e leadersEvents) Event(object runtime.Object, eventtype, reason, message string) {
	e.leadership.do(func() { e.EventRecorder.Event(object, eventtype, reason, message) })
}

// Eventf implements record.EventRecorder.
func (e leadersEvents) Eventf(object runtime.Object, eventtype, reason, format string, args ...any) {
	e.Event(object, eventtype, reason, fmt.Sprintf(format, args...))
}

// AnnotatedEventf implements record.EventRecorder.
func (e leadersEvents) AnnotatedEventf(object runtime.Object, annotations map[string]string, eventtype, reason, format string, args ...any) {
	e.leadership.do(func() { e.EventRecorder.AnnotatedEventf(object, annotations, eventtype, reason, format, args...) })
}
