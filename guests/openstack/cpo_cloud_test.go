//go:build cpo

package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/wasm-ccm/wasm-ccm/abi"
)

// cloud is an OpenStack in memory that is never slow and never refuses: what a
// case of a table asks for stands in it afterwards. It keeps objects as they
// were sent, by kind: "loadbalancers", "ports".
type cloud struct {
	objects map[string][]object
	// deleted are the IDs of what was deleted.
	deleted []string
	count   int
}

type object = map[string]any

const vip, floating = "10.10.0.6", "203.0.113.10"

// newCloud has one network with a subnet, and an external one.
func newCloud() *cloud {
	c := &cloud{objects: map[string][]object{}}
	c.put("networks", object{"id": "net", "name": "net", "subnets": []string{"subnet"}, "router:external": false})
	c.put("subnets", object{"id": "subnet", "name": "subnet", "network_id": "net", "cidr": "10.10.0.0/16", "ip_version": 4, "tags": []any{}})
	c.put("networks", object{"id": "ext", "name": "ext", "router:external": true})
	return c
}

func (c *cloud) put(kind string, o object) object {
	if o["id"] == nil {
		c.count++
		o["id"] = fmt.Sprintf("%s-%d", strings.TrimSuffix(kind, "s"), c.count)
	}
	c.objects[kind] = append(c.objects[kind], o)
	return o
}

func (c *cloud) find(kind string, id any) object {
	for _, o := range c.objects[kind] {
		if o["id"] == id {
			return o
		}
	}
	return nil
}

func (c *cloud) serve(req *abi.HttpRequest) (*abi.HttpResponse, error) {
	u, err := url.Parse(req.Url)
	if err != nil {
		return nil, err
	}
	status, body := c.answer(req, u)
	data, err := json.Marshal(body)
	return &abi.HttpResponse{Status: int32(status), Body: data}, err
}

func (c *cloud) answer(req *abi.HttpRequest, u *url.URL) (int, any) {
	path := strings.TrimSuffix(u.Path, "/")
	switch path {
	case "/v3/auth/catalog":
		return 200, catalog()
	case "/octavia":
		return 200, object{"versions": []object{{"id": "v2.0"}, {"id": "v2.26"}}}
	}
	_, path, _ = strings.Cut(path[1:], "/")
	for _, prefix := range []string{"v2.0/", "lbaas/"} {
		path = strings.TrimPrefix(path, prefix)
	}
	var in map[string]json.RawMessage
	if len(req.Body) > 0 && json.Unmarshal(req.Body, &in) != nil {
		return 400, nil
	}
	parts := strings.Split(path, "/")
	switch {
	case len(parts) == 3 && parts[2] == "members":
		return c.members(req.Method, c.find("pools", parts[1]), in)
	case len(parts) == 3 && strings.HasSuffix(parts[2], "_extraroutes"):
		return c.extraRoutes(c.find("routers", parts[1]), in)
	case req.Method == http.MethodGet && len(parts) <= 2 && parts[0] == "servers":
		return c.get("servers", strings.TrimPrefix(strings.TrimPrefix(path, "servers"), "/"), nil)
	case req.Method == http.MethodGet && len(parts) == 1:
		return c.get(parts[0], "", u.Query())
	case req.Method == http.MethodGet && len(parts) == 2:
		return c.get(parts[0], parts[1], nil)
	case req.Method == http.MethodPost && len(parts) == 1:
		return c.post(parts[0], in)
	case req.Method == http.MethodPut && len(parts) == 2:
		return c.change(parts[0], parts[1], in)
	case req.Method == http.MethodDelete && len(parts) == 2:
		return c.remove(parts[0], parts[1])
	}
	return 404, nil
}

func catalog() any {
	services := []object{}
	for kind, path := range map[string]string{"compute": "nova", "network": "neutron", "load-balancer": "octavia", "block-storage": "cinder"} {
		services = append(services, object{"type": kind, "endpoints": []object{{"interface": "public", "region": "RegionOne", "url": "http://cloud/" + path}}})
	}
	return object{"catalog": services}
}

// singular is the key of one object.
func singular(kind string) string {
	if kind == "policies" {
		return "policy"
	}
	return strings.TrimSuffix(kind, "s")
}

func (c *cloud) get(kind, id string, query url.Values) (int, any) {
	if id != "" && id != "detail" {
		o := c.find(kind, id)
		if o == nil {
			return 404, object{"itemNotFound": object{"message": kind + " " + id + " not found"}}
		}
		return 200, object{singular(kind): o}
	}
	found := []object{}
	for _, o := range c.objects[kind] {
		if passes(o, query) {
			found = append(found, o)
		}
	}
	return 200, object{kind: found}
}

// passes knows the filters of Neutron and Octavia; unknown ones do not
// filter.
func passes(o object, query url.Values) bool {
	for name, values := range query {
		switch name {
		case "loadbalancer_id":
			if !refers(o["loadbalancers"], values[0]) {
				return false
			}
		case "fixed_ips":
			if !hasAddress(o, values) {
				return false
			}
		case "tags", "tags-any", "not-tags", "not-tags-any":
			if !tagged(o, name, strings.Split(values[0], ",")) {
				return false
			}
		default:
			if value, found := o[name]; found && name != "fields" && !slices.Contains(values, fmt.Sprint(value)) {
				return false
			}
		}
	}
	return true
}

func refers(list any, id string) bool {
	references, _ := list.([]object)
	return slices.ContainsFunc(references, func(o object) bool { return o["id"] == id })
}

func hasAddress(o object, values []string) bool {
	list, _ := o["fixed_ips"].([]object)
	return slices.ContainsFunc(list, func(ip object) bool {
		return slices.ContainsFunc(values, func(v string) bool { return v == "ip_address="+fmt.Sprint(ip["ip_address"]) })
	})
}

func tagged(o object, filter string, wanted []string) bool {
	list, _ := o["tags"].([]any)
	count := 0
	for _, tag := range wanted {
		if slices.Contains(list, any(tag)) {
			count++
		}
	}
	switch filter {
	case "tags":
		return count == len(wanted)
	case "not-tags":
		return count < len(wanted)
	case "tags-any":
		return count > 0
	}
	return count == 0
}

func (c *cloud) post(kind string, in map[string]json.RawMessage) (int, any) {
	var o object
	if json.Unmarshal(in[singular(kind)], &o) != nil || o == nil {
		return 400, nil
	}
	c.create(kind, o)
	return 201, object{singular(kind): o}
}

func (c *cloud) create(kind string, o object) object {
	delete(o, "id")
	o = c.put(kind, o)
	switch kind {
	case "loadbalancers":
		c.createBalancer(o)
	case "listeners":
		c.createListener(o)
	case "pools":
		c.createPool(o)
	case "healthmonitors":
		if p := c.find("pools", o["pool_id"]); p != nil {
			p["healthmonitor_id"] = o["id"]
		}
	case "floatingips":
		setDefaults(o, object{"floating_ip_address": floating, "status": "ACTIVE"})
	}
	if kind == "healthmonitors" || kind == "pools" || kind == "listeners" || kind == "loadbalancers" {
		setDefaults(o, object{"provisioning_status": "ACTIVE", "operating_status": "ONLINE", "tags": []any{}})
	}
	return o
}

func setDefaults(o, defaults object) {
	for key, value := range defaults {
		if o[key] == nil {
			o[key] = value
		}
	}
}

func (c *cloud) createBalancer(o object) {
	setDefaults(o, object{"vip_address": vip, "vip_port_id": "vip-port", "vip_subnet_id": "subnet", "provider": "amphora"})
	if c.find("ports", "vip-port") == nil {
		c.put("ports", object{"id": "vip-port", "network_id": "net", "status": "ACTIVE", "fixed_ips": []object{{"subnet_id": "subnet", "ip_address": o["vip_address"]}}})
	}
	for _, child := range children(o, "listeners") {
		child["loadbalancer_id"] = o["id"]
		c.create("listeners", child)
	}
	for _, child := range children(o, "pools") {
		child["loadbalancer_id"] = o["id"]
		c.create("pools", child)
	}
}

// children takes the objects out of their parent.
func children(o object, key string) (all []object) {
	list, _ := o[key].([]any)
	for _, one := range list {
		if child, ok := one.(map[string]any); ok {
			all = append(all, child)
		}
	}
	delete(o, key)
	return all
}

func (c *cloud) createListener(o object) {
	o["loadbalancers"] = []object{{"id": o["loadbalancer_id"]}}
	setDefaults(o, object{
		"connection_limit": -1, "timeout_client_data": 50000, "timeout_member_connect": 5000, "timeout_member_data": 50000, "timeout_tcp_inspect": 0,
	})
	if p, ok := o["default_pool"].(map[string]any); ok {
		delete(o, "default_pool")
		p["loadbalancer_id"], p["listener_id"] = o["loadbalancer_id"], o["id"]
		c.create("pools", p)
	}
}

func (c *cloud) createPool(o object) {
	if l := c.find("listeners", o["listener_id"]); l != nil {
		l["default_pool_id"], o["loadbalancer_id"] = o["id"], l["loadbalancer_id"]
		o["listeners"] = []object{{"id": l["id"]}}
	}
	o["loadbalancers"] = []object{{"id": o["loadbalancer_id"]}}
	members := children(o, "members")
	o["members"] = []object{}
	c.setMembers(o, members)
	if m, ok := o["healthmonitor"].(map[string]any); ok {
		delete(o, "healthmonitor")
		m["pool_id"] = o["id"]
		c.create("healthmonitors", m)
	}
}

func (c *cloud) setMembers(p object, members []object) {
	list := []object{}
	for _, m := range members {
		c.count++
		setDefaults(m, object{"id": fmt.Sprint("member-", c.count), "provisioning_status": "ACTIVE"})
		list = append(list, m)
	}
	p["members"] = list
}

func (c *cloud) members(method string, p object, in map[string]json.RawMessage) (int, any) {
	if p == nil {
		return 404, nil
	}
	list, _ := p["members"].([]object)
	switch method {
	case "GET":
		return 200, object{"members": list}
	case "POST":
		var one object
		if json.Unmarshal(in["member"], &one) != nil {
			return 400, nil
		}
		c.setMembers(p, append(list, one))
		return 201, object{"member": one}
	}
	if json.Unmarshal(in["members"], &list) != nil {
		return 400, nil
	}
	c.setMembers(p, list)
	return 202, nil
}

func (c *cloud) change(kind, id string, in map[string]json.RawMessage) (int, any) {
	o := c.find(kind, id)
	var changes object
	if o == nil || json.Unmarshal(in[singular(kind)], &changes) != nil {
		return 404, nil
	}
	for key, value := range changes {
		o[key] = value
	}
	return 200, object{singular(kind): o}
}

func (c *cloud) remove(kind, id string) (int, any) {
	if c.find(kind, id) == nil {
		return 404, nil
	}
	c.objects[kind] = slices.DeleteFunc(c.objects[kind], func(o object) bool { return o["id"] == id })
	c.deleted = append(c.deleted, id)
	return 204, nil
}

func (c *cloud) extraRoutes(router object, in map[string]json.RawMessage) (int, any) {
	var sent struct{ Routes []any }
	if router == nil || json.Unmarshal(in["router"], &sent) != nil {
		return 404, nil
	}
	list, _ := router["routes"].([]any)
	router["routes"] = append(list, sent.Routes...)
	return 200, object{"router": router}
}
