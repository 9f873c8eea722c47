package egress

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/sony/gobreaker/v2"

	"github.com/wasm-ccm/wasm-ccm/abi"
)

// breakerWindow is the time over which the share of failures counts.
const breakerWindow = time.Minute

// hosts keeps the state of each host and port. A wildcard lets the guest choose their
// number, so it is bounded.
type hosts struct {
	options Options
	mu      sync.Mutex
	byName  map[string]*host
}

// host is one host and port, with one trust.
type host struct {
	label   string
	slots   *slots
	breaker *gobreaker.TwoStepCircuitBreaker[struct{}]
	// users and used are guarded by hosts.mu.
	users int
	used  time.Time

	mu         sync.Mutex
	quietUntil time.Time
	openUntil  time.Time
	lastFault  string
}

func newHosts(options Options) *hosts {
	return &hosts{options: options, byName: map[string]*host{}}
}

// acquire returns the host of a target; release gives it back. It returns nil
// when too many hosts are in use.
func (h *hosts) acquire(t target, g granted) *host {
	h.mu.Lock()
	defer h.mu.Unlock()
	name := hostPort(t.host, t.port) + " " + g.Trust
	found := h.byName[name]
	if found == nil {
		if len(h.byName) >= maxHosts && !h.evict() {
			return nil
		}
		found = newHost(h.options, g.label)
		h.byName[name] = found
	}
	found.users++
	return found
}

// set applies other options to the known hosts, without affecting running requests.
func (h *hosts) set(o Options) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.options = o
	for _, x := range h.byName {
		x.slots.set(o.MaxPerHost)
	}
}

func (h *hosts) release(x *host) {
	h.mu.Lock()
	defer h.mu.Unlock()
	x.users--
	x.used = time.Now()
}

// evict forgets the least recently used host.
func (h *hosts) evict() bool {
	oldest := ""
	for name, x := range h.byName {
		if x.users == 0 && (oldest == "" || x.used.Before(h.byName[oldest].used)) {
			oldest = name
		}
	}
	if oldest == "" {
		return false
	}
	x := h.byName[oldest]
	if state := x.breaker.State(); state != gobreaker.StateClosed {
		h.options.Observer.BreakerChanged(x.label, state.String(), gobreaker.StateClosed.String())
	}
	delete(h.byName, oldest)
	return true
}

func newHost(options Options, label string) *host {
	x := &host{label: label, slots: &slots{limit: options.MaxPerHost}}
	row := uint32(options.BreakerFailures)
	x.breaker = gobreaker.NewTwoStepCircuitBreaker[struct{}](gobreaker.Settings{
		MaxRequests:  1,
		Interval:     breakerWindow,
		BucketPeriod: breakerWindow / 6,
		Timeout:      options.BreakerOpen,
		ReadyToTrip: func(n gobreaker.Counts) bool {
			return n.ConsecutiveFailures >= row || (n.Requests >= 4*row && 2*n.TotalFailures >= n.Requests)
		},
		IsExcluded: func(err error) bool { return errors.Is(err, errNoVerdict) },
		OnStateChange: func(_ string, from, to gobreaker.State) {
			if to == gobreaker.StateOpen {
				x.mu.Lock()
				x.openUntil = time.Now().Add(options.BreakerOpen)
				x.mu.Unlock()
			}
			options.Observer.BreakerChanged(label, from.String(), to.String())
		},
	})
	return x
}

// fault records the last failure, for the breaker's error.
func (x *host) fault(what string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.lastFault = what
}

// pause records a server's Retry-After.
func (x *host) pause(d time.Duration) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if until := time.Now().Add(d); until.After(x.quietUntil) {
		x.quietUntil = until
	}
}

// quiet is the rest of the server's pause.
func (x *host) quiet() time.Duration {
	x.mu.Lock()
	defer x.mu.Unlock()
	return time.Until(x.quietUntil)
}

// held is the error while the breaker is open or waits for its probe.
func (c *Client) held(call *call) *abi.Error {
	c.options.Observer.Throttled(call.grant.label, "breaker")
	x := call.host
	x.mu.Lock()
	defer x.mu.Unlock()
	until := "until a trial request succeeds"
	if time.Now().Before(x.openUntil) {
		until = "until " + x.openUntil.UTC().Format(time.RFC3339)
	}
	return &abi.Error{Code: abi.CodeUnavailable, Message: fmt.Sprintf("%s: nothing is sent to this host %s, because requests to it failed; the last: %s",
		call.name, until, x.lastFault)}
}
