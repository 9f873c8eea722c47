package loadbalancer

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/guests/openstack/api"
	"github.com/wasm-ccm/wasm-ccm/guests/sdk"
)

// Octavia shows a load balancer only once its creation is answered, and names
// are not unique. So after an unanswered creation nothing is created for a
// while, and of two load balancers one is deleted.

// doubt is the time in which an unanswered creation may still take effect.
const doubt = 20 * time.Second

func (k *call) doubtKey() string { return "openstack/creating/" + k.service.Uid + "/" + k.service.Name }

// post creates the load balancer, unless a creation is in doubt. If the cache
// forgets that, twins result.
func (w *work) post(body object) error {
	cache := w.c.Op().Cache()
	if _, found, err := cache.Get(w.doubtKey()); err == nil && found {
		return sdk.RetryAfter(doubt/4, "the load balancer "+w.name+" was asked for without an answer; it is looked for before it is asked for again")
	}
	_ = cache.Put(w.doubtKey(), nil, w.c.Op().Left()+doubt)
	w.lb = &balancer{}
	err := w.c.Post(api.LoadBalancer, "/lbaas/loadbalancers", "loadbalancer", body, w.lb)
	if err == nil || api.StatusOf(err)/100 == 4 {
		_ = cache.Put(w.doubtKey(), nil, time.Millisecond)
	} else {
		_ = cache.Put(w.doubtKey(), nil, doubt)
	}
	return err
}

// twins chooses among several load balancers with the Service's name: the one
// with its address, else the oldest. It deletes the others if they are the
// Service's alone, as after a lost creation.
func (w *work) twins(found []balancer) error {
	var ips []floatingIP
	query := api.Query()
	for _, lb := range found {
		query.Add("port_id", lb.PortID)
	}
	if err := readAll(w.c, floatingIPs(query, &ips)); err != nil {
		return err
	}
	published := func(lb balancer) bool {
		return slices.ContainsFunc(ips, func(ip floatingIP) bool { return ip.PortID != "" && ip.PortID == lb.PortID })
	}
	known := func(lb balancer) bool { return slices.Contains(addressesOf(w.service), lb.Address) }
	slices.SortFunc(found, func(a, b balancer) int {
		return cmp.Or(rank(published(b))-rank(published(a)), rank(known(b))-rank(known(a)), cmp.Compare(a.CreatedAt, b.CreatedAt), cmp.Compare(a.ID, b.ID))
	})
	w.lb = &found[0]
	for i := range found[1:] {
		extra := &found[i+1]
		if published(*extra) || extra.Description != w.description() || len(others(extra.Tags, w.name)) > 0 {
			return sdk.Error(abi.CodeConflict, fmt.Sprintf("there are %d load balancers with the name %s (%s, %s): delete all but one", len(found), extra.Name, w.lb.ID, extra.ID))
		}
		if err := w.ready(extra); err != nil && !inError(err) {
			return err
		}
		if err := gone(w.c.Delete(api.LoadBalancer, w.path(extra.ID), api.Query("cascade", "true"))); err != nil {
			return err
		}
		w.say("LoadBalancerTwice", "the load balancer was made twice, as its creation was not answered; "+extra.ID+" is deleted, "+w.lb.ID+" stays")
	}
	return w.cutNameIsOurs()
}

func rank(yes bool) int {
	if yes {
		return 1
	}
	return 0
}
