package controllers

import (
	"errors"
	"hash/maphash"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	cloudproviderapi "k8s.io/cloud-provider/api"

	"github.com/wasm-ccm/wasm-ccm/host/internal/report"
)

const (
	// putOffMemory is longer than any back-off: an op that was not put off for so long starts
	// anew.
	putOffMemory = 30 * time.Minute
	// textMemory is longer than an Event waits for its turn at the API server.
	textMemory = 10 * time.Minute
	// maxHeard bounds the memory of each kind. Objects beyond it are neither suppressed nor
	// repeated after a replacement.
	maxHeard = 10_000
	// maxTexts bounds the known texts: each answer about each of thousands of Services that are
	// put off may have another text.
	maxTexts = 100_000
	// sweepPeriod is the time between two searches for expired entries.
	sweepPeriod = time.Minute
)

// opGet is the op of a load balancer that changes nothing; opEnsure is the op behind the
// condition of a Service; opUpdate is abandoned when it takes long.
const (
	opGet    = "get"
	opEnsure = "ensure"
	opUpdate = "update"
)

// later keeps "not yet" from becoming a Warning. Upstream makes a Warning of every error of
// a provider, also of the one that says when to ask again (api.RetryError): on a slow cloud
// that is each healthy object. So later hears the outcome of calls, and which texts must not
// become a Warning. Other errors pass, and so does what is put off for long.
type later struct {
	// rounds counts the takeovers of generations.
	rounds atomic.Int64

	mu     sync.Mutex
	putOff map[string]spells // by object
	seed   maphash.Seed
	texts  map[uint64]heard    // of errors, by hash: they may be long
	failed map[string]struct{} // objects whose last call failed
	swept  time.Time
}

// heard is a known text of an error: its last return, and the tone of its Event.
type heard struct {
	at   time.Time
	tone tone
}

// tone is how upstream's Warning appears.
type tone int

const (
	warning  tone = iota // unchanged
	progress             // as a Normal Event
	quiet                // not at all
)

// InProgress is the reason of Events about an op that the provider has not finished.
const InProgress = report.ProviderInProgress

// toneOf returns the tone for an op that was put off for so long.
func toneOf(putOff time.Duration) tone {
	switch {
	case putOff < report.SlowAfter:
		return quiet
	case putOff < report.DelayedAfter:
		return progress
	}
	return warning
}

// spells are the times since which ops on one object were only put off, by op.
type spells map[string]spell

type spell struct{ first, last, warned time.Time }

func newLater() *later {
	return &later{putOff: map[string]spells{}, seed: maphash.MakeSeed(), texts: map[uint64]heard{}, failed: map[string]struct{}{}}
}

// heard is told the outcome of a call about an object. It returns when the provider wants to
// be asked again, or 0 if it did not say.
func (l *later) heard(op, object string, err error) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	l.sweep(now)
	if err == nil {
		delete(l.failed, object)
		l.answered(op, object)
		return 0
	}
	remember(l.failed, object, struct{}{})
	var retry *cloudproviderapi.RetryError
	if !errors.As(err, &retry) {
		l.answered(op, object)
		l.said(err, heard{at: now})
		return 0
	}
	l.said(err, heard{at: now, tone: toneOf(now.Sub(l.puttingOff(op, object, now)))})
	return retry.RetryAfter()
}

// said records the tone of an error's text. When the map is full no Event is suppressed: an
// unknown failure could be taken for a known text inside it.
func (l *later) said(err error, t heard) {
	if len(l.texts) >= maxTexts {
		clear(l.texts)
	}
	l.texts[maphash.String(l.seed, err.Error())] = t
}

// answered ends the spell of an op. The answer to a question says nothing about waiting
// changes.
func (l *later) answered(op, object string) {
	if op != opGet {
		delete(l.putOff, object)
		return
	}
	delete(l.putOff[object], op)
}

// puttingOff returns since when an op is put off.
func (l *later) puttingOff(op, object string, now time.Time) time.Time {
	if l.putOff[object] == nil {
		remember(l.putOff, object, spells{})
	}
	s := l.putOff[object][op]
	if now.Sub(s.last) > putOffMemory {
		s.first, s.warned = now, time.Time{}
	}
	s.last = now
	if ops := l.putOff[object]; ops != nil {
		ops[op] = s
	}
	return s.first
}

// waits reports whether an op on an object is put off.
func (l *later) waits(op, object string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, ok := l.putOff[object][op]
	return ok
}

// isLong reports whether an ensure of an object is put off so long that a Warning is due.
func (l *later) isLong(object string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	s, ok := l.putOff[object][opEnsure]
	return ok && s.last.Sub(s.first) >= report.SlowAfter
}

// overdue returns for how long an op on an object is put off, at intervals and only when that is too
// long. Upstream reports it as well, but has used up its Events on the object by then.
func (l *later) overdue(op, object string) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	s, ok := l.putOff[object][op]
	took := s.last.Sub(s.first)
	if !ok || took < report.DelayedAfter || s.last.Sub(s.warned) < putOffMemory {
		return 0
	}
	s.warned = s.last
	l.putOff[object][op] = s
	return took
}

// remember adds to a map unless it is full.
func remember[T any](all map[string]T, key string, value T) {
	if _, known := all[key]; known || len(all) < maxHeard {
		all[key] = value
	}
}

// sweep removes expired entries, once per sweepPeriod.
func (l *later) sweep(now time.Time) {
	if now.Sub(l.swept) < sweepPeriod {
		return
	}
	l.swept = now
	maps.DeleteFunc(l.putOff, func(_ string, ops spells) bool {
		maps.DeleteFunc(ops, func(_ string, s spell) bool { return now.Sub(s.last) > putOffMemory })
		return len(ops) == 0
	})
	maps.DeleteFunc(l.texts, func(_ uint64, t heard) bool { return now.Sub(t.at) > textMemory })
}

// failing returns the objects whose last call failed, in order.
func (l *later) failing() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Sorted(maps.Keys(l.failed))
}

// gone forgets the failures of an object.
func (l *later) gone(object string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.failed, object)
}

// tone returns the tone of an Event and the error's text. In upstream's messages the error
// comes last, after a colon.
func (l *later) tone(event *corev1.Event) (tone, string) {
	if event.Type != corev1.EventTypeWarning {
		return warning, ""
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for rest := event.Message; ; {
		// Invariant O8 (host/SECURITY.md): the longest known text decides. It is the whole error, so
		// a provider's words inside an error are not taken for another error.
		if t, known := l.texts[maphash.String(l.seed, rest)]; known {
			return t.tone, rest
		}
		var more bool
		if _, rest, more = strings.Cut(rest, ": "); !more {
			return warning, ""
		}
	}
}

// quietClient is the client of a loop. It drops the Events that later suppresses, and adds
// conditions to the writes of load balancers' status.
type quietClient struct {
	kubernetes.Interface
	later      *later
	conditions *conditions
}

// CoreV1 implements kubernetes.Interface.
func (c quietClient) CoreV1() typedcorev1.CoreV1Interface {
	return quietCore{c.Interface.CoreV1(), c.later, c.conditions}
}

type quietCore struct {
	typedcorev1.CoreV1Interface
	later      *later
	conditions *conditions
}

// Services implements typedcorev1.CoreV1Interface.
func (c quietCore) Services(namespace string) typedcorev1.ServiceInterface {
	return statusServices{c.CoreV1Interface.Services(namespace), namespace, c.conditions}
}

// Events implements typedcorev1.CoreV1Interface.
func (c quietCore) Events(namespace string) typedcorev1.EventInterface {
	return quietEvents{c.CoreV1Interface.Events(namespace), c.later}
}
