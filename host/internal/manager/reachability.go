package manager

import (
	"context"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/wasm-ccm/wasm-ccm/host/internal/hostcall/egress"
	"github.com/wasm-ccm/wasm-ccm/host/internal/text"
	"github.com/wasm-ccm/wasm-ccm/host/status/v1alpha1"
)

const (
	// reachInterval is the least time between two rounds of connections.
	reachInterval = 10 * time.Second
	// reachTime bounds a round; a single host has less (egress).
	reachTime = 8 * time.Second
)

// reachRounds connects to the granted hosts in rounds.
//
// Invariant V7 (host/SECURITY.md): for any number of requests there is one
// round at a time, and one in reachInterval.
type reachRounds struct {
	round func(context.Context) *v1alpha1.Reachability

	turn sync.Mutex
	last *v1alpha1.Reachability
}

// get makes a round, or returns the last one. A round outlives its caller: the
// next caller gets its result.
func (r *reachRounds) get(ctx context.Context) (*v1alpha1.Reachability, error) {
	if !r.turn.TryLock() {
		return nil, apierrors.NewTooManyRequests("the manager connects to the granted hosts already: ask again", 1)
	}
	defer r.turn.Unlock()
	if r.last != nil && time.Since(r.last.Time.Time) < reachInterval {
		return r.last, nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), reachTime)
	defer cancel()
	r.last = r.round(ctx)
	return r.last, nil
}

// reachAll connects to the hosts of all providers in parallel.
func reachAll(ctx context.Context, manager v1alpha1.Manager, all []*managed) *v1alpha1.Reachability {
	out := &v1alpha1.Reachability{
		TypeMeta: metav1.TypeMeta{APIVersion: v1alpha1.APIVersion, Kind: "Reachability"}, Time: metav1.Now(), Manager: manager,
		Hosts: []v1alpha1.HostReach{},
	}
	found := make([][]v1alpha1.HostReach, len(all))
	var wg sync.WaitGroup
	for i, one := range all {
		wg.Go(func() { found[i] = reachOf(ctx, one) })
	}
	wg.Wait()
	for _, hosts := range found {
		out.Hosts = append(out.Hosts, hosts...)
	}
	return out
}

// reachOf connects to the presently granted hosts of a provider.
func reachOf(ctx context.Context, one *managed) (all []v1alpha1.HostReach) {
	found, more := one.allowed.current.Load().Client.Reach(ctx, v1alpha1.MaxHosts)
	for i := range found {
		all = append(all, toldReach(one, &found[i]))
	}
	if more {
		all = append(all, v1alpha1.HostReach{
			Provider: one.name, Host: v1alpha1.MoreHosts, Result: v1alpha1.HostNotAsked, Message: fmt.Sprintf("no more than %d hosts of a provider are asked", v1alpha1.MaxHosts),
		})
	}
	return all
}

func toldReach(one *managed, r *egress.Reach) v1alpha1.HostReach {
	line := func(words string) string { return text.Line(one.allowed.scrub(words), v1alpha1.MaxText) }
	return v1alpha1.HostReach{
		Provider: one.name, Host: line(r.Host), Result: r.Result, Message: line(r.Detail), Address: r.Address, TLS: r.TLS,
		CertificateEnds: metav1.NewTime(r.CertificateEnds), Took: metav1.Duration{Duration: r.Took},
	}
}
