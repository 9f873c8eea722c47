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

// extraRoute is one in the spelling of the cloud.
type extraRoute struct {
	Destination string `json:"destination"`
	NextHop     string `json:"nexthop"`
}

type router struct {
	Routes   *[]extraRoute `json:"routes"`
	Revision *int64        `json:"revision_number,omitempty"`
}

// maxTries is how often a change is tried that others outrun, within one op.
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

func (r *Routes) add(route extraRoute) error { return r.change(route, true) }

func (r *Routes) remove(route extraRoute) error { return r.change(route, false) }

// change uses Neutron's extension extraroute-atomic, by which concurrent
// changes do not lose each other's routes. A cloud without it answers 404, as
// one without the router does.
func (r *Routes) change(route extraRoute, add bool) error {
	action := "/remove_extraroutes"
	if add {
		action = "/add_extraroutes"
	}
	if !r.withoutAtomic() {
		err := r.c.Put(api.Network, r.path()+action, "router", router{Routes: &[]extraRoute{route}}, nil)
		if !api.IsNotFound(err) {
			return explain(err)
		}
		lacking, extensionErr := r.lacksAtomic()
		if extensionErr != nil {
			return extensionErr
		}
		if !lacking {
			return r.missing(err)
		}
	}
	return r.rewrite(route, add)
}

// rewrite replaces the whole list of a router that nobody has changed since it
// was read.
func (r *Routes) rewrite(route extraRoute, add bool) error {
	for range maxTries {
		found, err := r.router()
		if err != nil {
			return err
		}
		at := slices.Index(*found.Routes, route)
		if (at >= 0) == add {
			return nil
		}
		if found.Revision == nil {
			return sdk.Invalidf("this cloud can change routes safely neither by Neutron's extension extraroute-atomic nor by revision-if-match; leave [Route] router-id out of cloud.conf")
		}
		changed := slices.Clone(*found.Routes)
		if add {
			changed = append(changed, route)
		} else {
			changed = slices.Delete(changed, at, at+1)
		}
		err = r.c.PutRevision(api.Network, r.path(), "router", *found.Revision, router{Routes: &changed}, nil)
		if !api.IsOutdated(err) {
			return explain(err)
		}
	}
	return sdk.RetryAfter(time.Second, "router "+r.routerID+" is being changed by others all the time")
}

// explain adds how to mend what administrators meet first.
func explain(err error) error {
	if api.StatusOf(err) == 400 && strings.Contains(err.Error(), "exceeds the maximum") {
		return sdk.Error(abi.CodeInvalid, err.Error()+"; each Node needs a route for each of its pod CIDRs, and Neutron's max_routes is 30 unless its administrator raises it")
	}
	return err
}

// The extension's absence is asked again after an hour: a cloud is upgraded.
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
	// Without the cache it is asked again.
	_ = r.c.Op().Cache().Put(atomicKey, []byte("1"), atomicLife)
	return true, nil
}
