package loadbalancer

import (
	"cmp"
	"errors"
	"time"

	"github.com/wasm-ccm/wasm-ccm/guests/openstack/api"
	"github.com/wasm-ccm/wasm-ccm/guests/sdk"
)

type object = map[string]any

// create makes the load balancer, with all its parts if the provider takes
// them, and looks once.
func (w *work) create() error {
	body, err := w.newBalancer()
	if err != nil {
		return err
	}
	if whole, err := w.newListeners(); err != nil {
		return err
	} else if whole != nil {
		body["listeners"] = whole
	}
	if err := w.post(body); err != nil {
		return err
	}
	if w.lb.Status == "ACTIVE" {
		return nil
	}
	err = w.look(w.lb)
	if failed := (*statusError)(nil); errors.As(err, &failed) {
		return nil // the caller asks again
	}
	return err
}

func (w *work) provider() string { return w.config.LoadBalancer.Provider }

func (w *work) newBalancer() (object, error) {
	provider := w.provider()
	body := object{"name": w.name, "description": w.description(), "provider": provider}
	if w.version.has(withTags, provider) {
		body["tags"] = []string{w.name}
	}
	if w.flavor != "" && w.version.has(withFlavors, provider) {
		body["flavor_id"] = w.flavor
	}
	if w.zone != "" {
		if w.version.has(withZones, provider) {
			body["availability_zone"] = w.zone
		} else {
			w.say("LoadBalancerAZIgnored", "the availability zone "+w.zone+" is ignored: Octavia's provider "+provider+" or its version, before v2.14, has none")
		}
	}
	if w.address != "" && (w.internal || w.family == "IPv6") {
		body["vip_address"] = w.address
	}
	if w.networks.port != "" {
		body["vip_port_id"] = w.networks.port
		return body, nil
	}
	network, subnet, err := w.vipNetwork()
	if subnet != "" {
		body["vip_subnet_id"] = subnet
	}
	if network != "" {
		body["vip_network_id"] = network
	}
	return body, err
}

// newListeners are the listeners made with the load balancer; none if reconcile
// makes them one by one.
func (w *work) newListeners() ([]object, error) {
	provider := w.provider()
	if w.config.LoadBalancer.Serial || (provider == ovn && w.version < withWholeOVN) {
		return nil, nil
	}
	subnet, err := w.memberSubnet()
	if err != nil || (provider == ovn && subnet == "") { // ovn would take the network's ID for it
		return nil, err
	}
	all := make([]object, len(w.ports))
	for i, p := range w.ports {
		pool := w.newPool(i, p)
		pool["members"] = bodies(w.members(p), subnet, false)
		if w.monitor.enabled && provider != ovn { // ovn would leave it in PENDING_CREATE
			pool["healthmonitor"] = w.newMonitor(i, p)
		}
		all[i] = w.newListener(i, p, provider)
		all[i]["default_pool"] = pool
	}
	return all, nil
}

func (w *work) newListener(index int, p port, provider string) object {
	body := object{"name": childName("listener", index, w.name), "protocol": p.listener, "protocol_port": p.number, "connection_limit": w.limit}
	if w.version.has(withTags, provider) {
		body["tags"] = []string{w.name}
	}
	if w.version.has(withTimeouts, provider) {
		for i, key := range timeoutKeys {
			body[key] = w.timeouts[i]
		}
	}
	if w.forwarded {
		body["insert_headers"] = map[string]string{xForwardedFor: "true"}
	}
	if w.tls != "" {
		body["default_tls_container_ref"] = w.tls
	}
	if w.version.has(withACLs, provider) {
		body["allowed_cidrs"] = w.ranges
	}
	return body
}

func (w *work) newPool(index int, p port) object {
	body := object{"name": childName("pool", index, w.name), "protocol": p.pool, "lb_algorithm": w.algorithm()}
	if w.affinity {
		body["session_persistence"] = persistence{Type: "SOURCE_IP"}
	}
	return body
}

func (w *work) algorithm() string {
	def := "ROUND_ROBIN"
	if w.actualProvider() == ovn {
		def = "SOURCE_IP_PORT"
	}
	return cmp.Or(w.config.LoadBalancer.Method, def)
}

// actualProvider is the provider of the existing load balancer, which may be
// older than the cloud.conf.
func (w *work) actualProvider() string {
	if w.lb != nil && w.lb.Provider != "" {
		return w.lb.Provider
	}
	return w.provider()
}

func (w *work) newMonitor(index int, p port) object {
	body := object{
		"name": childName("monitor", index, w.name), "type": w.monitorType(p), "delay": w.monitor.delay, "timeout": w.monitor.timeout,
		"max_retries": w.monitor.retries, "max_retries_down": w.monitor.downward,
	}
	if w.asksHealthz(p) {
		body["url_path"], body["http_method"], body["expected_codes"] = "/healthz", "GET", "200"
	}
	return body
}

func (w *work) monitorType(p port) string {
	switch {
	case w.asksHealthz(p):
		return "HTTP"
	case p.protocol == "UDP":
		return "UDP-CONNECT"
	}
	return p.protocol
}

// asksHealthz reports whether kube-proxy's healthz decides on a member's
// health.
func (w *work) asksHealthz(p port) bool {
	provider := w.actualProvider()
	return w.monitor.check > 0 && provider != ovn && (p.protocol != "UDP" || w.version.has(withHTTPOverUDP, provider))
}

// young is the highest age of a load balancer that is made again after an
// ERROR.
const young = 30 * time.Minute

// startAgain deletes a load balancer that went into ERROR during its creation,
// if it is young, ours, not shared, without a floating IP, and the Service has
// no address. Others are left to an administrator.
func (w *work) startAgain(cause error) error {
	failed := (*statusError)(nil)
	if !errors.As(cause, &failed) || !w.owner || w.service.Status != nil && len(w.service.Status.Ingress) > 0 {
		return cause
	}
	created, ok := octaviaTime(w.lb.CreatedAt)
	if !ok || w.c.Op().Now().Sub(created) > young || len(others(w.lb.Tags, w.name)) > 0 {
		return cause
	}
	state, err := w.children(w.lb, true)
	if err != nil || state.floating != nil {
		return cmp.Or(err, cause)
	}
	if err := gone(w.c.Delete(api.LoadBalancer, w.path(w.lb.ID), api.Query("cascade", "true"))); err != nil {
		return err
	}
	w.say("LoadBalancerFailed", "the load balancer "+w.lb.ID+" went into ERROR while it was made; it is deleted and made again: ask an administrator of Octavia why")
	return sdk.RetryAfter(maxPause, "the load balancer "+w.lb.ID+" went into ERROR during its creation; it is created again")
}
