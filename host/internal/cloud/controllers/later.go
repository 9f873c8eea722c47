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
)

const (
	// longAfter is how long a provider may put one op off before an Event says so, and tooLongAfter how long before it is a
	// Warning: there are clouds that take minutes for a load balancer.
	longAfter    = time.Minute
	tooLongAfter = 5 * time.Minute
	// putOffMemory is longer than any back-off: who was not put off for so long
	// begins anew.
	putOffMemory = 30 * time.Minute
	// textMemory is longer than an Event waits for its turn at the API server.
	textMemory = 10 * time.Minute
	// maxHeard bounds what is remembered of each kind. What is beyond it is not
	// kept back, and not asked for at a replacement.
	maxHeard = 10_000
	// maxTexts bounds the texts that are known: thousands of Services that are put
	// off have another one each time they are asked about.
	maxTexts = 100_000
	// sweepPeriod is how often old things are looked for.
	sweepPeriod = time.Minute
)

// opGet is the op of a load balancer that changes nothing; opEnsure is the one
// of which the condition of a Service tells.
const (
	opGet    = "get"
	opEnsure = "ensure"
)

// later keeps "not yet" from becoming a Warning. Upstream makes a Warning of
// every error of a provider, also of the one by which it says when to ask again
// (api.RetryError): on a cloud that takes some seconds that is each healthy
// object. So it hears how calls end, and which texts no Warning is made of.
// Errors of other kinds pass, and so does what is put off for long.
type later struct {
	// rounds counts the generations that have come to serve.
	rounds atomic.Int64

	mu     sync.Mutex
	putOff map[string]spells // by object
	seed   maphash.Seed
	texts  map[uint64]heard    // of errors, by a hash: they may be long
	failed map[string]struct{} // objects whose last call had an error
	swept  time.Time
}

// heard is what is known of the text of an error: when it was returned last, and
// what becomes of its Event.
type heard struct {
	at   time.Time
	tone tone
}

// tone is what becomes of upstream's Warning.
type tone int

const (
	warning  tone = iota // it stays one
	progress             // it is a Normal Event that says so
	quiet                // there is none
)

// inProgress is the reason of Events that say that a provider has not finished.
const inProgress = "ProviderInProgress"

// toneOf is that of an op that was put off for so long.
func toneOf(putOff time.Duration) tone {
	switch {
	case putOff < longAfter:
		return quiet
	case putOff < tooLongAfter:
		return progress
	}
	return warning
}

// spells are the times in which ops on one object were put off and nothing
// else, by op.
type spells map[string]spell

type spell struct{ first, last, warned time.Time }

func newLater() *later {
	return &later{putOff: map[string]spells{}, seed: maphash.MakeSeed(), texts: map[uint64]heard{}, failed: map[string]struct{}{}}
}

// heard is told how a call of an op about an object ended. It returns when the
// provider wants to be asked again, or 0 if it did not say.
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

// said notes the text of an error, in place of what was known of it. Where there
// is no room nothing is kept back: a failure whose text is not known could pass
// for what it has in its words.
func (l *later) said(err error, t heard) {
	if len(l.texts) >= maxTexts {
		clear(l.texts)
	}
	l.texts[maphash.String(l.seed, err.Error())] = t
}

// answered ends what was put off. A question that is answered says nothing of
// the changes that wait.
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

// isLong reports whether an ensure of an object is put off for so long that a
// Warning says so.
func (l *later) isLong(object string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	s, ok := l.putOff[object][opEnsure]
	return ok && s.last.Sub(s.first) >= longAfter
}

// overdue returns for how long an op on an object is put off, once in a while and only when that is too long. Upstream says it
// as well, but has used up its Events on the object by then.
func (l *later) overdue(op, object string) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	s, ok := l.putOff[object][op]
	took := s.last.Sub(s.first)
	if !ok || took < tooLongAfter || s.last.Sub(s.warned) < putOffMemory {
		return 0
	}
	s.warned = s.last
	l.putOff[object][op] = s
	return took
}

// remember puts something into a map unless there is too much of it.
func remember[T any](all map[string]T, key string, value T) {
	if _, known := all[key]; known || len(all) < maxHeard {
		all[key] = value
	}
}

// sweep forgets what is old, now and then.
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

// failing returns the objects whose last call had an error, in order.
func (l *later) failing() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Sorted(maps.Keys(l.failed))
}

// gone forgets that calls about an object failed.
func (l *later) gone(object string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.failed, object)
}

// tone returns what becomes of an Event, and the text of the error that it tells of. In
// upstream's messages the error comes last, after a colon.
func (l *later) tone(event *corev1.Event) (tone, string) {
	if event.Type != corev1.EventTypeWarning {
		return warning, ""
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for rest := event.Message; ; {
		// Invariant O8 (host/SECURITY.md): the longest text that is known decides. That is the whole
		// error, so what a provider writes into one is not taken for another.
		if t, known := l.texts[maphash.String(l.seed, rest)]; known {
			return t.tone, rest
		}
		var more bool
		if _, rest, more = strings.Cut(rest, ": "); !more {
			return warning, ""
		}
	}
}

// quietClient is the client of a loop, without the Events that later keeps back
// and with the conditions that go with the status of load balancers.
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
