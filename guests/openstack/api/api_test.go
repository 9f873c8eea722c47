package api

import (
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/guests/openstack/cloudconf"
	"github.com/wasm-ccm/wasm-ccm/guests/sdk"
	"github.com/wasm-ccm/wasm-ccm/guests/sdk/sdktest"
)

// catalogBody has one region with each service at its usual path.
const catalogBody = `{"catalog": [
	{"type": "compute", "endpoints": [{"interface": "public", "region": "RegionOne", "region_id": "RegionOne", "url": "https://nova:8774/v2.1"}]},
	{"type": "network", "endpoints": [{"interface": "public", "region": "RegionOne", "region_id": "RegionOne", "url": "https://neutron:9696"}]},
	{"type": "load-balancer", "endpoints": [{"interface": "public", "region": "RegionOne", "region_id": "RegionOne", "url": "https://octavia:9876"}]},
	{"type": "block-storage", "endpoints": [{"interface": "public", "region": "RegionOne", "region_id": "RegionOne", "url": "https://cinder:8776/v3/0123abcd"}]}]}`

// cloud answers with the catalog, or else by respond. It records requests.
type cloud struct {
	catalog string
	respond func(req *abi.HttpRequest) (*abi.HttpResponse, error)
	sent    []*abi.HttpRequest
}

func (c *cloud) serve(req *abi.HttpRequest) (*abi.HttpResponse, error) {
	c.sent = append(c.sent, req)
	if strings.HasSuffix(req.Url, "/auth/catalog") {
		return &abi.HttpResponse{Status: 200, Body: []byte(c.catalog)}, nil
	}
	return c.respond(req)
}

// urls are those of all requests but the catalog's.
func (c *cloud) urls() (urls []string) {
	for _, req := range c.sent {
		if !strings.HasSuffix(req.Url, "/auth/catalog") {
			urls = append(urls, req.Method+" "+req.Url)
		}
	}
	return urls
}

func global() *cloudconf.Global {
	return &cloudconf.Global{AuthURL: "https://keystone:5000/v3", EndpointType: "public", Credential: "openstack"}
}

func newClient(t testing.TB, c *cloud) (*Client, *sdktest.Host) {
	h := sdktest.New(t)
	h.HTTP = c.serve
	if c.catalog == "" {
		c.catalog = catalogBody
	}
	return New(h.Op(), global()), h
}

func answering(status int32, body string, headers ...string) *cloud {
	resp := &abi.HttpResponse{Status: status, Body: []byte(body)}
	for i := 0; i < len(headers); i += 2 {
		resp.Headers = append(resp.Headers, &abi.HttpHeader{Name: headers[i], Value: headers[i+1]})
	}
	return &cloud{respond: func(*abi.HttpRequest) (*abi.HttpResponse, error) { return resp, nil }}
}

type server struct{ ID, Name string }

// getServer is one GET of a server, as package instances sends it.
func getServer(c *Client) (server, error) {
	var s server
	err := c.Get(Compute, "/servers/"+Segment("one"), nil, "server", &s)
	return s, err
}

func TestRequests(t *testing.T) {
	fake := answering(200, `{"server": {"id": "one", "name": "n"}, "loadbalancer": {"id": "lb"}}`)
	c, h := newClient(t, fake)
	if s, err := getServer(c); err != nil || s != (server{"one", "n"}) {
		t.Fatal(s, err)
	}
	var lb server
	if err := c.Post(LoadBalancer, "/lbaas/loadbalancers", "loadbalancer", map[string]any{"name": "ü"}, &lb); err != nil || lb.ID != "lb" {
		t.Fatal(lb, err)
	}
	if err := c.Put(Network, "/routers/r", "router", map[string]any{"routes": nil}, nil); err != nil {
		t.Fatal(err)
	}
	if err := c.Delete(LoadBalancer, "/lbaas/loadbalancers/lb", Query("cascade", "true")); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"GET https://nova:8774/v2.1/servers/one", "POST https://octavia:9876/v2.0/lbaas/loadbalancers",
		"PUT https://neutron:9696/v2.0/routers/r", "DELETE https://octavia:9876/v2.0/lbaas/loadbalancers/lb?cascade=true",
	}
	if diff := cmp.Diff(want, fake.urls()); diff != "" {
		t.Error(diff)
	}
	if body := string(fake.sent[2].Body); body != `{"loadbalancer":{"name":"ü"}}` {
		t.Error(body)
	}
	for _, req := range fake.sent {
		if req.Credential != "openstack" || req.TimeoutMs != 29750 {
			t.Errorf("%s: credential %q, %d ms of the op's 30 s", req.Url, req.Credential, req.TimeoutMs)
		}
	}
	if got := headersOf(fake.sent[1]); got != "Accept: application/json, OpenStack-API-Version: compute 2.47, X-OpenStack-Nova-API-Version: 2.47" {
		t.Error(got)
	}
	if got := headersOf(fake.sent[2]); got != "Accept: application/json, Content-Type: application/json" {
		t.Error(got)
	}
	// Another op of the same generation does not reread the catalog.
	if _, err := getServer(New(h.Op(), global())); err != nil || len(fake.sent) != 6 {
		t.Errorf("%d requests, %v", len(fake.sent), err)
	}
	h.Clock = h.Clock.Add(catalogLife)
	if _, err := getServer(New(h.Op(), global())); err != nil || len(fake.sent) != 8 {
		t.Errorf("an hour later: %d requests, %v", len(fake.sent), err)
	}
}

func headersOf(req *abi.HttpRequest) string {
	var all []string
	for _, h := range req.Headers {
		all = append(all, h.Name+": "+h.Value)
	}
	return strings.Join(all, ", ")
}

// Parallel reads are sent together, and each succeeds or fails alone.
func TestReads(t *testing.T) {
	fake := &cloud{respond: func(req *abi.HttpRequest) (*abi.HttpResponse, error) {
		if strings.HasPrefix(req.Url, "https://neutron") {
			return &abi.HttpResponse{Status: 404, Body: []byte(`{"NeutronError": {"type": "PortNotFound", "message": "Port p could not be found", "detail": ""}}`)}, nil
		}
		return &abi.HttpResponse{Status: 200, Body: []byte(`{"server": {"id": "one"}}`)}, nil
	}}
	c, _ := newClient(t, fake)
	var s, p server
	errs := c.Reads(&Read{Service: Compute, Path: "/servers/one", Key: "server", Out: &s}, &Read{Service: Network, Path: "/ports/p", Key: "port", Out: &p})
	if errs[0] != nil || s.ID != "one" {
		t.Error(s, errs[0])
	}
	if !IsNotFound(errs[1]) || errs[1].Error() != "GET neutron:9696/v2.0/ports/p: the cloud answers 404 Not Found: Port p could not be found" {
		t.Error(errs[1])
	}
	errs = c.Reads(&Read{Service: Compute, Path: "/servers/one", Key: "server", Out: &s}, &Read{Service: "shared-file-system", Path: "/x", Key: "x", Out: &p})
	for _, err := range errs {
		if sdk.CodeOf(err) != abi.CodeInvalid {
			t.Error(err)
		}
	}
}

// An ID from an annotation or a provider ID is exactly one segment of the path.
func TestSegments(t *testing.T) {
	fake := answering(200, `{"server": {}}`)
	c, _ := newClient(t, fake)
	ids := map[string]string{
		"a/../b": "a%2F..%2Fb", "..": "%2E", ".": "%2E", "a?b=c": "a%3Fb=c", "a#b": "a%23b", "a b": "a%20b", "%2e%2e": "%252e%252e", `a\b`: "a%5Cb",
		"a\r\nX-Auth-Token: x": "a%0D%0AX-Auth-Token:%20x", "ü\x00": "%C3%BC%00", "@evil.example.com": "@evil.example.com", "a;b": "a%3Bb",
	}
	for id, want := range ids {
		fake.sent = nil
		if err := c.Get(Compute, "/servers/"+Segment(id), nil, "server", &server{}); err != nil {
			t.Errorf("%q: %v", id, err)
		}
		urls := fake.urls()
		if len(urls) != 1 || urls[0] != "GET https://nova:8774/v2.1/servers/"+want {
			t.Errorf("%q: %q", id, urls)
			continue
		}
		u, err := url.Parse(strings.TrimPrefix(urls[0], "GET "))
		if err != nil || u.Host != "nova:8774" || u.RawQuery != "" || u.Fragment != "" || strings.ContainsAny(urls[0][4:], "\r\n\x00 ") {
			t.Errorf("%q: %+v, %v", id, u, err)
		}
	}
	fake.sent = nil
	for _, path := range []string{"/servers/" + Segment(""), "/pools/" + Segment("") + "/members/x", "", "servers/x"} {
		err := c.Get(Compute, path, nil, "server", &server{})
		if sdk.CodeOf(err) != abi.CodeInvalid || err.Error() != "GET compute"+path+": an ID is empty" {
			t.Errorf("%q: %v", path, err)
		}
		if err := c.Delete(LoadBalancer, path, nil); sdk.CodeOf(err) != abi.CodeInvalid {
			t.Errorf("DELETE %q: %v", path, err)
		}
	}
	if urls := fake.urls(); len(urls) > 0 {
		t.Errorf("sent for an empty ID: %q", urls)
	}
}

// An op that runs out of time names the unanswered request before the host ends
// the op.
func TestLittleTime(t *testing.T) {
	for left, want := range map[time.Duration]int64{10 * time.Second: 9750, 501 * time.Millisecond: 251, 500 * time.Millisecond: 0, 0: 0} {
		fake := answering(200, `{"server": {}}`)
		c, h := newClient(t, fake)
		h.Time = left
		if _, err := getServer(c); err != nil || fake.sent[1].TimeoutMs != want {
			t.Errorf("%v left: a request of %d ms, %v", left, fake.sent[1].TimeoutMs, err)
		}
	}
}
