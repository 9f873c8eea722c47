package loadbalancer

import (
	"fmt"
	"slices"
	"strings"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/guests/openstack/api"
	"github.com/wasm-ccm/wasm-ccm/guests/sdk"
)

// target finds the load balancer for Ensure or Update; without one lb stays
// nil. One call, and another by the old name if the first finds none.
func (w *work) target() error {
	if w.id != "" {
		return w.shared()
	}
	w.owner = true
	for _, name := range []string{w.name, legacyName(w.service)} {
		var found []balancer
		if err := readAll(w.c, byName(name, &found)); err != nil {
			return err
		}
		found = slices.DeleteFunc(found, func(lb balancer) bool {
			return lb.Name != name || lb.Status == "DELETED" || lb.Status == "PENDING_DELETE"
		})
		if len(found) > 1 {
			return w.twins(found)
		}
		if len(found) == 1 {
			w.lb = &found[0]
			return w.cutNameIsOurs()
		}
	}
	return nil
}

// cutNameIsOurs: another Service may have the same shortened name. The
// description has more of it.
func (w *work) cutNameIsOurs() error {
	if len(w.name) < maxNameBytes || strings.HasPrefix(w.lb.Description, descriptionPrefix+w.service.Namespace+"/"+w.service.Name+" ") {
		return nil
	}
	return sdk.Error(abi.CodeConflict, "the load balancer "+w.lb.ID+" has the name of this Service, cut to 255 bytes, and is another one's: "+w.lb.Description)
}

func byName(name string, out *[]balancer) *reading {
	return list("/lbaas/loadbalancers", api.Query("name", name), "loadbalancers", out)
}

// shared finds the load balancer of the annotation and checks that the Service
// may use it. On one that is not its own, a Service may add listeners on free
// ports, change and delete these, and set its tag.
func (w *work) shared() error {
	w.lb = &balancer{}
	if err := readAll(w.c, one(w.path(w.id), "loadbalancer", w.lb)); err != nil {
		w.lb = nil
		if api.IsNotFound(err) {
			return sdk.Invalidf("the annotation %s: there is no load balancer %s; remove the annotation or correct it", annID, w.id)
		}
		return err
	}
	w.owner = w.lb.Name == w.name || w.lb.Name == legacyName(w.service)
	switch users := services(w.lb.Tags); {
	case w.owner:
		return w.cutNameIsOurs()
	case !w.version.has(withTags, w.lb.Provider):
		return sdk.Invalidf("the annotation %s: load balancers are shared with tags only, which Octavia has from v2.5", annID)
	case w.internal:
		return sdk.Invalidf("the annotation %s: an internal Service cannot share the load balancer of another: it could become external", annID)
	case !slices.Contains(w.lb.Tags, w.name) && len(users)+1 > w.config.LoadBalancer.MaxShared:
		return sdk.Error(abi.CodeConflict, fmt.Sprintf("the load balancer %s is shared by %d Services already, and [LoadBalancer] max-shared-lb is %d", w.id, len(users), w.config.LoadBalancer.MaxShared))
	}
	return nil
}

// services are the tags of Services.
func services(tags []string) []string {
	return slices.DeleteFunc(slices.Clone(tags), func(tag string) bool { return !strings.HasPrefix(tag, servicePrefix) })
}

func (k *call) path(id string) string { return "/lbaas/loadbalancers/" + api.Segment(id) }
