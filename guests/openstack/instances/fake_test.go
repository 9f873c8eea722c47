package instances

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/guests/openstack/api"
	"github.com/wasm-ccm/wasm-ccm/guests/openstack/cloudconf"
	"github.com/wasm-ccm/wasm-ccm/guests/sdk/sdktest"
)

type object = map[string]any

// fakeCloud is Keystone's catalog and the needed parts of Nova and Neutron.
type fakeCloud struct {
	t        testing.TB
	servers  []object // of microversion 2.47, and "flavor_id"
	ports    []object
	networks []object
	// limit is the largest size of a page; 0 for 1000.
	limit int
	// instead may answer in the cloud's place. May be nil, and return nil.
	instead  func(req *abi.HttpRequest) *abi.HttpResponse
	requests []string // METHOD path, without Keystone's
	longest  int      // URL, in bytes
}

const catalog = `{"catalog": [
	{"type": "compute", "endpoints": [{"interface": "public", "region_id": "R1", "url": "https://nova/v2.1"}]},
	{"type": "network", "endpoints": [{"interface": "public", "region_id": "R1", "url": "https://neutron"}]}]}`

func answer(status int32, body string) *abi.HttpResponse {
	return &abi.HttpResponse{Status: status, Body: []byte(body)}
}

func (f *fakeCloud) serve(req *abi.HttpRequest) (*abi.HttpResponse, error) {
	u, err := url.Parse(req.Url)
	if err != nil {
		f.t.Fatal(err)
	}
	if u.Host == "keystone" {
		return answer(200, catalog), nil
	}
	f.requests = append(f.requests, req.Method+" "+u.Path)
	f.longest = max(f.longest, len(req.Url))
	if f.instead != nil {
		if resp := f.instead(req); resp != nil {
			return resp, nil
		}
	}
	query := u.Query()
	switch id, one := strings.CutPrefix(u.Path, "/v2.1/servers/"); {
	case id == "detail":
		return f.listServers(query, version(req)), nil
	case one:
		return f.getServer(id, version(req)), nil
	case u.Path == "/v2.0/ports":
		return f.list("ports", f.ports, query), nil
	case u.Path == "/v2.0/networks":
		return f.list("networks", f.networks, query), nil
	}
	f.t.Errorf("unexpected request %s %s", req.Method, req.Url)
	return answer(404, "{}"), nil
}

func version(req *abi.HttpRequest) string {
	values := []string{}
	for _, h := range req.Headers {
		if h.Name == "OpenStack-API-Version" {
			values = append(values, h.Value)
		}
	}
	return strings.Join(values, ",")
}

// shown is a server in the form of the microversion.
func shown(server object, version string) object {
	server = maps.Clone(server)
	id := server["flavor_id"]
	delete(server, "flavor_id")
	if version == "compute 2.1" {
		server["flavor"] = object{"id": id, "links": []any{}}
	}
	return server
}

func (f *fakeCloud) getServer(id, version string) *abi.HttpResponse {
	for _, s := range f.servers {
		if s["id"] == id {
			return f.encode(object{"server": shown(s, version)})
		}
	}
	return answer(404, `{"itemNotFound": {"code": 404, "message": "Instance `+id+` could not be found."}}`)
}

func (f *fakeCloud) listServers(query url.Values, version string) *abi.HttpResponse {
	start := 0
	if marker := query.Get("marker"); marker != "" {
		start = 1 + slices.IndexFunc(f.servers, func(s object) bool { return s["id"] == marker })
		if start == 0 {
			return answer(400, `{"badRequest": {"code": 400, "message": "marker [`+marker+`] not found"}}`)
		}
	}
	limit := f.limitOf(query)
	page := []object{}
	for _, s := range f.servers[start:] {
		name, _ := s["name"].(string)
		// MySQL's REGEXP ignores case.
		if !regexp.MustCompile("(?i)" + query.Get("name")).MatchString(name) {
			continue
		}
		if len(page) < limit {
			page = append(page, shown(s, version))
		}
	}
	list := object{"servers": page}
	if len(page) == limit {
		next := fmt.Sprintf("http://nova.internal/v2.1/servers/detail?limit=%d&marker=%s", limit, page[limit-1]["id"])
		list["servers_links"] = []object{{"rel": "next", "href": next}}
	}
	return f.encode(list)
}

func (f *fakeCloud) limitOf(query url.Values) int {
	limit := 1000
	if f.limit != 0 {
		limit = f.limit
	}
	if n, err := strconv.Atoi(query.Get("limit")); err == nil {
		limit = min(limit, n)
	}
	return limit
}

// list is one of Neutron's lists.
func (f *fakeCloud) list(key string, all []object, query url.Values) *abi.HttpResponse {
	page, more := []object{}, ""
	passed := query.Get("marker") == ""
	for _, o := range all {
		switch {
		case !passed:
			passed = o["id"] == query.Get("marker")
			continue
		case !matches(o, query, "device_id") || !matches(o, query, "id"):
			continue
		case len(page) == f.limitOf(query):
			query.Set("marker", page[len(page)-1]["id"].(string))
			more = "http://neutron.internal/v2.0/x?" + query.Encode()
		}
		if more != "" {
			break
		}
		page = append(page, o)
	}
	list := object{key: page}
	if more != "" {
		list[key+"_links"] = []object{{"rel": "next", "href": more}}
	}
	return f.encode(list)
}

func matches(o object, query url.Values, key string) bool {
	wanted := query[key]
	value, _ := o[key].(string)
	return len(wanted) == 0 || slices.Contains(wanted, value)
}

func (f *fakeCloud) encode(v any) *abi.HttpResponse {
	body, err := json.Marshal(v)
	if err != nil {
		f.t.Fatal(err)
	}
	return answer(200, string(body))
}

// instances returns what is tested, with those lines behind [Networking].
func (f *fakeCloud) instances(lines ...string) told {
	return f.configured("[Global]\nauth-url = https://keystone\nregion = R1\n[Networking]\n" + strings.Join(lines, "\n"))
}

func (f *fakeCloud) configured(text string) told {
	f.t.Helper()
	config, _, err := cloudconf.Parse([]byte(text))
	if err != nil {
		f.t.Fatal(err)
	}
	h := sdktest.New(f.t)
	h.HTTP = f.serve
	return told{New(api.New(h.Op(), &config.Global), config), h}
}

// told keeps what is answered for the host's own tests.
type told struct {
	*Instances
	host *sdktest.Host
}

func (i told) Metadata(node *abi.Node) (*abi.InstanceMetadata, error) {
	m, err := i.Instances.Metadata(node)
	if err == nil {
		i.host.Answered(abi.OpInstanceMetadata, &abi.InstanceMetadataResponse{Metadata: m})
	}
	return m, err
}

func (i told) List(token string, size int) ([]*abi.Instance, string, error) {
	page, next, err := i.Instances.List(token, size)
	if err == nil {
		i.host.Answered(abi.OpListInstances, &abi.ListInstancesResponse{Instances: page, NextPageToken: next, Done: true})
	}
	return page, next, err
}

func uuid(n int) string { return fmt.Sprintf("5e1f0000-0000-4000-8000-%012d", n) }

// addServer adds a server, its port, and returns the server to be changed.
func (f *fakeCloud) addServer(n int, name string, ips ...string) object {
	fixed, known := []object{}, []object{}
	for _, ip := range ips {
		fixed = append(fixed, object{"ip_address": ip, "subnet_id": "s"})
		known = append(known, object{"addr": ip, "version": 4, "OS-EXT-IPS:type": "fixed"})
	}
	s := object{
		"id": uuid(n), "name": name, "status": "ACTIVE", "accessIPv4": "", "accessIPv6": "", "metadata": object{},
		"addresses": object{"private": known}, "OS-EXT-AZ:availability_zone": "nova",
		"flavor": object{"original_name": "m1.small", "vcpus": 1}, "flavor_id": "1",
	}
	f.servers = append(f.servers, s)
	f.ports = append(f.ports, object{"id": fmt.Sprintf("port-%04d", n), "device_id": uuid(n), "status": "ACTIVE", "fixed_ips": fixed})
	return s
}

// text is metadata for comparison, one item per line.
func text(m *abi.InstanceMetadata) string {
	if m == nil {
		return "none"
	}
	lines := []string{m.ProviderId, m.InstanceType, m.Zone, m.Region}
	return strings.Join(append(lines, addressesOf(m)...), "\n")
}

func addressesOf(m *abi.InstanceMetadata) (lines []string) {
	kinds := map[abi.AddressType]string{internalIP: "internal", externalIP: "external", hostName: "hostname"}
	for _, a := range m.Addresses {
		lines = append(lines, kinds[a.Type]+" "+a.Address)
	}
	return lines
}
