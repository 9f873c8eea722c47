package loadbalancer_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/wasm-ccm/wasm-ccm/abi"
)

type object = map[string]any

// row is an object of the cloud.
type row struct {
	id     string
	values object
}

// cloud is a small Octavia and Neutron with the relevant behaviour of the real
// ones: objects are immutable during a change, a change is done after some
// looks, and unknown fields are refused.
type cloud struct {
	t testing.TB
	// version is the minor version of Octavia's API.
	version int
	// looks is the number of reads of a load balancer that a change takes.
	looks int
	// cut, if set, may lose a call before or after its effect.
	cut func(n int) (before, behind bool)
	// refuse, if set, may answer in the cloud's place.
	refuse func(req *abi.HttpRequest) *abi.HttpResponse

	now    time.Time
	tables map[string][]*row
	waits  map[string]int // of load balancers by ID
	serial int
	calls  []string // since the last reset
	bodies []string
}

func newCloud(t testing.TB) *cloud {
	c := &cloud{t: t, version: 26, looks: 1, now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), tables: map[string][]*row{}, waits: map[string]int{}}
	c.add("networks", object{"id": "ext", "router:external": true, "subnets": []any{"ext4", "ext4b"}})
	c.add("subnets", object{"id": "ext4", "name": "public-4", "network_id": "ext", "ip_version": 4.0, "tags": []any{"gold", "fast"}})
	c.add("subnets", object{"id": "ext4b", "name": "public-4b", "network_id": "ext", "ip_version": 4.0, "tags": []any{"gold"}})
	c.add("subnets", object{"id": "nodes4", "name": "nodes", "network_id": "nodes", "ip_version": 4.0})
	c.add("subnets", object{"id": "nodes6", "name": "nodes6", "network_id": "nodes", "ip_version": 6.0})
	for i := range 9 {
		c.add("ports", object{"id": fmt.Sprintf("port-%d", i), "device_id": fmt.Sprintf("server-%d", i), "fixed_ips": []any{
			object{"subnet_id": "nodes4", "ip_address": fmt.Sprintf("10.0.0.%d", 10+i)},
			object{"subnet_id": "nodes6", "ip_address": fmt.Sprintf("fd00::%d", 10+i)},
		}})
	}
	return c
}

func (c *cloud) add(table string, values object) *row {
	id, _ := values["id"].(string)
	if id == "" {
		c.serial++
		id = fmt.Sprintf("%s-%d", strings.TrimSuffix(table, "s"), c.serial)
		values["id"] = id
	}
	r := &row{id, values}
	c.tables[table] = append(c.tables[table], r)
	return r
}

func (c *cloud) find(table, id string) *row {
	for _, r := range c.tables[table] {
		if r.id == id {
			return r
		}
	}
	return nil
}

func (c *cloud) where(table, key, value string) []*row {
	var all []*row
	for _, r := range c.tables[table] {
		if str(r.values[key]) == value {
			all = append(all, r)
		}
	}
	return all
}

func (c *cloud) drop(table, id string) {
	c.tables[table] = slices.DeleteFunc(c.tables[table], func(r *row) bool { return r.id == id })
}

func str(v any) string {
	if v == nil {
		return ""
	}
	return fmt.Sprint(v)
}

// writes are the calls that changed something, or tried to.
func (c *cloud) writes() []string {
	return slices.DeleteFunc(slices.Clone(c.calls), func(call string) bool { return strings.HasPrefix(call, "GET ") })
}

func (c *cloud) reset() { c.calls, c.bodies = nil, nil }

// serve is the host's HTTP.
func (c *cloud) serve(req *abi.HttpRequest) (*abi.HttpResponse, error) {
	u, err := url.Parse(req.Url)
	if err != nil {
		c.t.Fatalf("the URL %q: %v", req.Url, err)
	}
	c.calls = append(c.calls, req.Method+" "+u.Path)
	c.bodies = append(c.bodies, string(req.Body))
	lost := &abi.Error{Code: abi.CodeUnavailable, Message: "connection reset"}
	var before, behind bool
	if c.cut != nil {
		before, behind = c.cut(len(c.calls))
	}
	if before {
		return nil, lost
	}
	resp := c.answer(req, u)
	if behind {
		return nil, lost
	}
	return resp, nil
}

func (c *cloud) answer(req *abi.HttpRequest, u *url.URL) *abi.HttpResponse {
	if c.refuse != nil {
		if resp := c.refuse(req); resp != nil {
			return resp
		}
	}
	var body object
	if len(req.Body) > 0 {
		if err := json.Unmarshal(req.Body, &body); err != nil {
			c.t.Fatalf("%s %s: body: %v", req.Method, u.Path, err)
		}
	}
	path := strings.Trim(u.Path, "/")
	switch {
	case strings.HasSuffix(path, "auth/catalog"):
		return answer(200, c.catalog())
	case u.Host == "octavia" && path == "":
		versions := []any{}
		for minor := range c.version + 1 {
			versions = append(versions, object{"id": fmt.Sprintf("v2.%d", minor)})
		}
		return answer(200, object{"versions": versions})
	case strings.HasPrefix(path, "v2.0/lbaas/"):
		return c.octavia(req.Method, strings.Split(strings.TrimPrefix(path, "v2.0/lbaas/"), "/"), u.Query(), body)
	case strings.HasPrefix(path, "v2.0/"):
		return c.neutron(req.Method, strings.Split(strings.TrimPrefix(path, "v2.0/"), "/"), u.Query(), body)
	}
	return fault(404, "no such path %s", u.Path)
}

func (c *cloud) catalog() object {
	services := []any{}
	for name, address := range map[string]string{"network": "http://neutron", "load-balancer": "http://octavia"} {
		services = append(services, object{"type": name, "endpoints": []any{object{"interface": "public", "region": "R", "url": address}}})
	}
	return object{"catalog": services}
}

func answer(status int32, body any) *abi.HttpResponse {
	data, err := json.Marshal(body)
	if err != nil {
		panic(err)
	}
	return &abi.HttpResponse{Status: status, Body: data}
}

func fault(status int32, format string, args ...any) *abi.HttpResponse {
	return answer(status, object{"faultstring": fmt.Sprintf(format, args...), "faultcode": "Client"})
}

// query filters a table.
func (c *cloud) query(table string, query url.Values) []any {
	found := []any{}
	for _, r := range c.tables[table] {
		if matches(r.values, query) {
			found = append(found, r.values)
		}
	}
	return found
}

func matches(values object, query url.Values) bool {
	for key, wanted := range query {
		switch key {
		case "fields", "limit":
		case "loadbalancer_id":
			if !strings.Contains(str(values["loadbalancers"]), wanted[0]+"]") {
				return false
			}
		case "tags", "tags-any", "not-tags", "not-tags-any":
			if !taggedAs(values["tags"], key, strings.Split(wanted[0], ",")) {
				return false
			}
		default:
			if !slices.Contains(wanted, str(values[key])) {
				return false
			}
		}
	}
	return true
}

func taggedAs(tags any, filter string, wanted []string) bool {
	count := 0
	list, _ := tags.([]any)
	for _, tag := range wanted {
		if slices.Contains(list, any(tag)) {
			count++
		}
	}
	switch filter {
	case "tags":
		return count == len(wanted)
	case "tags-any":
		return count > 0
	case "not-tags":
		return count < len(wanted)
	}
	return count == 0
}

// canonical is the whole state without IDs and times, for comparing.
func (c *cloud) canonical() string {
	names := map[string]string{}
	for table, rows := range c.tables {
		for _, r := range rows {
			names[r.id] = table + ":" + cmp.Or(str(r.values["name"]), str(r.values["address"]))
		}
	}
	var lines []string
	for _, table := range []string{"loadbalancers", "listeners", "pools", "members", "healthmonitors", "floatingips"} {
		for _, r := range c.tables[table] {
			clean := object{}
			for key, value := range r.values {
				if key == "id" || key == "created_at" || key == "updated_at" || key == "vip_port_id" || key == "vip_address" || key == "floating_ip_address" || key == "port_id" {
					continue
				}
				clean[key] = value
			}
			clean["bound"] = str(r.values["port_id"]) != ""
			data, err := json.Marshal(clean)
			if err != nil {
				c.t.Fatal(err)
			}
			line := string(data)
			for id, name := range names {
				line = strings.ReplaceAll(line, `"`+id+`"`, `"`+name+`"`)
			}
			lines = append(lines, table+" "+line)
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}
