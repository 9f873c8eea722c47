// Package calls remembers the latest HTTP requests that were sent to the cloud of
// one provider, and counts all of them by op, host, method and path. It bounds how
// many kinds of requests are told apart, for metrics too.
package calls

import (
	"cmp"
	"slices"
	"sync"
	"time"
)

const (
	// MaxCalls is how many of the latest calls are kept.
	MaxCalls = 256
	// MaxKinds is how many kinds of calls are counted by themselves; all others are counted as Other, by host and result alone.
	MaxKinds = 128
	// Other is the op and the path of calls that are not counted by themselves.
	Other = "other"
)

// Call is one exchange with a server. It has no secrets: no query, no header and no body.
type Call struct {
	// Number counts the calls of the provider; Add sets it.
	Number int64     `json:"number"`
	Time   time.Time `json:"time"`
	// Op is what the provider was asked for; "rollout" for a module that does not serve yet.
	Op string `json:"op"`
	// Object is the Service, Node or volume of the op as KIND NAMESPACE/NAME, or "".
	Object string `json:"object,omitempty"`
	// Generation counts the modules that have taken over.
	Generation int64 `json:"generation"`
	// Host is HOST:PORT.
	Host   string `json:"host"`
	Method string `json:"method"`
	// Path is the one that was sent, at most 256 bytes; PathTemplate has "*" for the ids of objects.
	Path         string `json:"path"`
	PathTemplate string `json:"pathTemplate"`
	// Status is 0 without a response. Result is 2xx to 5xx, or why there is none.
	Status int    `json:"status,omitempty"`
	Result string `json:"result"`
	// Duration is in nanoseconds.
	Duration time.Duration `json:"duration"`
	// SentBytes and ReceivedBytes are those of the bodies.
	SentBytes     int `json:"sentBytes"`
	ReceivedBytes int `json:"receivedBytes"`
}

// Kind is what calls are counted by.
type Kind struct {
	Op           string `json:"op"`
	Host         string `json:"host"`
	Method       string `json:"method"`
	PathTemplate string `json:"pathTemplate"`
	Result       string `json:"result"`
}

// Count is how many calls of a kind there were.
type Count struct {
	Kind
	Calls int64 `json:"calls"`
	// Duration is that of all of them, Longest of one, in nanoseconds.
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

// Add keeps a call, and returns the kind under which it counts. host is that of the grant.
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
	// Invariant M40 (host/SECURITY.md): a provider chooses paths, and must not choose how many are told apart.
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

// Latest returns the calls that are kept, the newest first.
func (l *Log) Latest() []Call {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := make([]Call, 0, len(l.latest))
	for i := range l.latest {
		out = append(out, l.latest[(l.next-1-i+2*MaxCalls)%MaxCalls])
	}
	return out
}

// Counts returns how many calls there were since the provider began, by kind, in the order of their time in total.
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
