package loadbalancer

import (
	"cmp"
	"errors"
	"slices"
	"strings"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/guests/openstack/api"
	"github.com/wasm-ccm/wasm-ccm/guests/openstack/cloudconf"
	"github.com/wasm-ccm/wasm-ccm/guests/sdk"
)

// Get answers DoesNotExist if nothing of the Service is left: no load balancer
// with its name or tag, and no floating IP made for it. It costs 3 or 4 calls,
// in parallel, and one more if there is a load balancer.
func Get(c *api.Client, config *cloudconf.Config, request *abi.LoadBalancerRequest) (sdk.Existence, *abi.LoadBalancerStatus, error) {
	k, err := newCall(c, config, request)
	if err != nil {
		return 0, nil, err
	}
	found, err := k.remains()
	if err != nil {
		return 0, nil, err
	}
	if len(found.balancers) == 0 && len(found.floating) == 0 {
		return sdk.DoesNotExist, nil, nil
	}
	return sdk.Exists, statusOf(k.service, config, found.address()), nil
}

// Delete removes what belongs to the Service: the floating IP made for it and
// the load balancer, or its part of a shared one. It succeeds when all is gone,
// and answers RetryAfter before. It reads as Get does.
func Delete(c *api.Client, config *cloudconf.Config, request *abi.LoadBalancerRequest) error {
	k, err := newCall(c, config, request)
	if err != nil {
		return err
	}
	found, err := k.remains()
	if err != nil {
		return err
	}
	var pending error
	for _, r := range found.balancers {
		err := k.remove(r)
		if err != nil && sdk.CodeOf(err) != abi.CodeRetryAfter {
			return err
		}
		pending = cmp.Or(pending, err)
	}
	for _, ip := range found.floating {
		if err := k.deleteFloatingIP(&ip); err != nil {
			return err
		}
	}
	return pending
}

// remains is what the cloud still has of a Service.
type remains struct {
	balancers []remainder
	// floating are floating IPs made for the Service that are no longer at its
	// load balancer.
	floating []floatingIP
}

// address is the Service's, empty if unknown, e.g. while the load balancer is
// being made.
func (r *remains) address() string {
	switch {
	case len(r.balancers) > 0 && r.balancers[0].state.floating != nil:
		return r.balancers[0].state.floating.Address
	case len(r.balancers) > 0:
		return r.balancers[0].lb.Address
	case len(r.floating) > 0:
		return r.floating[0].Address
	}
	return ""
}

type remainder struct {
	lb    *balancer
	state *children
	// whole: the load balancer belongs to the Service alone and can be deleted.
	whole bool
}

func (k *call) remains() (*remains, error) {
	all := &remains{}
	candidates, ips, err := k.candidates()
	if err != nil {
		return nil, err
	}
	for i := range candidates {
		lb := &candidates[i]
		state, err := k.children(lb, true)
		if err != nil {
			return nil, err
		}
		r := remainder{lb: lb, state: state, whole: k.whole(lb, state)}
		if r.whole || slices.Contains(lb.Tags, k.name) || len(k.tagged(state)) > 0 {
			all.balancers = append(all.balancers, r)
		}
	}
	if !k.keepsFloatingIP() {
		all.floating = slices.DeleteFunc(ips, func(ip floatingIP) bool { return ip.PortID != "" || ip.Description != k.floatingDescription() })
	}
	return all, nil
}

func (k *call) keepsFloatingIP() bool {
	return (&values{of: k.service.Annotations}).flag(annKeepFloatingIP, false)
}

// candidates are the load balancers with the name, the old name, the tag, or
// the ID of the annotation, and the floating IPs with an address of the
// Service, read in parallel. Only the cloud's 404 means that an ID does not
// exist.
func (k *call) candidates() ([]balancer, []floatingIP, error) {
	var named, legacy, tagged []balancer
	var annotated balancer
	reads := []*reading{byName(k.name, &named), byName(legacyName(k.service), &legacy)}
	if k.version.has(withTags, "") {
		reads = append(reads, list("/lbaas/loadbalancers", api.Query("tags", k.name), "loadbalancers", &tagged))
	}
	v := &values{of: k.service.Annotations}
	if id := v.text(annID, ""); id != "" && v.err == nil {
		byID := one(k.path(id), "loadbalancer", &annotated)
		byID.absent = new(bool)
		reads = append(reads, byID)
	}
	ips := &addressed{addresses: addressesOf(k.service)}
	if err := readAll(k.c, append(reads, ips.reads()...)...); err != nil {
		return nil, nil, err
	}
	all := slices.DeleteFunc(slices.Concat(named, legacy, tagged), func(lb balancer) bool {
		return lb.Name != k.name && lb.Name != legacyName(k.service) && !slices.Contains(lb.Tags, k.name)
	})
	if annotated.ID != "" {
		all = append(all, annotated)
	}
	return distinct(all), ips.found(), nil
}

func distinct(all []balancer) []balancer {
	seen := map[string]bool{}
	return slices.DeleteFunc(all, func(lb balancer) bool {
		again := seen[lb.ID] || lb.Status == "DELETED"
		seen[lb.ID] = true
		return again
	})
}

// whole: a controller made the load balancer, no other Service uses it, and it
// was made for this Service or has only parts of this Service.
func (k *call) whole(lb *balancer, state *children) bool {
	own := lb.Name == k.name || lb.Name == legacyName(k.service)
	if !own && !strings.HasPrefix(lb.Name, servicePrefix) {
		return false
	}
	if len(others(lb.Tags, k.name)) > 0 {
		return false
	}
	mine := k.tagged(state)
	for _, l := range state.listeners {
		if !slices.Contains(mine, l) && (!own || len(services(l.Tags)) > 0) {
			return false
		}
	}
	return own || slices.Contains(lb.Tags, k.name) || len(mine) > 0
}

// others are the tags of other Services.
func others(tags []string, name string) []string {
	return slices.DeleteFunc(services(tags), func(tag string) bool { return tag == name })
}

func (k *call) tagged(state *children) []*listener {
	return slices.DeleteFunc(slices.Clone(state.listeners), func(l *listener) bool { return !slices.Contains(l.Tags, k.name) })
}

// remove deletes a load balancer or the Service's part of it, in an order that
// lets the rest be found again: the floating IP before the load balancer, pools
// before listeners, and the tag last.
func (k *call) remove(r remainder) error {
	if err := k.ready(r.lb); err != nil && !inError(err) {
		return err
	}
	if !r.whole {
		return k.leave(r)
	}
	if ip := r.state.floating; ip != nil && made(ip) && !k.keepsFloatingIP() {
		if err := k.deleteFloatingIP(ip); err != nil {
			return err
		}
	}
	if !k.config.LoadBalancer.CascadeDelete {
		if err := k.deleteParts(r.lb, r.state.listeners, r.state.pools); err != nil {
			return err
		}
	}
	return k.deleteBalancer(r.lb)
}

func inError(err error) bool {
	failed := (*statusError)(nil)
	return errors.As(err, &failed)
}

func (k *call) deleteBalancer(lb *balancer) error {
	query := api.Query()
	if k.config.LoadBalancer.CascadeDelete {
		query.Set("cascade", "true")
	}
	err := k.writeAt(lb, func() error { return k.c.Delete(api.LoadBalancer, k.path(lb.ID), query) })
	switch {
	case api.IsNotFound(err) || (err == nil && lb.Status == "DELETED"):
		return nil
	case err == nil:
		return sdk.RetryAfter(minPause, "the load balancer "+lb.ID+" is being deleted")
	case inError(err) && lb.Status == "DELETED":
		return nil
	}
	return err
}

// leave removes the Service's listeners and tag from a load balancer of others.
func (k *call) leave(r remainder) error {
	if err := k.ready(r.lb); err != nil {
		return err
	}
	for _, l := range k.tagged(r.state) {
		if err := k.deleteListener(r.lb, l); err != nil {
			return err
		}
	}
	if !slices.Contains(r.lb.Tags, k.name) {
		return nil
	}
	return k.writeAt(r.lb, func() error {
		tags := slices.DeleteFunc(slices.Clone(r.lb.Tags), func(tag string) bool { return tag == k.name })
		return k.c.Put(api.LoadBalancer, k.path(r.lb.ID), "loadbalancer", object{"tags": tags}, nil)
	})
}

func (k *call) deleteParts(lb *balancer, listeners []*listener, pools []*pool) error {
	for _, p := range pools {
		if err := k.deletePool(lb, p); err != nil {
			return err
		}
	}
	for _, l := range listeners {
		l.pool = nil
		if err := k.deleteListener(lb, l); err != nil {
			return err
		}
	}
	return nil
}

// deleteListener deletes the pool first: without its listener the pool's owner
// would be unknown.
func (k *call) deleteListener(lb *balancer, l *listener) error {
	if l.pool != nil {
		if err := k.deletePool(lb, l.pool); err != nil {
			return err
		}
	}
	return k.writeAt(lb, func() error {
		return gone(k.c.Delete(api.LoadBalancer, "/lbaas/listeners/"+api.Segment(l.ID), nil))
	})
}

// deletePool deletes a pool with its members.
func (k *call) deletePool(lb *balancer, p *pool) error {
	if p.MonitorID != "" {
		if err := k.deleteMonitor(lb, p.MonitorID); err != nil {
			return err
		}
	}
	return k.writeAt(lb, func() error { return gone(k.c.Delete(api.LoadBalancer, "/lbaas/pools/"+api.Segment(p.ID), nil)) })
}

func (k *call) deleteMonitor(lb *balancer, id string) error {
	return k.writeAt(lb, func() error {
		return gone(k.c.Delete(api.LoadBalancer, "/lbaas/healthmonitors/"+api.Segment(id), nil))
	})
}

func (k *call) deleteFloatingIP(ip *floatingIP) error {
	return gone(k.c.Delete(api.Network, "/floatingips/"+api.Segment(ip.ID), nil))
}
