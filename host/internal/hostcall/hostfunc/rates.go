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
	// KubeCalls and KubeBytes bound reads of the cluster's objects. Defaults 500 (burst 1000)
	// and 32 MiB (burst 64 MiB). Calls over it wait.
	KubeCalls, KubeCallsBurst int
	KubeBytes, KubeBytesBurst int
	// KubePatches bounds changes of objects. Default 1 (burst 20).
	KubePatches, KubePatchesBurst int
}

func (l Limits) withDefaults() Limits {
	for field, value := range map[*int]int{
		&l.LogLines: 100, &l.LogLinesBurst: 500,
		&l.LogBytes: 64 << 10, &l.LogBytesBurst: 256 << 10,
		&l.Events: 5, &l.EventsBurst: 50,
		&l.StoreCalls: 50, &l.StoreCallsBurst: 100,
		&l.KubeCalls: 500, &l.KubeCallsBurst: 1000,
		&l.KubeBytes: 32 << 20, &l.KubeBytesBurst: 64 << 20,
		&l.KubePatches: 1, &l.KubePatchesBurst: 20,
	} {
		if *field == 0 {
			*field = value
		}
	}
	return l
}

// Rates are the limiters of one provider. They are safe for concurrent use.
type Rates struct {
	lines, bytes, events, store       *rate.Limiter
	kubeCalls, kubeBytes, kubePatches *rate.Limiter
}

// NewRates returns full buckets.
func NewRates(limits Limits) *Rates {
	l := limits.withDefaults()
	return &Rates{
		lines:  rate.NewLimiter(rate.Limit(l.LogLines), l.LogLinesBurst),
		bytes:  rate.NewLimiter(rate.Limit(l.LogBytes), l.LogBytesBurst),
		events: rate.NewLimiter(rate.Limit(l.Events), l.EventsBurst),
		store:  rate.NewLimiter(rate.Limit(l.StoreCalls), l.StoreCallsBurst),

		kubeCalls: rate.NewLimiter(rate.Limit(l.KubeCalls), l.KubeCallsBurst),
		kubeBytes: rate.NewLimiter(rate.Limit(l.KubeBytes), l.KubeBytesBurst),

		kubePatches: rate.NewLimiter(rate.Limit(l.KubePatches), l.KubePatchesBurst),
	}
}

// Set changes the rates; the buckets keep their tokens, up to their size.
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
	set(r.kubeCalls, l.KubeCalls, l.KubeCallsBurst)
	set(r.kubeBytes, l.KubeBytes, l.KubeBytesBurst)
	set(r.kubePatches, l.KubePatches, l.KubePatchesBurst)
}
