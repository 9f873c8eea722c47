package hostfunc

import "golang.org/x/time/rate"

// Limits bound rates, per second, with a burst. The zero value of a field is
// its default.
type Limits struct {
	// LogLines and LogBytes bound log, stdout and stderr together. Defaults
	// 100 (burst 500) and 64 KiB (burst 256 KiB).
	LogLines, LogLinesBurst int
	LogBytes, LogBytesBurst int
	// Events defaults to 5 (burst 50).
	Events, EventsBurst int
	// StoreCalls defaults to 50 (burst 100). Calls over it wait.
	StoreCalls, StoreCallsBurst int
}

func (l Limits) withDefaults() Limits {
	for field, value := range map[*int]int{
		&l.LogLines: 100, &l.LogLinesBurst: 500,
		&l.LogBytes: 64 << 10, &l.LogBytesBurst: 256 << 10,
		&l.Events: 5, &l.EventsBurst: 50,
		&l.StoreCalls: 50, &l.StoreCallsBurst: 100,
	} {
		if *field == 0 {
			*field = value
		}
	}
	return l
}

// Rates are the limiters of one provider. They are safe for concurrent use.
type Rates struct {
	lines, bytes, events, store *rate.Limiter
}

// NewRates returns full buckets.
func NewRates(limits Limits) *Rates {
	l := limits.withDefaults()
	return &Rates{
		lines:  rate.NewLimiter(rate.Limit(l.LogLines), l.LogLinesBurst),
		bytes:  rate.NewLimiter(rate.Limit(l.LogBytes), l.LogBytesBurst),
		events: rate.NewLimiter(rate.Limit(l.Events), l.EventsBurst),
		store:  rate.NewLimiter(rate.Limit(l.StoreCalls), l.StoreCallsBurst),
	}
}

// Set changes the rates; what the buckets hold now stays, up to their size.
func (r *Rates) Set(limits Limits) {
	l := limits.withDefaults()
	set := func(limiter *rate.Limiter, perSecond, burst int) {
		limiter.SetLimit(rate.Limit(perSecond))
		limiter.SetBurst(burst)
	}
	set(r.lines, l.LogLines, l.LogLinesBurst)
	set(r.bytes, l.LogBytes, l.LogBytesBurst)
	set(r.events, l.Events, l.EventsBurst)
	set(r.store, l.StoreCalls, l.StoreCallsBurst)
}
