package loadbalancer

import (
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/guests/openstack/api"
	"github.com/wasm-ccm/wasm-ccm/guests/sdk"
)

// reconcile makes what is missing, one write after the other. It may end after
// any of them: all parts are found again by parent and tag.
func (w *work) reconcile() error {
	if w.explicit && !w.version.has(withACLs, w.lb.Provider) {
		w.say("LoadBalancerSourceRangesIgnored", "the source ranges are ignored, so everybody may connect: Octavia's provider "+w.lb.Provider+" or its version, before v2.12, has none")
	}
	existing, err := w.match()
	if err != nil {
		return err
	}
	w.sayErrors(existing)
	if err := w.fillOf(existing); err != nil {
		return err
	}
	if err := w.tag(); err != nil {
		return err
	}
	for _, l := range w.state.listeners {
		if w.ours(l) && !slices.Contains(existing, l) {
			if err := w.deleteListener(w.lb, l); err != nil {
				return err
			}
		}
	}
	for i, p := range w.ports {
		if err := w.ensurePort(i, p, existing[i]); err != nil {
			return err
		}
	}
	return nil
}

// match finds the listener of each port, nil if there is none, and refuses
// ports of others.
func (w *work) match() ([]*listener, error) {
	existing := make([]*listener, len(w.ports))
	for i, p := range w.ports {
		for _, l := range w.state.listeners {
			if l.Port != p.number || transport(l.Protocol) != p.protocol {
				continue
			}
			if !w.ours(l) {
				return nil, sdk.Error(abi.CodeConflict, "the port "+p.String()+" of the load balancer "+w.lb.ID+" is in use by "+strings.Join(append(l.Tags, "listener "+l.ID), ", "))
			}
			if l.Protocol == p.listener {
				existing[i] = l
			}
		}
	}
	return existing, nil
}

// transport is the part of the protocol in which two listeners on one port must
// differ.
func transport(protocol string) string {
	if protocol == "UDP" || protocol == "SCTP" {
		return protocol
	}
	return "TCP"
}

// ours: the listener has the Service's tag, or was made before there were tags.
func (w *work) ours(l *listener) bool {
	return slices.Contains(l.Tags, w.name) || (w.owner && len(l.Tags) == 0)
}

// sayErrors reports parts in ERROR. They may still work, so they are left to an
// administrator.
func (w *work) sayErrors(listeners []*listener) {
	for _, l := range listeners {
		if l != nil && (l.Status == inErrorStatus || (l.pool != nil && l.pool.Status == inErrorStatus)) {
			w.say("LoadBalancerPartInError", "the listener "+l.ID+" of the load balancer "+w.lb.ID+" or its pool is in ERROR: an administrator has to look why, and to delete it; it is then made again")
		}
	}
}

const inErrorStatus = "ERROR"

func (w *work) fillOf(existing []*listener) error {
	var pools []*pool
	for _, l := range existing {
		if l != nil && l.pool != nil && !slices.Contains(pools, l.pool) {
			pools = append(pools, l.pool)
		}
	}
	return w.fill(pools)
}

// tag marks the load balancer as used by the Service, before anything else:
// then others do not delete it.
func (w *work) tag() error {
	if !w.version.has(withTags, w.lb.Provider) || slices.Contains(w.lb.Tags, w.name) {
		return nil
	}
	return w.write(func() error {
		tags := append(slices.Clone(w.lb.Tags), w.name)
		return w.c.Put(api.LoadBalancer, w.path(w.lb.ID), "loadbalancer", object{"tags": tags}, nil)
	})
}

func (w *work) ensurePort(index int, p port, l *listener) error {
	l, err := w.ensureListener(index, p, l)
	if err != nil {
		return err
	}
	if err := w.ensurePool(index, p, l); err != nil {
		return err
	}
	if err := w.ensureMembers(p, l.pool); err != nil {
		return err
	}
	return w.ensureMonitor(index, p, l.pool)
}

func (w *work) ensureListener(index int, p port, l *listener) (*listener, error) {
	if l == nil {
		body := w.newListener(index, p, w.lb.Provider)
		body["loadbalancer_id"] = w.lb.ID
		l = &listener{}
		return l, w.write(func() error { return w.c.Post(api.LoadBalancer, "/lbaas/listeners", "listener", body, l) })
	}
	changes := w.changes(l)
	if len(changes) == 0 {
		return l, nil
	}
	return l, w.write(func() error {
		return w.c.Put(api.LoadBalancer, "/lbaas/listeners/"+api.Segment(l.ID), "listener", changes, nil)
	})
}

// changes are the fields of a listener to be changed.
func (w *work) changes(l *listener) object {
	changes := object{}
	provider := w.lb.Provider
	if w.version.has(withTags, provider) && !slices.Contains(l.Tags, w.name) {
		changes["tags"] = append(slices.Clone(l.Tags), w.name)
	}
	if l.Limit != w.limit {
		changes["connection_limit"] = w.limit
	}
	if w.forwarded != (l.Headers[xForwardedFor] == "true") {
		changes["insert_headers"] = headers(l.Headers, w.forwarded)
	}
	if l.TLS != w.tls {
		changes["default_tls_container_ref"] = w.tls
	}
	if w.version.has(withTimeouts, provider) {
		for i, key := range timeoutKeys {
			if l.timeoutsOfThis[i] != w.timeouts[i] {
				changes[key] = w.timeouts[i]
			}
		}
	}
	if w.version.has(withACLs, provider) && !slices.Equal(normalised(l.CIDRs, w.family), w.ranges) {
		changes["allowed_cidrs"] = w.ranges
	}
	return changes
}

func headers(current map[string]string, forwarded bool) map[string]string {
	wanted := map[string]string{}
	maps.Copy(wanted, current)
	delete(wanted, xForwardedFor)
	if forwarded {
		wanted[xForwardedFor] = "true"
	}
	return wanted
}

// normalised makes ranges comparable: none means everybody, and order and
// spelling do not matter.
func normalised(cidrs []string, family string) []string {
	if len(cidrs) == 0 {
		return []string{everybody(family)}
	}
	all := make([]string, len(cidrs))
	for i, cidr := range cidrs {
		all[i] = cidr
		if prefix, err := netip.ParsePrefix(cidr); err == nil {
			all[i] = prefix.Masked().String()
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// ensurePool makes the pool of a listener, and replaces a pool of another
// protocol, which cannot be changed.
func (w *work) ensurePool(index int, p port, l *listener) error {
	if l.pool != nil && l.pool.Protocol != p.pool {
		if err := w.deletePool(w.lb, l.pool); err != nil {
			return err
		}
		l.pool = nil
	}
	if l.pool == nil {
		body := w.newPool(index, p)
		body["listener_id"] = l.ID
		l.pool = &pool{}
		return w.write(func() error { return w.c.Post(api.LoadBalancer, "/lbaas/pools", "pool", body, l.pool) })
	}
	if w.affinity == (l.pool.Persistence != nil) {
		return nil
	}
	change := object{"session_persistence": nil}
	if w.affinity {
		change["session_persistence"] = persistence{Type: "SOURCE_IP"}
	}
	return w.write(func() error {
		return w.c.Put(api.LoadBalancer, "/lbaas/pools/"+api.Segment(l.pool.ID), "pool", change, nil)
	})
}

// ensureMonitor makes, changes or deletes the health monitor of a pool. A
// monitor of another type is replaced, since its type cannot be changed.
func (w *work) ensureMonitor(index int, p port, of *pool) error {
	m := of.monitor
	if m != nil && (!w.monitor.enabled || m.Type != w.monitorType(p)) {
		if err := w.deleteMonitor(w.lb, m.ID); err != nil {
			return err
		}
		m = nil
	}
	if !w.monitor.enabled {
		return nil
	}
	body := w.newMonitor(index, p)
	if m == nil {
		body["pool_id"] = of.ID
		return w.write(func() error {
			return w.c.Post(api.LoadBalancer, "/lbaas/healthmonitors", "healthmonitor", body, nil)
		})
	}
	if (monitorSpec{true, m.Delay, m.Timeout, m.Retries, m.Downward, w.monitor.check}) == w.monitor {
		return nil
	}
	delete(body, "type")
	return w.write(func() error {
		return w.c.Put(api.LoadBalancer, "/lbaas/healthmonitors/"+api.Segment(m.ID), "healthmonitor", body, nil)
	})
}
