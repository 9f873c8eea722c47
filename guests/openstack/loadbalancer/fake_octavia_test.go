package loadbalancer_test

import (
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/wasm-ccm/wasm-ccm/abi"
)

// fields are the fields that each object may have. Others give a 400, as from
// Octavia's types.
var fields = map[string]string{
	"loadbalancers":  "name description provider tags flavor_id availability_zone vip_address vip_port_id vip_subnet_id vip_network_id listeners",
	"listeners":      "name protocol protocol_port connection_limit tags timeout_client_data timeout_member_connect timeout_member_data timeout_tcp_inspect insert_headers default_tls_container_ref allowed_cidrs loadbalancer_id default_pool",
	"pools":          "name protocol lb_algorithm session_persistence listener_id members healthmonitor",
	"members":        "name address protocol_port subnet_id monitor_port",
	"healthmonitors": "name type delay timeout max_retries max_retries_down url_path http_method expected_codes pool_id",
}

// fixed fields cannot be changed.
var fixed = map[string]string{
	"loadbalancers": "provider flavor_id availability_zone vip_address vip_port_id vip_subnet_id vip_network_id listeners",
	"listeners":     "protocol protocol_port loadbalancer_id default_pool", "pools": "protocol listener_id members healthmonitor",
	"healthmonitors": "type pool_id",
}

func singular(table string) string { return strings.TrimSuffix(table, "s") }

func (c *cloud) octavia(method string, path []string, query url.Values, body object) *abi.HttpResponse {
	table := path[0]
	if len(path) > 2 && path[2] == "members" {
		return c.members(method, path, body)
	}
	given, _ := body[singular(table)].(object)
	if resp := c.wrong(method, table, given); resp != nil {
		return resp
	}
	if len(path) == 1 {
		if method == "POST" {
			return c.create(table, given)
		}
		c.age(table, "")
		return answer(200, object{table: c.query(table, query)})
	}
	c.age(table, path[1])
	r := c.find(table, path[1])
	if r == nil {
		return fault(404, "%s %s not found.", table, path[1])
	}
	switch method {
	case "GET":
		return answer(200, object{singular(table): r.values})
	case "PUT":
		return c.change(table, r, given)
	}
	return c.remove(table, r, query.Get("cascade") == "true")
}

func (c *cloud) wrong(method, table string, given object) *abi.HttpResponse {
	for key := range given {
		if !slices.Contains(strings.Fields(fields[table]), key) || (method == "PUT" && slices.Contains(strings.Fields(fixed[table]), key)) {
			return fault(400, "%s of %s: the field %s is not allowed", method, table, key)
		}
	}
	return nil
}

// age: each look at a load balancer brings its change nearer to its end.
func (c *cloud) age(table, id string) {
	if table != "loadbalancers" {
		return
	}
	for _, r := range slices.Clone(c.tables[table]) {
		if (id != "" && r.id != id) || c.waits[r.id] == 0 {
			continue
		}
		if c.waits[r.id]--; c.waits[r.id] > 0 {
			continue
		}
		if r.values["provisioning_status"] == "PENDING_DELETE" {
			c.vanish(r)
		} else {
			r.values["provisioning_status"] = "ACTIVE"
		}
	}
}

func (c *cloud) vanish(r *row) {
	c.drop("loadbalancers", r.id)
	for _, l := range c.partsOf("listeners", r.id) {
		c.drop("listeners", l.id)
	}
	for _, p := range c.partsOf("pools", r.id) {
		c.dropPool(p)
	}
	for _, ip := range c.where("floatingips", "port_id", str(r.values["vip_port_id"])) {
		ip.values["port_id"] = nil
	}
	c.drop("ports", str(r.values["vip_port_id"]))
}

func (c *cloud) partsOf(table, lb string) []*row {
	return slices.DeleteFunc(slices.Clone(c.tables[table]), func(r *row) bool { return lbOf(r) != lb })
}

func lbOf(r *row) string {
	list, _ := r.values["loadbalancers"].([]any)
	if len(list) == 0 {
		return ""
	}
	return str(list[0].(object)["id"])
}

func (c *cloud) dropPool(p *row) {
	c.drop("pools", p.id)
	c.drop("healthmonitors", str(p.values["healthmonitor_id"]))
	for _, m := range c.where("members", "pool", p.id) {
		c.drop("members", m.id)
	}
	for _, l := range c.where("listeners", "default_pool_id", p.id) {
		l.values["default_pool_id"] = nil
	}
}

// begin puts a load balancer into a PENDING status, or answers that it is
// immutable.
func (c *cloud) begin(id, status string) *abi.HttpResponse {
	r := c.find("loadbalancers", id)
	if r == nil {
		return fault(404, "Load Balancer %s not found.", id)
	}
	now := r.values["provisioning_status"]
	if now != "ACTIVE" && (now != "ERROR" || status != "PENDING_DELETE") {
		return fault(409, "Load Balancer %s is immutable and cannot be updated.", id)
	}
	r.values["provisioning_status"] = status
	r.values["updated_at"] = c.now.Format("2006-01-02T15:04:05")
	if c.waits[id] = c.looks; c.looks == 0 && status != "PENDING_DELETE" {
		r.values["provisioning_status"] = "ACTIVE"
	} else if c.looks == 0 {
		c.vanish(r)
	}
	return nil
}

func (c *cloud) create(table string, given object) *abi.HttpResponse {
	switch table {
	case "loadbalancers":
		return c.createBalancer(given)
	case "listeners":
		lb := str(given["loadbalancer_id"])
		for _, l := range c.partsOf("listeners", lb) {
			if str(l.values["protocol_port"]) == str(given["protocol_port"]) && (l.values["protocol"] == "UDP") == (given["protocol"] == "UDP") {
				return fault(409, "Another Listener on this Load Balancer is already using protocol_port %v", given["protocol_port"])
			}
		}
		if resp := c.begin(lb, "PENDING_UPDATE"); resp != nil {
			return resp
		}
		return answer(201, object{"listener": c.addListener(lb, given).values})
	case "pools":
		l := c.find("listeners", str(given["listener_id"]))
		if l == nil || str(l.values["default_pool_id"]) != "" {
			return fault(409, "Listener %v already has a default pool.", given["listener_id"])
		}
		if resp := c.begin(lbOf(l), "PENDING_UPDATE"); resp != nil {
			return resp
		}
		return answer(201, object{"pool": c.addPool(lbOf(l), l, given).values})
	}
	p := c.find("pools", str(given["pool_id"]))
	if p == nil || str(p.values["healthmonitor_id"]) != "" {
		return fault(409, "This pool already has a health monitor")
	}
	if resp := c.begin(lbOf(p), "PENDING_UPDATE"); resp != nil {
		return resp
	}
	return answer(201, object{"healthmonitor": c.addMonitor(p, given).values})
}

func (c *cloud) createBalancer(given object) *abi.HttpResponse {
	if str(given["vip_subnet_id"])+str(given["vip_network_id"])+str(given["vip_port_id"]) == "" {
		return fault(400, "Validation failure: VIP must contain one of: vip_port_id, vip_network_id, vip_subnet_id.")
	}
	if id := str(given["vip_subnet_id"]); id != "" && c.find("subnets", id) == nil {
		return fault(400, "Subnet %s not found.", id)
	}
	listeners, _ := given["listeners"].([]any)
	delete(given, "listeners")
	r := c.add("loadbalancers", given)
	given["provisioning_status"], given["operating_status"] = "ACTIVE", "OFFLINE"
	given["created_at"] = c.now.Format("2006-01-02T15:04:05")
	if str(given["vip_subnet_id"]) == "" {
		given["vip_subnet_id"] = "nodes4"
	}
	if str(given["vip_address"]) == "" {
		given["vip_address"] = fmt.Sprintf("10.0.9.%d", c.serial)
		if given["vip_subnet_id"] == "nodes6" {
			given["vip_address"] = fmt.Sprintf("fd00::9:%d", c.serial)
		}
	}
	if str(given["vip_port_id"]) == "" {
		given["vip_port_id"] = c.add("ports", object{"device_id": "lb-" + r.id}).id
	}
	for _, l := range listeners {
		c.addListener(r.id, l.(object))
	}
	c.begin(r.id, "PENDING_CREATE")
	delete(given, "updated_at")
	return answer(201, object{"loadbalancer": given})
}

func (c *cloud) addListener(lb string, given object) *row {
	pool, _ := given["default_pool"].(object)
	delete(given, "default_pool")
	delete(given, "loadbalancer_id")
	defaults := object{"connection_limit": -1.0, "timeout_client_data": 50000.0, "timeout_member_connect": 5000.0, "timeout_member_data": 50000.0, "timeout_tcp_inspect": 0.0, "insert_headers": object{}}
	for key, value := range defaults {
		if _, found := given[key]; !found {
			given[key] = value
		}
	}
	given["loadbalancers"] = []any{object{"id": lb}}
	r := c.add("listeners", given)
	if pool != nil {
		c.addPool(lb, r, pool)
	}
	return r
}

func (c *cloud) addPool(lb string, l *row, given object) *row {
	members, _ := given["members"].([]any)
	monitor, _ := given["healthmonitor"].(object)
	for _, key := range []string{"members", "healthmonitor", "listener_id"} {
		delete(given, key)
	}
	given["loadbalancers"], given["listeners"] = []any{object{"id": lb}}, []any{object{"id": l.id}}
	r := c.add("pools", given)
	l.values["default_pool_id"] = r.id
	for _, m := range members {
		c.addMember(r, m.(object))
	}
	if monitor != nil {
		c.addMonitor(r, monitor)
	}
	return r
}

func (c *cloud) addMember(p *row, given object) *row {
	given["pool"] = p.id
	return c.add("members", given)
}

func (c *cloud) addMonitor(p *row, given object) *row {
	delete(given, "pool_id")
	r := c.add("healthmonitors", given)
	p.values["healthmonitor_id"] = r.id
	return r
}

func (c *cloud) change(table string, r *row, given object) *abi.HttpResponse {
	lb := lbOf(r)
	switch table {
	case "loadbalancers":
		lb = r.id
	case "healthmonitors":
		lb = lbOf(c.where("pools", "healthmonitor_id", r.id)[0])
	}
	if resp := c.begin(lb, "PENDING_UPDATE"); resp != nil {
		return resp
	}
	for key, value := range given {
		r.values[key] = value
	}
	return answer(200, object{singular(table): r.values})
}

func (c *cloud) remove(table string, r *row, cascade bool) *abi.HttpResponse {
	lb, status := lbOf(r), "PENDING_UPDATE"
	switch table {
	case "loadbalancers":
		lb, status = r.id, "PENDING_DELETE"
		if !cascade && len(c.partsOf("listeners", lb))+len(c.partsOf("pools", lb)) > 0 {
			return fault(400, "Cannot delete Load Balancer %s - it has children", lb)
		}
	case "healthmonitors":
		lb = lbOf(c.where("pools", "healthmonitor_id", r.id)[0])
	}
	if resp := c.begin(lb, status); resp != nil {
		return resp
	}
	switch table {
	case "listeners":
		c.drop(table, r.id)
	case "pools":
		c.dropPool(r)
	case "healthmonitors":
		c.where("pools", "healthmonitor_id", r.id)[0].values["healthmonitor_id"] = nil
		c.drop(table, r.id)
	}
	return &abi.HttpResponse{Status: 204}
}

// members: /lbaas/pools/POOL/members[/ID].
func (c *cloud) members(method string, path []string, body object) *abi.HttpResponse {
	p := c.find("pools", path[1])
	if p == nil {
		return fault(404, "Pool %s not found.", path[1])
	}
	if method == "GET" {
		return answer(200, object{"members": c.query("members", url.Values{"pool": {p.id}})})
	}
	list, _ := body["members"].([]any)
	if one, found := body["member"].(object); found {
		list = []any{one}
	}
	for _, m := range list {
		if resp := c.wrong(method, "members", m.(object)); resp != nil {
			return resp
		}
		if len(c.where("members", "pool", p.id)) > 0 && method == "POST" && c.taken(p, m.(object)) {
			return fault(409, "Another member on this pool is already using ip %v", m.(object)["address"])
		}
	}
	if resp := c.begin(lbOf(p), "PENDING_UPDATE"); resp != nil {
		return resp
	}
	switch method {
	case "DELETE":
		c.drop("members", path[3])
		return &abi.HttpResponse{Status: 204}
	case "PUT":
		return c.batch(p, list)
	}
	for _, m := range list {
		c.addMember(p, m.(object))
	}
	return answer(201, object{"member": list[0]})
}

// batch replaces the members by the list. Fields that it omits for an existing
// member are kept.
func (c *cloud) batch(p *row, list []any) *abi.HttpResponse {
	old := c.where("members", "pool", p.id)
	for _, m := range old {
		c.drop("members", m.id)
	}
	for _, m := range list {
		given := m.(object)
		for _, was := range old {
			if was.values["address"] == given["address"] && was.values["protocol_port"] == given["protocol_port"] {
				for key, value := range was.values {
					if _, said := given[key]; !said {
						given[key] = value
					}
				}
			}
		}
		c.addMember(p, given)
	}
	return &abi.HttpResponse{Status: 202}
}

func (c *cloud) taken(p *row, given object) bool {
	return slices.ContainsFunc(c.where("members", "pool", p.id), func(m *row) bool {
		return m.values["address"] == given["address"] && m.values["protocol_port"] == given["protocol_port"]
	})
}
