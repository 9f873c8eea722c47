// Package calls keeps the latest HTTP requests to the cloud of one provider,
// and counts all of them by op, host, method and path. It bounds the number of
// distinct kinds of requests, for metrics too.
package calls

import (
	"cmp"
	"slices"
	"sync"
	"time"
)

const (
	// MaxCalls bounds the kept calls.
	MaxCalls = 256
	// MaxKinds bounds the counted kinds; other calls count as Other, by host and result.
	MaxKinds = 128
	// Other is the op and the path of the remaining calls.
	Other = "other"
)

// Call is one exchange with a server. It has no secrets: no query, no header and no body.
type Call struct {
	// Number counts the calls of the provider; Add sets it.
	Number int64     `json:"number"`
	Time   time.Time `json:"time"`
	// Op is the op of the provider; "rollout" for a module that does not serve yet.
	Op string `json:"op"`
	// Object is the Service, Node or volume of the op as KIND NAMESPACE/NAME, or "".
	Object string `json:"object,omitempty"`
	// Generation is the number of takeovers so far.
	Generation int64 `json:"generation"`
	// Host is HOST:PORT.
	Host   string `json:"host"`
	Method string `json:"method"`
	// Path is the sent path, at most 256 bytes; PathTemplate has "*" for the ids of objects.
	Path         string `json:"path"`
	PathTemplate string `json:"pathTemplate"`
	// Status is 0 without a response. Result is 2xx to 5xx, or the reason for none.
	Status int    `json:"status,omitempty"`
	Result string `json:"result"`
	// Duration is in nanoseconds.
	Duration time.Duration `json:"duration"`
	// SentBytes and ReceivedBytes are the sizes of the bodies.
	SentBytes     int `json:"sentBytes"`
	ReceivedBytes int `json:"receivedBytes"`
}

// Kind groups calls for the counts.
type Kind struct {
	Op           string `json:"op"`
	Host         string `json:"host"`
	Method       string `json:"method"`
	PathTemplate string `json:"pathTemplate"`
	Result       string `json:"result"`
}

// Count is the number of calls of a kind.
type Count struct {
	Kind
	Calls int64 `json:"calls"`
	// Duration is their total time, Longest the longest call, in nanoseconds.
	Duration time.Duration `json:"duration"`
	Longest  time.Duration `json:"longest"`
	Last     time.Time     `json:"last"`
}

// Log has the calls of one provider, in at most some 300 KB. It is
// safe for concurrent use.
type Log struct {
	mu     sync.Mutex
	latest []Call // a ring
	next   int
	number int64
	counts map[Kind]*Count
}

// New returns an empty log.
func New() *Log { return &Log{counts: map[Kind]*Count{}} }

// Add keeps a call, and returns the kind under which it counts. host is the grant's.
func (l *Log) Add(c Call, host string) Kind {
	kind := Kind{Op: c.Op, Host: host, Method: c.Method, PathTemplate: c.PathTemplate, Result: c.Result}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.number++
	c.Number = l.number
	if len(l.latest) < MaxCalls {
		l.latest = append(l.latest, c)
	} else {
		l.latest[l.next] = c
	}
	l.next = (l.next + 1) % MaxCalls
	// Invariant M40 (host/SECURITY.md): a provider chooses paths, but not the number of kinds.
	if _, known := l.counts[kind]; !known && len(l.counts) >= MaxKinds {
		kind = Kind{Op: Other, Host: host, Method: Other, PathTemplate: Other, Result: c.Result}
	}
	l.count(kind, c)
	return kind
}

func (l *Log) count(kind Kind, c Call) {
	n := l.counts[kind]
	if n == nil {
		n = &Count{Kind: kind}
		l.counts[kind] = n
	}
	n.Calls++
	n.Duration += c.Duration
	n.Longest = max(n.Longest, c.Duration)
	n.Last = c.Time
}

// Latest returns the kept calls, the newest first.
func (l *Log) Latest() []Call {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := make([]Call, 0, len(l.latest))
	for i := range l.latest {
		out = append(out, l.latest[(l.next-1-i+2*MaxCalls)%MaxCalls])
	}
	return out
}

// Counts returns the number of calls since the provider's start, by kind, sorted by total time.
func (l *Log) Counts() []Count {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := make([]Count, 0, len(l.counts))
	for _, n := range l.counts {
		out = append(out, *n)
	}
	slices.SortFunc(out, func(a, b Count) int {
		return cmp.Or(cmp.Compare(b.Duration, a.Duration), cmp.Compare(a.PathTemplate, b.PathTemplate), cmp.Compare(a.Op, b.Op))
	})
	return out
}
