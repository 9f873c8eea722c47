package controllers

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/wasm-ccm/wasm-ccm/host/internal/report"
)

// soonAfter is when a new Service becomes Provisioning: most ensures end before.
const soonAfter = 2 * time.Second

// goesOn reports an ensure that takes long, while it goes on. The returned function ends the
// reports, and returns the Service with its latest condition.
func (b leasedBalancer) goesOn(ctx context.Context, service *corev1.Service) (end func() *corev1.Service) {
	waiting, cancel := context.WithCancel(ctx)
	now := make(chan *corev1.Service, 1)
	go func() {
		service, began := service, time.Now()
		defer func() { now <- service }()
		for _, after := range []time.Duration{soonAfter, report.SlowAfter, report.DelayedAfter} {
			select {
			case <-time.After(time.Until(began.Add(after))):
			case <-waiting.Done():
				return
			}
			// A write in progress is not cancelled: its outcome would be unknown.
			service = b.lease.conditions.goesOn(ctx, service, after >= report.SlowAfter)
			if after >= report.SlowAfter && b.lease.delayed != nil {
				b.lease.delayed(service, time.Since(began), nil)
			}
		}
	}()
	return func() *corev1.Service {
		cancel()
		return <-now
	}
}
