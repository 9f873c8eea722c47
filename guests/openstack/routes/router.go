package routes

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/guests/openstack/api"
	"github.com/wasm-ccm/wasm-ccm/guests/sdk"
)

// extraRoute is a route in the cloud's spelling.
type extraRoute struct {
	Destination string `json:"destination"`
	NextHop     string `json:"nexthop"`
}

type router struct {
	Routes   *[]extraRoute `json:"routes"`
	Revision *int64        `json:"revision_number,omitempty"`
}

// maxTries bounds the attempts of a change that others outrun, within one op.
const maxTries = 10

func (r *Routes) path() string { return "/routers/" + api.Segment(r.routerID) }

func (r *Routes) router() (*router, error) {
	var found router
	err := r.c.Get(api.Network, r.path(), api.Query("fields", "routes", "fields", "revision_number"), "router", &found)
	if api.IsNotFound(err) {
		return nil, r.missing(err)
	}
	if err != nil {
		return nil, err
	}
	if found.Routes == nil {
		return nil, sdk.Invalidf("router %s has no routes: Neutron's extension extraroute is not there; leave [Route] router-id out of cloud.conf", r.routerID)
	}
	for _, route := range *found.Routes {
		if !route.valid() {
			return nil, unusable("GET "+r.path(), fmt.Sprintf("a route is %.100q", route.name()))
		}
	}
	return &found, nil
}

func (route extraRoute) valid() bool {
	_, err := netip.ParsePrefix(route.Destination)
	_, hopErr := netip.ParseAddr(route.NextHop)
	return err == nil && hopErr == nil
}

func (r *Routes) missing(err error) error {
	return sdk.Invalidf("[Route] router-id in cloud.conf: there is no router %q that this project sees: %v", r.routerID, err)
}

// change uses Neutron's extension extraroute-atomic: with it concurrent changes
// keep each other's routes. A cloud without it answers 404, as it does for a
// missing router. A change already in effect is not written, except to continue
// an interrupted change: OVN may lack it.
//
// Of two concurrent changes Neutron may compute one from the list before the
// other, and then OVN loses a route that Neutron still shows. So the router is
// read again, and the last change is repeated if it came from an old list: that
// repairs OVN.
func (r *Routes) change(route extraRoute, add, goesOn bool) error {
	if r.withoutAtomic() {
		return r.rewrite(route, add)
	}
	if !goesOn {
		found, err := r.router()
		if err != nil || found.has(route) == add {
			return err
		}
	}
	action := "/remove_extraroutes"
	if add {
		action = "/add_extraroutes"
	}
	for range maxTries {
		written := &router{}
		err := r.c.Put(api.Network, r.path()+action, "router", router{Routes: &[]extraRoute{route}}, written)
		if api.IsNotFound(err) {
			return r.notAtomic(route, add, err)
		}
		if err != nil {
			return explain(err)
		}
		now, err := r.router()
		if err != nil {
			return err
		}
		if now.has(route) == add && written.settled(now) {
			return nil
		}
	}
	return r.outrun()
}

func (r *Routes) notAtomic(route extraRoute, add bool, notFound error) error {
	lacking, err := r.lacksAtomic()
	switch {
	case err != nil:
		return err
	case !lacking:
		return r.missing(notFound)
	}
	return r.rewrite(route, add)
}

// rewrite replaces the whole list of a router, if unchanged since it was read.
func (r *Routes) rewrite(route extraRoute, add bool) error {
	var written *router // by the last try; nil: nothing yet
	for range maxTries {
		found, err := r.router()
		if err != nil {
			return err
		}
		done := found.has(route) == add
		if done && (written == nil || written.settled(found)) {
			return nil
		}
		if found.Revision == nil {
			return sdk.Invalidf("this cloud can change routes safely neither by Neutron's extension extraroute-atomic nor by revision-if-match; leave [Route] router-id out of cloud.conf")
		}
		changed := slices.DeleteFunc(slices.Clone(*found.Routes), func(other extraRoute) bool { return other == route })
		if add {
			changed = append(changed, route)
		}
		next := &router{}
		err = r.c.PutRevision(api.Network, r.path(), "router", *found.Revision, router{Routes: &changed}, next)
		if api.IsOutdated(err) {
			continue
		}
		if err != nil {
			return explain(err)
		}
		written = next
	}
	return r.outrun()
}

func (r *Routes) outrun() error {
	return sdk.RetryAfter(time.Second, "router "+r.routerID+" is being changed by others all the time")
}

func (router *router) has(route extraRoute) bool { return slices.Contains(*router.Routes, route) }

// settled: the router has what the change was answered with, or a later change
// is responsible.
func (router *router) settled(now *router) bool {
	if router.Revision != nil && now.Revision != nil && *now.Revision > *router.Revision {
		return true
	}
	if router.Routes == nil || len(*router.Routes) != len(*now.Routes) {
		return false
	}
	return !slices.ContainsFunc(*router.Routes, func(route extraRoute) bool { return !now.has(route) })
}

// explain adds the remedy for what administrators meet first.
func explain(err error) error {
	if api.StatusOf(err) == 400 && strings.Contains(err.Error(), "exceeds the maximum") {
		return sdk.Error(abi.CodeInvalid, err.Error()+"; each Node needs a route for each of its pod CIDRs, and Neutron's max_routes is 30 unless its administrator raises it")
	}
	return err
}

// The absence of the extension is checked again after an hour: the cloud may be
// upgraded.
const (
	atomicKey  = "openstack/routes/without-extraroute-atomic"
	atomicLife = time.Hour
)

func (r *Routes) withoutAtomic() bool {
	_, found, err := r.c.Op().Cache().Get(atomicKey)
	return err == nil && found
}

func (r *Routes) lacksAtomic() (bool, error) {
	err := r.c.Get(api.Network, "/extensions/extraroute-atomic", nil, "extension", &struct{}{})
	if !api.IsNotFound(err) {
		return false, err
	}
	// Without the cache it is checked again.
	_ = r.c.Op().Cache().Put(atomicKey, []byte("1"), atomicLife)
	return true, nil
}
