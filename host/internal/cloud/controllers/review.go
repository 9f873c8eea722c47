package controllers

import (
	"context"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
	cloudproviderapi "k8s.io/cloud-provider/api"
)

const (
	// reviewPeriod is the least time between two Services of a review: each is two
	// Events, and the client of a loop makes 20 requests per second by default.
	reviewPeriod = 200 * time.Millisecond
	// laterReviewPeriod is that after one whose op goes on in the background: few are
	// under way at once, and users' ops find instances of the guest.
	laterReviewPeriod = time.Second
	// reviewPatience bounds how long a review waits for the loop to come to a
	// Service, for example behind others that take long.
	reviewPatience = 10 * time.Second
)

// review has a loop look again at the load balancers that it has made: what the
// provider was configured with has changed, and the loop comes back to none that
// is as its Service says. It is one Service after the other, and the next one
// when the provider has answered for the one before: the queue of the loop holds
// at most one for it, so a user's change waits for no more than that. A review
// takes the place of the one before; each has an order of its own, so that
// none is always last.
func (i *incarnation) review() {
	if i.endReview != nil {
		i.endReview()
	}
	ctx, end := context.WithCancel(i.lease.ctx)
	i.endReview = end
	i.inBackground(func(context.Context) { i.view.review(ctx) })
}

func (v *view) review(ctx context.Context) {
	pause := reviewPeriod
	for _, key := range v.balanced() {
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return
		}
		pause = reviewPeriod
		ended := v.lease.nextEnsure(key)
		v.repeat(kindService, key)
		select {
		case err := <-ended:
			if retry := (*cloudproviderapi.RetryError)(nil); errors.As(err, &retry) {
				pause = laterReviewPeriod
			}
		case <-time.After(reviewPatience):
		case <-ctx.Done():
			return
		}
	}
}

// balanced are the Services of the loop that are to have a load balancer, in no
// order.
func (v *view) balanced() (keys []string) {
	for _, obj := range v.Core().V1().Services().Informer().GetStore().List() {
		if s, ok := obj.(*corev1.Service); ok && s.Spec.Type == corev1.ServiceTypeLoadBalancer && s.Spec.LoadBalancerClass == nil && s.DeletionTimestamp == nil {
			keys = append(keys, s.Namespace+"/"+s.Name)
		}
	}
	return keys
}

// nextEnsure returns a channel that gets what the next ensure of a Service ends
// with. One waits at a time.
func (l *lease) nextEnsure(object string) <-chan error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.awaited, l.answer = object, make(chan error, 1)
	return l.answer
}

func (l *lease) ensured(object string, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.answer != nil && l.awaited == object {
		l.answer <- err
		l.answer = nil
	}
}
