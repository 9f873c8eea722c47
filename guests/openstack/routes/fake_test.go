package routes_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/guests/openstack/api"
	"github.com/wasm-ccm/wasm-ccm/guests/openstack/cloudconf"
	"github.com/wasm-ccm/wasm-ccm/guests/openstack/routes"
	"github.com/wasm-ccm/wasm-ccm/guests/sdk/sdktest"
)

// cloud is the part of Neutron and Nova that routes need. It behaves as Neutron
// 21 does; the tests with the tag openstack compare them.
type cloud struct {
	mu       sync.Mutex
	atomic   bool // the extension extraroute-atomic
	router   string
	revision int64
	routes   []extraRoute
	ovn      []extraRoute // the network's actual routes; see commit
	ports    []*fakePort
	servers  map[string]string // names
	trunks   []any

	calls []string
	// fail may answer in the cloud's place, before or after the effect.
	fail func(call string, done bool) (status int)
	// meddle is called before a request; race after the begin of its
	// transaction, without the lock.
	meddle, race func(call string)
}

// view is a transaction's view of the router.
type view struct {
	routes   []extraRoute
	revision int64
	ports    map[string]int64 // revisions
}

func (c *cloud) view() view {
	v := view{slices.Clone(c.routes), c.revision, map[string]int64{}}
	for _, p := range c.ports {
		v.ports[p.ID] = p.Revision
	}
	return v
}

type extraRoute struct {
	Destination string `json:"destination"`
	NextHop     string `json:"nexthop"`
}

type fakePort struct {
	ID        string              `json:"id"`
	NetworkID string              `json:"network_id"`
	DeviceID  string              `json:"device_id"`
	FixedIPs  []map[string]string `json:"fixed_ips"`
	Pairs     []map[string]string `json:"allowed_address_pairs"`
	Secured   bool                `json:"port_security_enabled"`
	Revision  int64               `json:"revision_number"`
}

const routerID = "6e2d5a4c-0000-4000-8000-000000000001"

func newCloud() *cloud {
	return &cloud{atomic: true, router: routerID, revision: 1, routes: []extraRoute{}, servers: map[string]string{}}
}

// addNode makes a server with one port.
func (c *cloud) addNode(name string, addresses ...string) *fakePort {
	p := &fakePort{ID: "port-" + name, NetworkID: "net", DeviceID: "server-" + name, Pairs: []map[string]string{}, Secured: true, Revision: 1}
	for _, a := range addresses {
		p.FixedIPs = append(p.FixedIPs, map[string]string{"ip_address": a, "subnet_id": "subnet"})
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ports = append(c.ports, p)
	c.servers[p.DeviceID] = name
	return p
}

func (c *cloud) removeNode(name string) {
	c.ports = slices.DeleteFunc(c.ports, func(p *fakePort) bool { return p.ID == "port-"+name })
	delete(c.servers, "server-"+name)
}

func (c *cloud) serve(req *abi.HttpRequest) (*abi.HttpResponse, error) {
	u, err := url.Parse(req.Url)
	if err != nil {
		return nil, err
	}
	if u.Path == "/v3/auth/catalog" {
		return answer(200, map[string]any{"catalog": []any{catalogEntry("compute", "/compute"), catalogEntry("network", "/network")}}), nil
	}
	call := req.Method + " " + u.Path
	if c.meddle != nil {
		c.meddle(call)
	}
	c.mu.Lock()
	before := c.view()
	c.mu.Unlock()
	runtime.Gosched() // others commit meanwhile
	if c.race != nil {
		c.race(call)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls = append(c.calls, call)
	if c.fail != nil {
		if status := c.fail(call, false); status != 0 {
			return answer(status, map[string]any{}), nil
		}
	}
	status, body := c.handle(call, u.Query(), req, before)
	if c.fail != nil {
		if status := c.fail(call, true); status != 0 {
			return answer(status, map[string]any{}), nil
		}
	}
	return answer(status, body), nil
}

func catalogEntry(kind, path string) map[string]any {
	return map[string]any{"type": kind, "endpoints": []any{map[string]string{"interface": "public", "url": "http://cloud" + path, "region": "one"}}}
}

func answer(status int, body any) *abi.HttpResponse {
	data, err := json.Marshal(body)
	if err != nil {
		panic(err)
	}
	return &abi.HttpResponse{Status: int32(status), Body: data}
}

func refuse(status int, message string) (int, any) {
	return status, map[string]any{"NeutronError": map[string]string{"type": "Error", "message": message, "detail": ""}}
}

func (c *cloud) handle(call string, query url.Values, req *abi.HttpRequest, before view) (int, any) {
	router := "/network/v2.0/routers/" + c.router
	switch {
	case call == "GET "+router:
		return 200, c.shown()
	case call == "PUT "+router:
		return c.putRouter(req, before)
	case c.atomic && (call == "PUT "+router+"/add_extraroutes" || call == "PUT "+router+"/remove_extraroutes"):
		return c.changeRoutes(strings.HasSuffix(call, "/add_extraroutes"), req, before)
	case call == "GET /network/v2.0/ports":
		return 200, map[string]any{"ports": c.listPorts(query)}
	case call == "GET /network/v2.0/trunks":
		return 200, map[string]any{"trunks": c.trunks}
	case strings.HasPrefix(call, "GET /network/v2.0/ports/"), strings.HasPrefix(call, "PUT /network/v2.0/ports/"):
		return c.onePort(call, req, before)
	case c.atomic && call == "GET /network/v2.0/extensions/extraroute-atomic":
		return 200, map[string]any{"extension": map[string]string{"alias": "extraroute-atomic"}}
	case call == "GET /compute/servers":
		return 200, map[string]any{"servers": c.listServers()}
	case strings.HasPrefix(call, "GET /compute/servers/"):
		id := strings.TrimPrefix(call, "GET /compute/servers/")
		if name, found := c.servers[id]; found {
			return 200, map[string]any{"server": map[string]string{"id": id, "name": name}}
		}
	}
	return refuse(404, "The resource could not be found.")
}

func (c *cloud) shown() any {
	return map[string]any{"router": map[string]any{"routes": slices.Clone(c.routes), "revision_number": c.revision}}
}

func (c *cloud) listServers() []map[string]string {
	servers := []map[string]string{}
	for id, name := range c.servers {
		if !strings.HasPrefix(name, "hidden-") {
			servers = append(servers, map[string]string{"id": id, "name": name})
		}
	}
	return servers
}

func outdated(req *abi.HttpRequest, revision int64) bool {
	for _, h := range req.Headers {
		if h.Name == "If-Match" {
			return h.Value != "revision_number="+strconv.FormatInt(revision, 10)
		}
	}
	return false
}

func (c *cloud) putRouter(req *abi.HttpRequest, before view) (int, any) {
	if outdated(req, before.revision) {
		return refuse(412, "Constrained to another revision")
	}
	var in struct{ Router struct{ Routes []extraRoute } }
	if err := json.Unmarshal(req.Body, &in); err != nil {
		return refuse(400, err.Error())
	}
	return c.commit(before, in.Router.Routes)
}

func (c *cloud) changeRoutes(add bool, req *abi.HttpRequest, before view) (int, any) {
	var in struct{ Router struct{ Routes []extraRoute } }
	if err := json.Unmarshal(req.Body, &in); err != nil {
		return refuse(400, err.Error())
	}
	list := without(before.routes, in.Router.Routes)
	if add {
		list = append(list, in.Router.Routes...)
	}
	return c.commit(before, list)
}

// commit changes routes as Neutron 21 with OVN does: the difference between the
// transaction's view and its new list goes into the database. The whole new
// list goes to OVN, and may lack what others have added meanwhile. A
// transaction without a change has an old revision, which OVN does not take.
func (c *cloud) commit(before view, list []extraRoute) (int, any) {
	for _, r := range list {
		hop, err := netip.ParseAddr(r.NextHop)
		if err != nil || !netip.MustParsePrefix("10.0.0.0/16").Contains(hop) && !netip.MustParsePrefix("fd00::/64").Contains(hop) {
			return refuse(400, "Invalid format for routes: the nexthop is not connected with router")
		}
	}
	added, removed := without(list, before.routes), without(before.routes, list)
	c.routes = append(without(c.routes, slices.Concat(removed, added)), added...)
	if len(added)+len(removed) > 0 {
		c.revision++
		c.ovn = list
	} else if before.revision == c.revision {
		c.ovn = list
	}
	return 200, map[string]any{"router": map[string]any{"routes": list, "revision_number": c.revision}}
}

func without(list, removed []extraRoute) []extraRoute {
	return slices.DeleteFunc(slices.Clone(list), func(r extraRoute) bool { return slices.Contains(removed, r) })
}

func (c *cloud) listPorts(query url.Values) []*fakePort {
	if device := query.Get("device_id"); device == c.router {
		return []*fakePort{{ID: "router-port", NetworkID: "net", DeviceID: device}}
	}
	found := []*fakePort{}
	for _, p := range c.ports {
		match := slices.Contains(query["id"], p.ID)
		for _, ip := range p.FixedIPs {
			match = match || slices.Contains(query["fixed_ips"], "ip_address="+ip["ip_address"])
		}
		if match {
			found = append(found, p)
		}
	}
	return found
}

// onePort: If-Match is compared with the transaction's view, as Neutron does.
func (c *cloud) onePort(call string, req *abi.HttpRequest, before view) (int, any) {
	i := slices.IndexFunc(c.ports, func(p *fakePort) bool { return strings.HasSuffix(call, "/"+p.ID) })
	if i < 0 {
		return refuse(404, "Port could not be found.")
	}
	p := c.ports[i]
	if req.Method == http.MethodPut {
		if outdated(req, before.ports[p.ID]) {
			return refuse(412, "Constrained to another revision")
		}
		var in struct {
			Port struct {
				Pairs []map[string]string `json:"allowed_address_pairs"`
			}
		}
		if err := json.Unmarshal(req.Body, &in); err != nil {
			return refuse(400, err.Error())
		}
		for _, pair := range in.Port.Pairs {
			if pair["mac_address"] == "" {
				pair["mac_address"] = "fa:16:3e:00:00:01"
			}
		}
		p.Pairs, p.Revision = in.Port.Pairs, p.Revision+1
	}
	return 200, map[string]any{"port": p}
}

// state is the cloud's state, for comparison.
func (c *cloud) state() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	lines := []string{}
	for _, r := range c.routes {
		lines = append(lines, r.name())
	}
	for _, p := range c.ports {
		for _, pair := range p.Pairs {
			lines = append(lines, p.ID+" allows "+pair["ip_address"])
		}
	}
	for _, r := range without(c.routes, c.ovn) {
		lines = append(lines, r.name()+" is not in OVN")
	}
	for _, r := range without(c.ovn, c.routes) {
		lines = append(lines, r.name()+" is in OVN only")
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

func (r extraRoute) name() string { return r.Destination + " via " + r.NextHop }

// took returns the calls since the last time, without the endpoint.
func (c *cloud) took() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	calls := []string{}
	for _, call := range c.calls {
		call = strings.ReplaceAll(call, "/network/v2.0", "")
		calls = append(calls, strings.ReplaceAll(call, c.router, "ROUTER"))
	}
	c.calls = nil
	return calls
}

// manager has a cold cache.
type manager struct {
	host   *sdktest.Host
	config *cloudconf.Config
}

// r serves one op.
func (m *manager) r() told {
	return told{routes.New(api.New(m.host.Op(), &m.config.Global), m.config), m.host}
}

// told keeps answers for the host's own tests.
type told struct {
	*routes.Routes
	host *sdktest.Host
}

func (r told) List() ([]*abi.Route, error) {
	all, err := r.Routes.List()
	if err == nil {
		r.host.Answered(abi.OpRouteList, &abi.RouteListResponse{Routes: all, Done: true})
	}
	return all, err
}

func newManager(t *testing.T, c *cloud) *manager {
	t.Helper()
	config := &cloudconf.Config{Global: cloudconf.Global{AuthURL: "http://cloud", EndpointType: "public"}, Route: cloudconf.Route{RouterID: routerID}}
	h := sdktest.New(t)
	h.HTTP = c.serve
	return &manager{h, config}
}

func route(node, cidr string, addresses ...string) *abi.Route {
	r := &abi.Route{TargetNode: node, DestinationCidr: cidr, HasTargetNodeAddresses: true}
	r.TargetNodeAddresses = append(r.TargetNodeAddresses, &abi.NodeAddress{Type: abi.AddressType_ADDRESS_TYPE_HOSTNAME, Address: node})
	for _, a := range addresses {
		r.TargetNodeAddresses = append(r.TargetNodeAddresses, &abi.NodeAddress{Type: abi.AddressType_ADDRESS_TYPE_INTERNAL_IP, Address: a})
	}
	return r
}

func (m *manager) create(r *abi.Route) error { return m.r().Create(&abi.RouteCreateRequest{Route: r}) }

func (m *manager) delete(r *abi.Route) error { return m.r().Delete(&abi.RouteDeleteRequest{Route: r}) }

func (m *manager) list(t *testing.T) []string {
	t.Helper()
	listed, err := m.r().List()
	if err != nil {
		t.Fatalf("list: %v", err)
	}
	lines := []string{}
	for _, r := range listed {
		line := r.DestinationCidr + " to " + r.TargetNode
		if r.Blackhole {
			line += " (blackhole)"
		}
		if r.HasTargetNodeAddresses {
			line += fmt.Sprintf(" (addresses %v)", r.TargetNodeAddresses)
		}
		lines = append(lines, line)
	}
	slices.Sort(lines)
	return lines
}
