package main

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/guests/sdk"
)

// The annotations of a Service.
const (
	annotationAddresses = "static.wasm-ccm.dev/addresses"
	annotationPool      = "static.wasm-ccm.dev/pool"
)

// wish is a Service's request to the pools.
type wish struct {
	service string // namespace/name, for messages
	// families in the spec's order; true is IPv4. The first must be served; the
	// second only with requireAll.
	families   []bool
	requireAll bool
	requests   []netip.Addr // at most one per family
	pool       *pool        // nil: any
	reported   []netip.Addr // from the Service's status
}

func (inv *inventory) wishOf(svc *abi.Service) (*wish, error) {
	w := &wish{service: svc.Namespace + "/" + svc.Name, requireAll: svc.IpFamilyPolicy == "RequireDualStack"}
	if err := w.readFamilies(svc.IpFamilies); err != nil {
		return nil, err
	}
	if name := svc.Annotations[annotationPool]; name != "" {
		if w.pool = inv.poolNamed(name); w.pool == nil {
			return nil, sdk.Invalidf("%s: there is no pool %q (annotation %s); the inventory has %s", w.service, name, annotationPool, inv.poolNames())
		}
	}
	for _, ingress := range cmp.Or(svc.Status, &abi.LoadBalancerStatus{}).Ingress {
		if a, err := netip.ParseAddr(ingress.Ip); err == nil {
			w.reported = append(w.reported, a)
		}
	}
	return w, inv.readRequests(w, svc)
}

func (w *wish) readFamilies(families []string) error {
	for _, family := range families {
		if family != "IPv4" && family != "IPv6" {
			return sdk.Invalidf("%s: the IP family %q is unknown", w.service, family)
		}
		if is4 := family == "IPv4"; !slices.Contains(w.families, is4) {
			w.families = append(w.families, is4)
		}
	}
	if len(w.families) == 0 {
		w.families = []bool{true}
	}
	return nil
}

func (inv *inventory) poolNames() string {
	names := make([]string, len(inv.pools))
	for i := range inv.pools {
		names[i] = inv.pools[i].name
	}
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}

// readRequests reads the addresses that a Service asks for, in
// spec.loadBalancerIP and in the annotation. If both are set they must agree.
func (inv *inventory) readRequests(w *wish, svc *abi.Service) error {
	texts := strings.FieldsFunc(svc.Annotations[annotationAddresses], func(r rune) bool { return r == ',' || r == ' ' })
	if ip := svc.LoadBalancerIp; ip != "" {
		if len(texts) > 0 && !slices.Contains(texts, ip) {
			return sdk.Invalidf("%s: spec.loadBalancerIP is %s, and the annotation %s says %s; leave one of them", w.service, ip, annotationAddresses, strings.Join(texts, ", "))
		}
		if len(texts) == 0 {
			texts = []string{ip}
		}
	}
	for _, text := range texts {
		a, err := netip.ParseAddr(text)
		if err != nil {
			return sdk.Invalidf("%s asks for %q, which is not an IP address", w.service, text)
		}
		if err := inv.checkRequest(w, a); err != nil {
			return err
		}
		w.requests = append(w.requests, a)
	}
	return nil
}

func (inv *inventory) checkRequest(w *wish, a netip.Addr) error {
	home := inv.poolOf(a)
	switch {
	case home == nil:
		return sdk.Invalidf("%s asks for %s, which is in no pool of the inventory", w.service, a)
	case w.pool != nil && home != w.pool:
		return sdk.Invalidf("%s asks for %s, which is in pool %s, and for pool %s", w.service, a, home.name, w.pool.name)
	case !slices.Contains(w.families, a.Is4()):
		return sdk.Invalidf("%s asks for %s, which is not of the IP families of its spec", w.service, a)
	}
	for _, other := range w.requests {
		if other.Is4() == a.Is4() {
			return sdk.Invalidf("%s asks for %s and %s; it gets one address per IP family", w.service, other, a)
		}
	}
	return nil
}

// allocate chooses the addresses of a Service, without changing anything: per
// family the requested one, else the one that it holds, else the one in its
// status (the store may have been lost), else the first free one. taken maps
// addresses of others to their owners.
func (inv *inventory) allocate(w *wish, held []netip.Addr, taken map[netip.Addr]string) ([]netip.Addr, error) {
	var got []netip.Addr
	for i, is4 := range w.families {
		a, err := inv.choose(w, is4, held, taken)
		if err != nil {
			return nil, err
		}
		if a.IsValid() {
			got = append(got, a)
		} else if i == 0 || w.requireAll {
			return nil, inv.exhausted(w, is4)
		}
	}
	return got, nil
}

// choose returns an address of one family, the zero one if there is none.
func (inv *inventory) choose(w *wish, is4 bool, held []netip.Addr, taken map[netip.Addr]string) (netip.Addr, error) {
	for _, a := range w.requests {
		if a.Is4() != is4 {
			continue
		}
		if owner := taken[a]; owner != "" {
			return a, sdk.Invalidf("%s asks for %s, which belongs to %s; ask for another address, or delete that Service", w.service, a, owner)
		}
		return a, nil
	}
	for _, a := range held {
		if home := inv.poolOf(a); a.Is4() == is4 && home != nil && (w.pool == nil || w.pool == home) {
			return a, nil
		}
	}
	for _, a := range w.reported {
		if a.Is4() == is4 && taken[a] == "" && w.mayUse(inv.poolOf(a)) {
			return a, nil
		}
	}
	for i := range inv.pools {
		if p := &inv.pools[i]; w.mayUse(p) {
			if a, found := p.firstFree(is4, taken); found {
				return a, nil
			}
		}
	}
	return netip.Addr{}, nil
}

// mayUse reports whether the pool gives addresses without an explicit request.
func (w *wish) mayUse(p *pool) bool {
	if w.pool != nil {
		return p == w.pool
	}
	return p != nil && p.autoAssign
}

func (inv *inventory) exhausted(w *wish, is4 bool) error {
	family := "IPv6"
	if is4 {
		family = "IPv4"
	}
	if w.pool != nil {
		return sdk.Invalidf("%s: pool %s has no free %s address; give it more, or delete a Service", w.service, w.pool.name, family)
	}
	return sdk.Invalidf("%s: no pool with autoAssign has a free %s address; the pools are: %s", w.service, family, inv.poolNames())
}
