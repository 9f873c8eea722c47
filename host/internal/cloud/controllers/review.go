package controllers

import (
	"context"
	"errors"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	cloudproviderapi "k8s.io/cloud-provider/api"
)

const (
	// reviewPeriod is the least time between two Services of a review: each causes two Events,
	// and the client of a loop makes 20 requests per second by default.
	reviewPeriod = 200 * time.Millisecond
	// reviewed is how many Services are under review at once: few, so that users' ops find
	// instances of the guest.
	reviewed = 4
	// laterReviewPeriod is the pause after a Service that the provider puts off.
	laterReviewPeriod = 4 * time.Second
	// reviewPatience bounds the wait for an ensure, for example of a Service that was deleted
	// meanwhile.
	reviewPatience = 30 * time.Second
)

// review has a loop look again at its load balancers after a change of the provider's
// configuration, since the loop does not return to a finished Service by itself. A few
// Services are under review at a time, and the next one follows when the provider has
// answered for one: the loop's queue holds no more, so a user's change does not wait. A new
// review replaces the one before, in another order, so that no Service is always last.
func (i *incarnation) review() {
	if i.endReview != nil {
		i.endReview()
	}
	ctx, end := context.WithCancel(i.lease.ctx)
	i.endReview = end
	i.inBackground(func(context.Context) { i.view.review(ctx) })
}

func (v *view) review(ctx context.Context) {
	keys := make(chan string)
	var group sync.WaitGroup
	for range reviewed {
		group.Go(func() {
			for key := range keys {
				v.reviewOne(ctx, key)
			}
		})
	}
	for _, key := range v.balanced() {
		if !pause(ctx, reviewPeriod) {
			break
		}
		select {
		case keys <- key:
		case <-ctx.Done():
		}
	}
	close(keys)
	group.Wait()
}

// reviewOne returns when the provider has answered for a Service.
func (v *view) reviewOne(ctx context.Context, key string) {
	ended, forget := v.lease.nextEnsure(key)
	defer forget()
	v.repeat(kindService, key)
	select {
	case err := <-ended:
		if retry := (*cloudproviderapi.RetryError)(nil); errors.As(err, &retry) {
			pause(ctx, laterReviewPeriod)
		}
	case <-time.After(reviewPatience):
	case <-ctx.Done():
	}
}

// pause returns false when the context has ended before.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

// balanced returns the Services of the loop that must have a load balancer, in no order.
func (v *view) balanced() (keys []string) {
	for _, obj := range v.Core().V1().Services().Informer().GetStore().List() {
		if s, ok := obj.(*corev1.Service); ok && s.Spec.Type == corev1.ServiceTypeLoadBalancer && s.Spec.LoadBalancerClass == nil && s.DeletionTimestamp == nil {
			keys = append(keys, s.Namespace+"/"+s.Name)
		}
	}
	return keys
}

// nextEnsure returns a channel that gets the outcome of the next ensure of a Service, until
// forget is called.
func (l *lease) nextEnsure(object string) (ended <-chan error, forget func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	answer := make(chan error, 1)
	l.awaited[object] = answer
	return answer, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.awaited[object] == answer {
			delete(l.awaited, object)
		}
	}
}

func (l *lease) ensured(object string, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if answer, ok := l.awaited[object]; ok {
		answer <- err
		delete(l.awaited, object)
	}
}
