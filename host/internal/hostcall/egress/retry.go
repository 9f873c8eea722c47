package egress

import (
	"context"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/wasm-ccm/wasm-ccm/abi"
)

// outcome is one attempt's: an answer or an error.
type outcome struct {
	answer *answer
	err    *abi.Error
	// established: there was a connection, so the server may have seen the request.
	established bool
	// transient: another attempt may succeed.
	transient bool
}

func (o outcome) status() int {
	if o.answer == nil {
		return 0
	}
	return int(o.answer.response.Status)
}

// reason says why a request may be sent again, or "".
func (o outcome) reason(method string) string {
	switch {
	case o.err != nil && !o.transient:
		return ""
	case o.err != nil && !o.established:
		return "connect"
	case !idempotent(method):
		return ""
	case o.err != nil:
		return "connection"
	}
	switch status := o.status(); status {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return strconv.Itoa(status)
	}
	return ""
}

func idempotent(method string) bool {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodPut, http.MethodDelete:
		return true
	}
	return false
}

// sendCall sends one request to one place, with retries.
func (c *Client) sendCall(ctx context.Context, call *call, bytesLeft *atomic.Int64) (*answer, *abi.Error) {
	call.host = c.traffic.hosts.acquire(call.target, call.grant)
	if call.host == nil {
		return nil, c.throttled(call, "concurrency", time.Second, "too many hosts at the same time")
	}
	defer c.traffic.hosts.release(call.host)
	c.traffic.budget.request()
	renewed := false
	for retries := 0; ; {
		out := c.attempt(ctx, call, bytesLeft)
		if !renewed && c.rejected(ctx, call, out) {
			renewed = true
			c.options.Observer.Retried(call.grant.label, "401")
			out.answer.refund(bytesLeft)
			continue
		}
		again, e := c.again(ctx, call, out, retries)
		if e != nil || !again {
			return out.answer, e
		}
		out.answer.refund(bytesLeft)
		retries++
	}
}

// again waits and reports whether the call is repeated; otherwise it returns the outcome's
// answer or error.
func (c *Client) again(ctx context.Context, call *call, out outcome, retries int) (bool, *abi.Error) {
	reason := out.reason(call.request.Method)
	if reason == "" || retries >= c.options.MaxRetries {
		return false, out.err
	}
	wait := rand.N(min(c.options.MaxRetryWait, c.options.Backoff<<min(retries, 16)))
	if asked, ok := out.retryAfter(); ok {
		if asked > c.options.MaxRetryWait || !fits(ctx, asked) {
			return false, c.throttled(call, "retry_after", asked, "the server answered "+reason+" and asked for a pause (Retry-After)")
		}
		wait += asked
	}
	if !fits(ctx, wait) {
		return false, out.err
	}
	// Invariant E8 (host/SECURITY.md): retries are a share of all requests.
	if !c.traffic.budget.allow() {
		c.options.Observer.Throttled(call.grant.label, "retry_budget")
		return false, out.err
	}
	c.options.Observer.Retried(call.grant.label, reason)
	if sleep(ctx, wait) != nil {
		return false, out.err
	}
	return true, nil
}

// retryAfter is the server's Retry-After.
func (o outcome) retryAfter() (time.Duration, bool) {
	switch o.status() {
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		return parseRetryAfter(o.answer.header.Get("Retry-After"), time.Now())
	}
	return 0, false
}

// parseRetryAfter reads seconds or a date; at most maxRetryAfter.
func parseRetryAfter(value string, now time.Time) (time.Duration, bool) {
	value = strings.TrimSpace(value)
	if value != "" && strings.Trim(value, "0123456789") == "" {
		seconds, err := strconv.ParseUint(value, 10, 31)
		if err != nil {
			return maxRetryAfter, true // out of range
		}
		return min(maxRetryAfter, time.Duration(seconds)*time.Second), true
	}
	date, err := http.ParseTime(value)
	if err != nil {
		return 0, false
	}
	return min(maxRetryAfter, max(0, date.Sub(now))), true
}

// fits reports whether ctx has more time left than wait.
func fits(ctx context.Context, wait time.Duration) bool {
	deadline, ok := ctx.Deadline()
	return !ok || wait < time.Until(deadline)
}

func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// budget bounds the retries of all requests together: in an outage retries must not multiply
// the load. It counts over a sliding minute.
type budget struct {
	share float64
	least int

	start  time.Time
	mu     sync.Mutex
	now    int64 // number of the newest slice of the window, since start
	counts [budgetParts]struct{ requests, retries int }
}

const (
	budgetParts = 10
	budgetPart  = 6 * time.Second
)

func (b *budget) request() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.advance()
	b.counts[b.now%budgetParts].requests++
}

// allow takes one retry, if one is left.
func (b *budget) allow() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.advance()
	requests, retries := 0, 0
	for _, n := range b.counts {
		requests += n.requests
		retries += n.retries
	}
	if retries >= max(b.least, int(b.share*float64(requests))) {
		return false
	}
	b.counts[b.now%budgetParts].retries++
	return true
}

// advance clears expired slices.
func (b *budget) advance() {
	now := int64(time.Since(b.start) / budgetPart)
	for i := max(b.now+1, now-budgetParts+1); i <= now; i++ {
		b.counts[i%budgetParts] = struct{ requests, retries int }{}
	}
	b.now = now
}
