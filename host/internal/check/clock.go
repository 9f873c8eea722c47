package check

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"

	"github.com/wasm-ccm/wasm-ccm/host/internal/report"
)

// maxSkew is how far clocks may differ: the header Date has whole seconds, and
// Leases are renewed for 15 s.
const maxSkew = 5 * time.Second

// dates measures how far the API server's clock is ahead of this machine's,
// from the header Date of its answers. It is safe for concurrent use.
type dates struct {
	clock func() time.Time
	mu    sync.Mutex
	known bool
	ahead time.Duration
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(request *http.Request) (*http.Response, error) { return f(request) }

func (d *dates) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(request *http.Request) (*http.Response, error) {
		response, err := next.RoundTrip(request)
		if err == nil {
			d.note(response.Header.Get("Date"))
		}
		return response, err
	})
}

func (d *dates) note(header string) {
	date, err := http.ParseTime(header)
	if err != nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.known, d.ahead = true, date.Sub(d.clock())
}

// now is the time of the API server's clock.
func (d *dates) now() time.Time {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.clock().Add(d.ahead)
}

func (d *dates) skew() (time.Duration, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.ahead.Abs(), d.known
}

func (c *checker) clocks(context.Context) {
	c.section("Clock", "cluster", "the clocks of this machine, of the nodes and of the leader agree with the API server's", func() {
		skew, known := c.dates.skew()
		switch {
		case !known:
			c.unknown("Clock", "this machine", "not checked: the API server's answers have no Date")
		case skew > maxSkew:
			c.tell(report.ClockSkew, "this machine", fmt.Sprintf("by %v", skew.Round(time.Second)))
		}
		for i := range c.seen.nodeLeases {
			c.leaseClock("node "+c.seen.nodeLeases[i].Name, &c.seen.nodeLeases[i])
		}
		for i := range c.seen.leases {
			c.leaseClock("the holder of lease "+c.seen.leases[i].Namespace+"/"+managerName, &c.seen.leases[i])
		}
	}, ofNodeLeases, ofLeases)
}

// leaseClock reports the holder of a Lease with a renewal in the future: its
// clock is ahead. A late renewal is not reported, as its holder may be dead.
func (c *checker) leaseClock(who string, lease *coordinationv1.Lease) {
	if lease.Spec.RenewTime == nil {
		return
	}
	if ahead := lease.Spec.RenewTime.Sub(c.dates.now()); ahead > maxSkew {
		c.tell(report.ClockAhead, who, fmt.Sprintf("by %v", ahead.Round(time.Second)))
	}
}

// live reports whether the holder of a Lease still renews it.
func (c *checker) live(lease *coordinationv1.Lease) bool {
	s := lease.Spec
	if s.HolderIdentity == nil || *s.HolderIdentity == "" || s.RenewTime == nil || s.LeaseDurationSeconds == nil {
		return false
	}
	return c.dates.now().Before(s.RenewTime.Add(time.Duration(*s.LeaseDurationSeconds)*time.Second + maxSkew))
}
